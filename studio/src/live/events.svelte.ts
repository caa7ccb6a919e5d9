// What happens on all nodes, as it happens. After a break it goes on where it was; if something was forgotten
// meanwhile, `missed` is told to whoever listens, and they fetch their lists again.
import { queryText } from "../api/client";
import { session } from "../session/session.svelte";
import { protocols } from "./live.svelte";
import { Socket, socketUrl, type Link } from "./socket";

export interface NodeEvent {
  number: number;
  kind: "begin" | "missed" | "node" | "stage" | "flow" | "alert" | "silence" | "request" | "plugin" | "note";
  event?: string;
  node?: string;
  at_ms: number;
  run?: string;
  flow?: string;
  stage?: string;
  detail?: string;
  [more: string]: unknown;
}

export type EventKind = NodeEvent["kind"];

const KINDS = "alert,flow,node,note,plugin,silence,stage";
const REMEMBERED_MAX = 500;

class Events {
  link = $state.raw<Link>({ state: "off" });
  /** The last ones, newest first. */
  recent = $state.raw<NodeEvent[]>([]);
  #run: string | null = null;
  #number: number | null = null;
  #listeners = new Map<(event: NodeEvent) => void, Set<EventKind>>();
  #socket = new Socket({
    target: () => {
      const where = this.#run !== null && this.#number !== null ? { run: this.#run, after: this.#number } : { tail: 50 };
      return { url: socketUrl(`/api/v1/events${queryText({ kind: KINDS, ...where })}`), protocols: protocols("hivewire.events") };
    },
    heard: (text) => this.#heard(text),
    changed: (link) => (this.link = link),
    failed: () => void session.probe(),
  });

  begin(): () => void {
    this.#socket.begin();
    return () => {
      this.#socket.end();
      this.#run = this.#number = null;
      this.recent = [];
    };
  }

  nudge(): void {
    this.#socket.nudge();
  }

  /** Calls for each event of these kinds, and for `missed` always, until what is given back is called. */
  on(kinds: EventKind[], act: (event: NodeEvent) => void): () => void {
    this.#listeners.set(act, new Set([...kinds, "missed"]));
    return () => this.#listeners.delete(act);
  }

  #heard(text: string): void {
    let event: NodeEvent;
    try {
      event = JSON.parse(text) as NodeEvent;
    } catch {
      return;
    }
    if (event.kind === "begin") this.#run = event.run ?? null;
    this.#number = event.number;
    if (event.kind === "begin") return;
    if (event.kind !== "missed") this.recent = [event, ...this.recent].slice(0, REMEMBERED_MAX);
    for (const [act, kinds] of this.#listeners) if (kinds.has(event.kind)) act(event);
  }
}

export const events = new Events();
