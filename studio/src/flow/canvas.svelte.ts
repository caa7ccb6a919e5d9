// What nodes and edges on the canvas share: how near one looks, and how far back-pressure has come.
import { getContext, setContext } from "svelte";
import { live } from "../live/live.svelte";
import type { LiveInput } from "../live/frames";

export type Detail = "near" | "far" | "tiny";
export type Pressure = "calm" | "filling" | "full";

export class CanvasState {
  /** From far away only names are drawn, and from very far only blocks. */
  detail = $state<Detail>("near");
  /** Whether edges may move: not if there are many. */
  moves = $state(false);
  /** While an edge is being drawn: why it cannot end here. */
  refusal = $state<string | null>(null);

  zoomed(zoom: number): void {
    const next = zoom < 0.25 ? "tiny" : zoom < 0.5 ? "far" : "near";
    if (next !== this.detail) this.detail = next;
  }
}

const FILLING = 0.25;
const FULL = 0.75;
/** Without a bound: what waits is much if it takes this long to be handled. */
const LONG_S = 2;

export function pressureOf(input: LiveInput | null | undefined, rate: number): { share: number | null; pressure: Pressure } {
  if (!input) return { share: null, pressure: "calm" };
  if (input.room !== null && input.room > 0) {
    const share = input.queued / input.room;
    return { share, pressure: share >= FULL ? "full" : share >= FILLING ? "filling" : "calm" };
  }
  const seconds = input.queued / Math.max(rate, 1);
  return { share: null, pressure: seconds >= LONG_S * 10 ? "full" : seconds >= LONG_S ? "filling" : "calm" };
}

export interface Wait {
  waiting: number | null;
  pressure: Pressure;
  share: number | null;
}

/** What waits where an edge ends. */
export function waitOf(target: string): Wait {
  if (target.startsWith("queue:")) {
    const queue = live.queues.get(target.slice(6));
    if (!queue) return { waiting: null, pressure: "calm", share: null };
    const grows = queue.in_rate > queue.out_rate * 1.1 && queue.waiting > 1_000;
    return { waiting: queue.waiting, share: null, pressure: grows ? (queue.waiting > 20_000 ? "full" : "filling") : "calm" };
  }
  if (target.includes(":")) return { waiting: null, pressure: "calm", share: null };
  const stage = live.stages.get(target);
  const { share, pressure } = pressureOf(stage?.input, stage?.rate ?? 0);
  return { waiting: stage?.input?.queued ?? null, share, pressure: stage?.stands ? "full" : pressure };
}

const KEY = Symbol("canvas");
export const provideCanvas = (state: CanvasState): CanvasState => setContext(KEY, state);
export const useCanvas = (): CanvasState => getContext<CanvasState>(KEY);
