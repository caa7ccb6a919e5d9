// What happened to nodes: what is remembered at first, and then what happens. It also tells versions and addresses.
import { api } from "../api/client";
import { events, type EventKind, type NodeEvent } from "../live/events.svelte";

const KEPT_MAX = 200;

export class Told {
  all = $state.raw<NodeEvent[]>([]);
  readonly versions = $derived(latest(this.all, "version"));
  readonly addresses = $derived(latest(this.all, "address"));

  add(event: NodeEvent): void {
    this.all = [event, ...this.all].slice(0, KEPT_MAX);
  }
}

/** What the newest event of each node says under this name; events are given newest first. */
function latest(all: readonly NodeEvent[], name: "version" | "address"): Record<string, string> {
  const found: Record<string, string> = {};
  for (const { kind, event, node, [name]: said } of all) {
    if (kind === "node" && event === "joined" && node && typeof said === "string") found[node] ??= said;
  }
  return found;
}

const matters = (event: NodeEvent) => event.kind === "node" || (event.kind === "stage" && event.event === "moved");

/** Call it while a component is made. */
export function told(): Told {
  const made = new Told();
  const kinds: EventKind[] = ["node", "stage"];
  $effect(() => {
    const stop = new AbortController();
    let last = -1;
    const read = async () => {
      const old: NodeEvent[] = [];
      for await (const line of api.lines("/api/v1/events", { query: { kind: kinds.join(","), tail: 500 }, signal: stop.signal, timeout_ms: 15_000 })) {
        const event = line as NodeEvent;
        last = Math.max(last, event.number);
        if (matters(event)) old.push(event);
      }
      made.all = [...made.all, ...old.reverse().filter((one) => !made.all.some(({ number }) => number === one.number))].slice(0, KEPT_MAX);
    };
    read().catch(() => {});
    const end = events.on(kinds, (event) => event.number > last && matters(event) && made.add(event));
    return () => {
      stop.abort();
      end();
    };
  });
  return made;
}

/** An event of a node in words. */
export function sentence(event: NodeEvent): string {
  const said = (name: string) => (typeof event[name] === "string" ? (event[name] as string) : "");
  if (event.kind === "stage") return `${event.stage ?? "a stage"} ${said("to") ? `moved to ${said("to")}` : "was spread over all nodes"}`;
  switch (event.event) {
    case "joined": return `joined${said("version") ? ` with version ${said("version")}` : ""}`;
    case "left": return "left";
    case "gone": return `is gone${said("seen_by") ? `, says ${said("seen_by")}` : ""}`;
    case "returned": return `is back${said("seen_by") ? `, says ${said("seen_by")}` : ""}`;
    case "changed": return `is ${said("state") || "changed"} now`;
    default: return event.event ?? event.kind;
  }
}
