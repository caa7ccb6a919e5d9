// How far a crawl is, as people see it.
import type { CrawlShown, Stage } from "../api/types";
import type { Tone } from "../ui/Badge.svelte";

export interface CrawlState {
  tone: Tone;
  text: string;
  means: string;
}

export function crawlState(crawl: Pick<CrawlShown, "over" | "stages" | "waiting">, paused: boolean): CrawlState {
  if (crawl.stages.every(({ state }) => state === null || state === "stopping")) return { tone: "off", text: "stopped", means: "Its stages do not run. What it has stored stays." };
  if (crawl.stages.some(({ state }) => state === "failed")) return { tone: "error", text: "failed", means: "A stage gave up; see the stages." };
  if (crawl.over) return { tone: "ok", text: "over", means: "Nothing is left to do, or its budget of pages is used up." };
  if (paused) return { tone: "warn", text: "paused", means: "URLs wait on disk until it goes on." };
  return { tone: "info", text: "running", means: crawl.waiting > 0 ? "It fetches at the pace of its hosts." : "It begins, or handles its last pages." };
}

/**
 * The stages that fetch. They are what is paused: a frontier goes on handing out what it has, one for each host, and
 * that waits before them.
 */
export function fetching(stages: readonly Pick<CrawlShown["stages"][number], "stage" | "plugin">[]): string[] {
  return stages.filter(({ plugin }) => plugin === "downloader" || plugin === "robots").map(({ stage }) => stage);
}

/** Whether none of these takes messages. */
export function isPaused(stages: readonly Stage[], fetching: readonly string[]): boolean {
  const paused = new Set(stages.filter((stage) => stage.paused === true).map((stage) => stage.spec.address.split("/")[1]));
  return fetching.length > 0 && fetching.every((name) => paused.has(name));
}

export interface Point {
  at_ms: number;
  fetched: number;
  waiting: number;
  failed: number;
}

/** Fetched pages a second between points that are at least this far apart. */
export function rates(points: readonly Point[], over_ms = 5_000): number[] {
  let from = 0;
  return points.map((point, index) => {
    while (from + 1 < index && point.at_ms - (points[from + 1]?.at_ms ?? 0) >= over_ms) from++;
    const first = points[from];
    const apart = first ? point.at_ms - first.at_ms : 0;
    return first && apart > 0 ? Math.max(0, ((point.fetched - first.fetched) * 1_000) / apart) : NaN;
  });
}

/** How long it takes until so many are fetched at this rate. */
export function remaining_ms(left: number, rate: number): number | null {
  return rate > 0 && left > 0 ? (left / rate) * 1_000 : null;
}

export function statusTone(status: number): Tone {
  return status >= 500 ? "error" : status >= 400 ? "warn" : status >= 300 ? "info" : "ok";
}

const rules: Record<string, string> = {
  robots: "robots.txt of its host forbids it",
  domain: "its domain is not among those of the crawl",
  depth: "too many links lead to it",
  content: "its content is of no kind that is kept",
  status: "its server answered with an error",
  pages: "the budget of pages was used up",
  fetch: "it could not be fetched",
};

/** What a rule means, in words. */
export function ruleText(rule: string): string {
  return rules[rule] ?? `the rule ${rule} stopped it`;
}
