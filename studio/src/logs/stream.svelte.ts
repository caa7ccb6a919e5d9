// The log of all nodes, as it is written: follows, comes back after a break, and can be paused.
import { untrack } from "svelte";
import { api } from "../api/client";
import { ApiProblem } from "../api/problem";
import type { LogLine } from "../api/types";
import { pauseAfter } from "../live/socket";
import { LineBuffer } from "./buffer";

const DRAW_MS = 150;
/** So many lines are held while it is paused; older ones go first. */
const HELD_MAX = 10_000;
const FIRST = 1_000;

export interface Question {
  node?: string | undefined;
  level?: string | undefined;
  stage?: string | undefined;
}

export class LogStream {
  readonly buffer = new LineBuffer();
  version = $state(0);
  paused = $state(false);
  /** How many came while it was paused. */
  held = $state(0);
  state = $state<"connecting" | "following" | "lost">("connecting");
  problem = $state.raw<ApiProblem | null>(null);
  #waiting: LogLine[] = [];

  /** Follows until what is given back is called. */
  follow(question: Question): () => void {
    const stop = new AbortController();
    this.buffer.reset();
    this.#waiting = [];
    this.held = 0;
    untrack(() => this.version++);
    const timer = setInterval(() => this.#draw(), DRAW_MS);
    void this.#run(question, stop.signal);
    return () => {
      clearInterval(timer);
      stop.abort();
    };
  }

  async #run(question: Question, signal: AbortSignal): Promise<void> {
    for (let tries = 0; !signal.aborted; tries++) {
      this.state = "connecting";
      try {
        // Before the first line nothing tells that it works, so it is told when the request went through.
        const lines = api.lines("/api/v1/logs", { query: { ...question, follow: true, limit: FIRST }, signal });
        const soon = setTimeout(() => !signal.aborted && this.state === "connecting" && (this.state = "following"), 1_500);
        try {
          for await (const line of lines) {
            this.state = "following";
            this.problem = null;
            tries = 0;
            this.#waiting.push(line as LogLine);
            if (this.#waiting.length > HELD_MAX * 1.1) this.#waiting.splice(0, this.#waiting.length - HELD_MAX);
          }
        } finally {
          clearTimeout(soon);
        }
      } catch (thrown) {
        if (signal.aborted) return;
        this.problem = ApiProblem.of(thrown);
      }
      if (signal.aborted) return;
      this.state = "lost";
      await new Promise((resolve) => setTimeout(resolve, pauseAfter(tries, Math.random())));
    }
  }

  #draw(): void {
    if (this.paused) return void (this.held = this.#waiting.length);
    this.held = 0;
    if (this.#waiting.length === 0) return;
    const lines = this.#waiting;
    this.#waiting = [];
    if (this.buffer.push(lines) > 0) this.version++;
  }

  clear(): void {
    this.buffer.clear();
    this.version++;
  }
}
