// What the canvas knows of plug-ins: their outputs, whether they have an input, and how the palette shows them.
import type { PalettePlugin } from "../../api/types";
import type { IconName } from "../../ui/icons";
import { pluginId, type Doc, type Stage } from "./document";
import { edgesOf } from "./graph";

export interface OutputShown {
  name: string;
  help: string;
  /** Whether the plug-in says that it has it. */
  known: boolean;
}

export type Plugins = ReadonlyMap<string, PalettePlugin>;

const CRAWL = new Set(
  "seed url-normaliser seen-urls frontier domain-filter robots downloader content-filter charset-decoder link-extractor text-extractor field-extractor near-duplicates change-detector page-store warc-writer".split(" "),
);

const NAMES: Record<string, string> = {
  source: "Where events begin", sources: "Where events begin", providers: "Where events begin", provider: "Where events begin",
  change: "Change events", transform: "Change events", processors: "Change events", processor: "Change events",
  state: "Remember and compute", window: "Remember and compute",
  sink: "Where events go", sinks: "Where events go",
  crawl: "Crawl", crawler: "Crawl", control: "Steer the flow",
};

export function categoryOf(plugin: PalettePlugin): string {
  if (plugin.category) return NAMES[plugin.category] ?? plugin.category[0]?.toUpperCase() + plugin.category.slice(1);
  if (CRAWL.has(plugin.id)) return "Crawl";
  if (plugin.kind === "provider") return "Where events begin";
  if (plugin.id.startsWith("to-")) return "Where events go";
  return plugin.repository && plugin.repository !== "built-in" ? "From repositories" : "Change events";
}

const CATEGORY_ORDER = ["Where events begin", "Change events", "Remember and compute", "Steer the flow", "Crawl", "Where events go"];

/** In the order in which events pass. */
export function grouped(plugins: Iterable<PalettePlugin>): { title: string; plugins: PalettePlugin[] }[] {
  const groups = new Map<string, PalettePlugin[]>();
  for (const plugin of plugins) {
    const title = categoryOf(plugin);
    groups.set(title, [...(groups.get(title) ?? []), plugin]);
  }
  const rank = (title: string) => (CATEGORY_ORDER.indexOf(title) + 1 || CATEGORY_ORDER.length + 1);
  return [...groups].map(([title, list]) => ({ title, plugins: list })).sort((a, b) => rank(a.title) - rank(b.title) || a.title.localeCompare(b.title));
}

/** Whether it only takes events: it has no output, and its outputs do not come from its parameters. */
export function isSink(plugin: PalettePlugin | undefined): boolean {
  return plugin !== undefined && plugin.kind === "processor" && (plugin.outputs?.length ?? 0) === 0 && plugin.id !== "split";
}

const ICONS: Record<string, IconName> = {
  generator: "generate", timer: "history", "file-lines": "file", "to-file": "file", "to-csv": "file", "from-queue": "inbox", "to-queue": "inbox", "from-topic": "topic", "to-topic": "topic",
  "from-http": "crawl", "to-http": "crawl", map: "change", "flat-map": "change", filter: "filter", split: "split", merge: "merge", "key-by": "key", aggregate: "sum", window: "window", join: "merge",
  deduplicate: "layers", throttle: "gauge", prioritise: "gauge", batch: "layers", enrich: "link", "to-sqlite": "store", "to-postgres": "store", "page-store": "store", "warc-writer": "store",
  "to-prometheus": "chart", answer: "service", seed: "play", frontier: "queue", downloader: "download", "domain-filter": "filter", robots: "filter", "content-filter": "filter", "seen-urls": "layers",
  "near-duplicates": "layers", "url-normaliser": "change", "charset-decoder": "change", "text-extractor": "file", "link-extractor": "link", "field-extractor": "file", "change-detector": "history",
};

export function iconOf(reference: string, plugin: PalettePlugin | undefined): IconName {
  const known = ICONS[pluginId(reference)];
  if (known) return known;
  if (plugin?.kind === "provider") return "play";
  return isSink(plugin) ? "store" : "plugin";
}

export function pluginOf(plugins: Plugins, stage: Stage | undefined): PalettePlugin | undefined {
  return stage ? plugins.get(pluginId(stage.plugin)) : undefined;
}

/** Outputs that only the parameters name: those of `split`. */
function outputsOfParameters(stage: Stage): string[] {
  const parameters = stage.parameters;
  if (pluginId(stage.plugin) !== "split" || parameters === null || typeof parameters !== "object") return [];
  const { outputs, otherwise } = parameters as { outputs?: unknown; otherwise?: unknown };
  const named = Array.isArray(outputs) ? outputs.map((one: unknown) => (one as { name?: unknown } | null)?.name).filter((name) => typeof name === "string" && name !== "") : [];
  return [...new Set([...(named as string[]), typeof otherwise === "string" && otherwise ? otherwise : "other", "refused"])];
}

/** All outputs of a stage: those of its plug-in, of its parameters, and those from which edges go. */
export function outputsOf(stage: Stage, plugin: PalettePlugin | undefined): OutputShown[] {
  const shown: OutputShown[] = (plugin?.outputs ?? []).map(({ name, description }) => ({ name, help: description, known: true }));
  const add = (name: string, known: boolean) => {
    if (!shown.some((one) => one.name === name)) shown.push({ name, help: "", known });
  };
  for (const name of outputsOfParameters(stage)) add(name, true);
  for (const name of Object.keys(stage.outputs ?? {})) add(name, false);
  // Of a plug-in that is not known one may hope that it has the usual output.
  if (shown.length === 0 && !plugin) add("out", false);
  return shown;
}

/** The output from which one most likely wants to go on: the first without an edge, beginning with `out`. */
export function likelyOutput(stage: Stage, plugin: PalettePlugin | undefined): string | null {
  const all = outputsOf(stage, plugin).map(({ name }) => name);
  const free = all.filter((name) => (stage.outputs?.[name]?.length ?? 0) === 0);
  return free.find((name) => name === "out") ?? (all.includes("out") ? "out" : (free[0] ?? all[0] ?? null));
}

export function isProvider(plugins: Plugins, doc: Doc, name: string): boolean {
  return pluginOf(plugins, doc.stages[name])?.kind === "provider";
}

/** Why this edge cannot be, in words; null if it can. */
export function whyNot(doc: Doc, plugins: Plugins, stage: string, output: string, target: string): string | null {
  const from = doc.stages[stage];
  if (!from) return "An edge begins at a stage";
  if (from.outputs?.[output]?.includes(target)) return `${stage} already leads to ${target} from ${output}`;
  if (isProvider(plugins, doc, target)) return `${target} is a provider and has no input`;
  const plugin = pluginOf(plugins, from);
  if (isSink(plugin)) return `${stage} has no output: events end there`;
  const known = outputsOf(from, plugin).filter((one) => one.known);
  if (known.length > 0 && !known.some(({ name }) => name === output)) return `${from.plugin} has no output ${output}`;
  return null;
}

/** Stages on whose way the stage lies: an edge back to them closes a cycle. */
export function leadsTo(doc: Doc, from: string, to: string): boolean {
  const out = new Map<string, string[]>();
  for (const { stage, target } of edgesOf(doc)) out.set(stage, [...(out.get(stage) ?? []), target]);
  const seen = new Set([from]);
  const open = [from];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    if (at === to) return true;
    for (const next of out.get(at) ?? []) if (!seen.has(next)) (seen.add(next), open.push(next));
  }
  return false;
}
