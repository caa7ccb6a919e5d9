// The lines of the log that the studio keeps: bounded, each once, in the order in which they came.
import type { LogLine } from "../api/types";

export const LINES_MAX = 10_000;
export const LEVELS = ["trace", "debug", "info", "warn", "error"] as const;
export type Level = (typeof LEVELS)[number];

export interface Wanted {
  /** In any part of the line, without regard to case. */
  text: string;
  /** A flow or a stage; empty for all. */
  place: string;
}

export function placeOf(line: LogLine): string {
  return line.worker ?? line.stage ?? line.target ?? "";
}

export function fits(line: LogLine, wanted: Wanted): boolean {
  if (wanted.place && !(line.stage === wanted.place || line.stage?.startsWith(`${wanted.place}/`))) return false;
  const text = wanted.text.trim().toLowerCase();
  return text === "" || `${line.line} ${placeOf(line)} ${line.node}`.toLowerCase().includes(text);
}

const TRIM_AT = LINES_MAX + 1_000;

export class LineBuffer {
  /** Grows with each change: the lines are not copied. */
  version = 0;
  /** How many were let go of. */
  dropped = 0;
  #lines: LogLine[] = [];
  /** The largest id of each node: what comes again after a break is left out. */
  #seen = new Map<string, number>();

  get lines(): readonly LogLine[] {
    return this.#lines;
  }

  /** Adds those that are new, and says how many they were. */
  push(lines: readonly LogLine[]): number {
    let added = 0;
    for (const line of lines) {
      if (line.id <= (this.#seen.get(line.node) ?? -1)) continue;
      this.#seen.set(line.node, line.id);
      this.#lines.push(line);
      added++;
    }
    if (this.#lines.length > TRIM_AT) {
      const over = this.#lines.length - LINES_MAX;
      this.#lines.splice(0, over);
      this.dropped += over;
    }
    if (added > 0) this.version++;
    return added;
  }

  /** Empties it; what was seen is not shown again. */
  clear(): void {
    this.#lines = [];
    this.dropped = 0;
    this.version++;
  }

  /** Begins anew, for another question to the nodes. */
  reset(): void {
    this.clear();
    this.#seen.clear();
  }
}

/** A time of day with milliseconds. */
export function clockTime(at_ms: number): string {
  const at = new Date(at_ms);
  const two = (value: number) => String(value).padStart(2, "0");
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

/** Lines as they are downloaded: a JSON object each. */
export function asText(lines: readonly LogLine[]): string {
  return lines.map((line) => JSON.stringify(line)).join("\n") + (lines.length > 0 ? "\n" : "");
}
