// Names of queues and topics: which are the node's own, and which stage takes from a queue.
import type { Flow } from "../api/types";

/** What begins so is the node's own. */
const RESERVED = "hivewire.";
export const DEAD = "hivewire.dead";

/** `flow.stage` of all stages, with their addresses. */
export function stageQueues(flows: readonly Flow[]): Map<string, string> {
  return new Map(flows.flatMap(({ stages }) => stages.map(({ spec }) => [spec.address.replace("/", "."), spec.address] as const)));
}

/** The stage that owns this queue: `shop.orders`, `shop.orders.3` of a worker and `shop.orders.b17` of a bucket. */
export function stageOf(queue: string, stages: ReadonlyMap<string, string>): string | null {
  let name = queue;
  for (let part = 0; part < 3; part++) {
    const found = stages.get(name);
    if (found) return found;
    const dot = name.lastIndexOf(".");
    if (dot < 0) return null;
    name = name.slice(0, dot);
  }
  return null;
}

export function isInternal(name: string, stages: ReadonlyMap<string, string>): boolean {
  return name.startsWith(RESERVED) || stageOf(name, stages) !== null;
}

/** Who sends to this place, as `flow/stage.output`. */
export function sendersOf(place: string, flows: readonly Flow[]): string[] {
  return flows.flatMap(({ stages }) => stages.flatMap(({ spec }) =>
    Object.entries(spec.outputs ?? {}).filter(([, to]) => [to].flat().includes(place)).map(([output]) => `${spec.address}.${output}`)));
}

/** Which stages take from this queue because their parameters say so. */
export function takersOf(queue: string, flows: readonly Flow[]): string[] {
  return flows.flatMap(({ stages }) => stages.flatMap(({ code, spec }) => {
    if (code?.name !== "from-queue") return [];
    try {
      return (JSON.parse(spec.args ?? "{}") as { queue?: string }).queue === queue ? [spec.address] : [];
    } catch {
      return [];
    }
  }));
}

/** `queue:orders`, as everywhere; some nodes write `queue orders`. */
export function placeOf(destination: string): { kind: "queue" | "topic"; name: string } {
  const [, kind, name] = /^\/?(queue|topic)[:/ ](.*)$/s.exec(destination) ?? [];
  return { kind: kind === "topic" ? "topic" : "queue", name: name ?? destination };
}

const NAME_BYTES_MAX = 255;

/** What is wrong with the name of a queue or topic; null if nothing. */
export function nameProblem(name: string): string | null {
  if (!name) return "Say where it goes.";
  if (/[\s\p{Cc}]/u.test(name)) return "A name has no blanks.";
  const bytes = new TextEncoder().encode(name).length;
  return bytes > NAME_BYTES_MAX ? `A name has at most ${NAME_BYTES_MAX} bytes, this one has ${bytes}.` : null;
}
