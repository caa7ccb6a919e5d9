// Live numbers of stages, edges and queues. A page says what it wants to see (`live.show`), reads the maps, and
// watches what it draws as a chart. One WebSocket serves the page; its frames are drawn once per frame of the screen.
import { SvelteMap } from "svelte/reactivity";
import { queryText } from "../api/client";
import { session } from "../session/session.svelte";
import { tokenProtocol } from "../session/token";
import { join, merge, readFrame, type LiveEdge, type LiveFrame, type LiveQueue, type LiveStage } from "./frames";
import { History } from "./history";
import { Socket, socketUrl, type Link } from "./socket";

export interface LiveView {
  /** Only this flow; all of them if left out. */
  flow?: string;
  /** How often, at least 100. */
  period_ms?: number;
}

export type WatchKind = "stage" | "edge" | "queue";

const SAMPLE_MS = 1_000;
const POINTS_MAX = 300;

interface Watched {
  kind: WatchKind;
  key: string;
  history: History;
  readers: number;
}

class Live {
  /** By address: `flow/stage`. */
  readonly stages = new SvelteMap<string, LiveStage>();
  /** By `flow/stage.output>target`. */
  readonly edges = new SvelteMap<string, LiveEdge>();
  /** By name. */
  readonly queues = new SvelteMap<string, LiveQueue>();
  link = $state.raw<Link>({ state: "off" });
  /** The clock of the node in the last frame; 0 before the first one. */
  at_ms = $state(0);
  /** Grows with each point that charts get: read it where a history is read. */
  points = $state(0);

  #views: LiveView[] = [];
  #pending: LiveFrame | null = null;
  #drawing = 0;
  #watched = new Map<string, Watched>();
  #sampling: ReturnType<typeof setInterval> | undefined;
  #socket = new Socket({
    target: () => {
      const view = this.#views.at(-1) ?? {};
      const query = queryText({ flow: view.flow, period_ms: view.period_ms ?? 250 });
      return { url: socketUrl(`/api/v1/live${query}`), protocols: protocols("hivewire.live") };
    },
    heard: (text) => this.#heard(text),
    changed: (link) => (this.link = link),
    failed: () => void session.probe(),
  });

  /** Begins to listen; what is given back ends that. The newest view that has not ended counts. */
  show(view: LiveView = {}): () => void {
    this.#views.push(view);
    this.#again();
    return () => {
      const index = this.#views.indexOf(view);
      if (index < 0) return;
      const counted = index === this.#views.length - 1;
      this.#views.splice(index, 1);
      if (counted) this.#again();
    };
  }

  nudge(): void {
    this.#socket.nudge();
  }

  /** Listens to the view that counts now, with nothing left of the one before. */
  #again(): void {
    this.#socket.end();
    cancelAnimationFrame(this.#drawing);
    this.#drawing = 0;
    this.#pending = null;
    this.stages.clear();
    this.edges.clear();
    this.queues.clear();
    this.at_ms = 0;
    if (this.#views.length > 0 && session.token) this.#socket.begin();
  }

  #heard(text: string): void {
    const frame = readFrame(text);
    if (!frame) return;
    this.#pending = join(this.#pending, frame);
    this.#drawing ||= requestAnimationFrame(() => this.#draw());
  }

  #draw(): void {
    this.#drawing = 0;
    const frame = this.#pending;
    this.#pending = null;
    if (!frame) return;
    merge(this.stages, frame.stages, frame.complete);
    merge(this.edges, frame.edges, frame.complete);
    merge(this.queues, frame.queues, frame.complete);
    this.at_ms = frame.at_ms;
  }

  /** Keeps a history of this, a point a second, until what is given back is called. */
  watch(kind: WatchKind, key: string): { history: History; end: () => void } {
    const name = `${kind} ${key}`;
    const watched = this.#watched.get(name) ?? { kind, key, history: new History(POINTS_MAX), readers: 0 };
    watched.readers++;
    this.#watched.set(name, watched);
    this.#sampling ??= setInterval(() => this.#sample(), SAMPLE_MS);
    let ended = false;
    const end = () => {
      if (ended) return;
      ended = true;
      if (--watched.readers === 0) this.#watched.delete(name);
      if (this.#watched.size > 0) return;
      clearInterval(this.#sampling);
      this.#sampling = undefined;
    };
    return { history: watched.history, end };
  }

  #sample(): void {
    // In a page that is not seen nothing is drawn, but its charts go on.
    if (document.hidden) this.#draw();
    const known = this.link.state === "connected";
    for (const { kind, key, history } of this.#watched.values()) {
      history.push(Date.now(), known ? this.#values(kind, key) : {});
    }
    this.points++;
  }

  #values(kind: WatchKind, key: string): Record<string, number | null | undefined> {
    if (kind === "edge") return { rate: this.edges.get(key)?.rate };
    if (kind === "queue") {
      const queue = this.queues.get(key);
      return { waiting: queue?.waiting, in_rate: queue?.in_rate, out_rate: queue?.out_rate, oldest_ms: queue?.oldest_ms };
    }
    const stage = this.stages.get(key);
    return {
      rate: stage?.rate,
      p50_ms: stage?.latency_ms?.p50,
      p99_ms: stage?.latency_ms?.p99,
      queued: stage?.input?.queued,
      workers: stage?.workers,
      workers_busy: stage?.workers_busy,
      failures: stage?.failures,
    };
  }
}

/** What a WebSocket offers: its own protocol, and the token. */
export function protocols(own: string): string[] {
  return session.token ? [own, tokenProtocol(session.token)] : [own];
}

export const live = new Live();
