// What alerts and rules mean, where one sees more, and what to do.
import type { components } from "../api/schema";
import type { Alert } from "../api/types";
import { count, duration, percent } from "../format/numbers";
import { href } from "../router/match";
import type { Tone } from "../ui/Badge.svelte";

export type Rule = components["schemas"]["RuleShown"];
export type Silence = components["schemas"]["Silence"];

export function toneOf(alert: Pick<Alert, "state" | "severity">): Tone {
  if (alert.state === "pending") return "info";
  if (alert.state === "silenced") return "off";
  return alert.state === "recovered" ? "ok" : alert.severity === "critical" ? "error" : "warn";
}

const RANK = { firing: 0, pending: 1, silenced: 2, recovered: 3 } as const;

/** What needs somebody most comes first. */
export function ranked(alerts: readonly Alert[]): Alert[] {
  const rank = (alert: Alert) => RANK[alert.state] * 2 + (alert.severity === "critical" ? 0 : 1);
  return [...alerts].sort((a, b) => rank(a) - rank(b) || b.since_ms - a.since_ms);
}

const advice: Record<string, string> = {
  "node-gone": "The others have its parts, with the last committed state. Start it again, or leave it: it is forgotten after an hour. If several are gone at once, mend the network.",
  "stage-restarts": "Its workers fail again and again. See its log for why, and deploy what mends it.",
  "stage-failed": "It gave up, or its code cannot be loaded. See its history, then deploy another version or restart it.",
  "stage-stands": "What it makes, or what is meant for it, finds no room. Give what comes after it more workers, or its queue more room.",
  "dead-letters": "Workers fail over certain messages. See reason and backtrace among the dead letters, deploy what mends it, and replay them.",
  "queue-age": "Nobody takes its messages, or too slowly. Give what reads it more workers.",
  disk: "Publishes are refused when it is full; reading goes on. Free space, and it resumes by itself.",
  journal: "Nothing durable is taken in. Free space on the disk of the data folder; if the disk is broken, its log says more.",
};

/** What to do; of rules of one's own nobody knows but who wrote them. */
export function adviceFor(rule: string, kinds: ReadonlyMap<string, string> = new Map()): string {
  return advice[kinds.get(rule) ?? rule] ?? "It is a rule of your own: see its expression among the rules.";
}

export interface Where {
  label: string;
  link: string;
}

/** What the labels of an alert are about. */
export function whereOf(alert: Pick<Alert, "labels" | "rule">): Where[] {
  const { stage, flow, queue, node } = alert.labels;
  const found: Where[] = [];
  if (stage) {
    const [of = "", name] = stage.split("/");
    found.push({ label: `Stage ${stage}`, link: href("/flows/:flow", { flow: of }, { stage: name }) }, { label: "Its log", link: href("/logs", {}, { stage }) });
  } else if (flow) found.push({ label: `Flow ${flow}`, link: href("/flows/:flow", { flow }) });
  if (queue) found.push({ label: `Queue ${queue}`, link: href("/broker", {}, { queue }) });
  if (node) found.push({ label: `Node ${node}`, link: href("/cluster/:node", { node }) });
  if (alert.rule === "dead-letters") found.push({ label: "Dead letters", link: href("/broker", {}, { tab: "dead" }) });
  return found;
}

/** A rule as a sentence. */
export function ruleSentence(rule: Rule): string {
  const within = (seconds: number) => duration(seconds * 1_000);
  const what = ((): string => {
    switch (rule.kind) {
      case "node-gone": return "a node that was heard is dead and was not told to stop, or this node is cut off";
      case "stage-restarts": return `workers of a stage were restarted more than ${count(rule.more_than)} times within ${within(rule.within_seconds)}`;
      case "stage-failed": return "a stage gave up, or could not be loaded";
      case "stage-stands": return "a stage stands still, because what it made finds no room";
      case "dead-letters": return `more than ${count(rule.more_than)} messages went to the dead letters within ${within(rule.within_seconds)}`;
      case "queue-age": return `the oldest message of ${rule.queues === "*" ? "a queue" : `a queue ${rule.queues}`} has waited for more than ${within(rule.older_than_seconds)}`;
      case "disk": return `less than ${percent(rule.free_percent_min / 100)} of the disk of the data folder are free`;
      case "journal": return "the journal is full or has failed";
      case "expression": return "this is true";
      default: return (rule as { kind: string }).kind;
    }
  })();
  return rule.for_seconds > 0 ? `For ${within(rule.for_seconds)}, ${what}` : `${what[0]?.toUpperCase() ?? ""}${what.slice(1)}`;
}

/** `2h`, `30m`, `1d` in seconds; null if it is none. */
export function readFor(text: string): number | null {
  const found = /^\s*(\d+)\s*(s|m|min|h|d)\s*$/.exec(text);
  const by = { s: 1, m: 60, min: 60, h: 3_600, d: 86_400 }[found?.[2] ?? ""];
  const seconds = Number(found?.[1]) * (by ?? NaN);
  return Number.isFinite(seconds) && seconds > 0 ? seconds : null;
}

/** What a silence is about. */
export function silenceSentence(silence: Pick<Silence, "rule" | "labels">): string {
  const labels = Object.entries(silence.labels).map(([key, value]) => `${key}=${value}`);
  return `${silence.rule ?? "All rules"}${labels.length > 0 ? ` where ${labels.join(", ")}` : ""}`;
}
