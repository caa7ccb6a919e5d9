// What happened, in sentences: events of all nodes and requests that changed something.
import type { NodeEvent } from "../live/events.svelte";
import { href } from "../router/match";
import type { Tone } from "../ui/Badge.svelte";

export interface Story {
  key: string;
  at_ms: number;
  node: string;
  kind: string;
  tone: Tone;
  sentence: string;
  detail: string;
  /** Where one sees more. */
  link: string | null;
}

const bad = new Set(["failed", "refused", "rolled-back", "gone"]);

function text(event: NodeEvent, name: string): string {
  const value = event[name];
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

function labels(event: NodeEvent): string {
  const given = event["labels"];
  return given && typeof given === "object" ? Object.entries(given).map(([key, value]) => `${key}=${String(value)}`).join(", ") : "";
}

function sentenceOf(event: NodeEvent): string {
  const stage = event.stage ?? "", flow = event.flow ?? "", version = text(event, "version");
  switch (`${event.kind} ${event.event}`) {
    case "node joined": return `${event.node} joined with version ${version}`;
    case "node left": return `${event.node} left`;
    case "node gone": return `${event.node} is gone`;
    case "node returned": return `${event.node} is back`;
    case "node changed": return `${event.node} is ${text(event, "state")} now`;
    case "stage deployed": return `${stage} was deployed`;
    case "stage replaced": return `${stage} runs version ${version} now`;
    case "stage refused": return `${stage}: a version was refused`;
    case "stage rolled-back": return `${stage} went back to the version before`;
    case "stage restarted": return `${stage} was restarted`;
    case "stage failed": return `${stage} gave up`;
    case "stage stopped": return `${stage} was stopped`;
    case "stage paused": return `${stage} was paused`;
    case "stage resumed": return `${stage} goes on`;
    case "stage scaled": return `${stage} has ${text(event, "workers")} workers now`;
    case "stage moved": return text(event, "to") ? `${text(event, "worker") || stage} moved to ${text(event, "to")}` : `${stage} was spread over all nodes`;
    case "flow applying": return `${flow} is being changed`;
    case "flow step": return `${flow}: step ${text(event, "step")} of ${text(event, "steps")}`;
    case "flow failed": return `${flow} could not be changed`;
    case "flow applied": return `${flow} is at version ${version} now`;
    case "alert fired": return `Alert ${text(event, "rule")}`;
    case "alert recovered": return `Alert ${text(event, "rule")} is over`;
    case "silence begun": return `${text(event, "rule") || "All rules"} was silenced`;
    case "silence ended": return `The silence of ${text(event, "rule") || "all rules"} ended`;
    case "request done": return `${text(event, "method")} ${text(event, "path")}`;
    case "plugin pushed": return `Plug-in ${text(event, "id")} ${version} was pushed`;
    case "plugin removed": return `Plug-in ${text(event, "id")} ${version} was removed`;
    case "note said": return `${text(event, "from") || "Somebody"} says: ${text(event, "text")}`;
    default: return `${event.kind} ${event.event ?? ""}`.trim();
  }
}

function linkOf(event: NodeEvent): string | null {
  const stage = event.stage?.split("/");
  if (stage?.[0]) return href("/flows/:flow", { flow: stage[0] }, { stage: stage[1] });
  if (event.flow) return href("/flows/:flow", { flow: event.flow });
  if (event.kind === "node" && event.node) return href("/cluster/:node", { node: event.node });
  if (event.kind === "alert" || event.kind === "silence") return "#/alerts";
  return event.kind === "plugin" ? "#/plugins" : null;
}

export function story(event: NodeEvent): Story {
  const status = Number(event["status"] ?? 0);
  const tone: Tone = event.kind === "request" ? (status >= 500 ? "error" : status >= 400 ? "warn" : "ok")
    : bad.has(event.event ?? "") ? "error" : event.kind === "alert" ? (event.event === "fired" ? (event["severity"] === "critical" ? "error" : "warn") : "ok") : "info";
  const detail = event.kind === "request" ? `by ${text(event, "who") || "somebody"}, answered ${status}`
    : [event.detail ?? "", event.kind === "alert" || event.kind === "silence" ? labels(event) : "", text(event, "why")].filter(Boolean).join("; ");
  return { key: String(event.number), at_ms: event.at_ms, node: event.node ?? "", kind: event.kind, tone, sentence: sentenceOf(event), detail, link: linkOf(event) };
}
