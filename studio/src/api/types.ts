// The types that pages use, by their short names.
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Alert = Schemas["AlertShown"];
export type ConfigKey = Schemas["KeyShown"];
export type Crawl = Schemas["CrawlListed"];
export type CrawlShown = Schemas["CrawlShown"];
export type DeadLetter = Schemas["LetterShown"];
export type Flow = Omit<Schemas["FlowShown"], "stages"> & { stages: Stage[] };
export type FlowDocument = Schemas["FlowDocument"];
export type FlowDocumentGiven = Schemas["FlowDocumentGiven"];
export type FlowVersion = Schemas["FlowVersion"];
export type LogLine = Schemas["LineShown"];
export type Message = Schemas["EntryShown"];
export type Node = Schemas["NodeShown"];
/** A stage as the API shows it. `paused` is there as soon as the node knows about pausing. */
export type Stage = Schemas["StageShown"] & { paused?: boolean };
export type StageInDocument = Schemas["DocumentStage"];
export type Queue = Schemas["QueueShown"];
export type ThisNode = Schemas["ThisNode"];
export type Topic = Schemas["TopicShown"];
export type Worker = Schemas["WorkerView"];

export type {
  Client,
  ClientSubscription,
  Example,
  ExampleNeed,
  PalettePlugin,
  Sample,
  SampledEvent,
} from "./extra";
export { ApiProblem, type DocumentProblem } from "./problem";
