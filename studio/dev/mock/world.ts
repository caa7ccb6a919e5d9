// The numbers of the mock: they move as those of a real node would.
import { flows, type MockFlow, type MockStage } from "./flows";

interface Counts { turns: number; in: number; out: number; queued: number; dropped: number; rate: number; failures: number; dead: number; restarts: number; busy: number; edges: Record<string, number> }

export const started_ms = Date.now() - 3_900_000;
export const paused = new Set<string>();
const counts = new Map<string, Counts>();
const queues = new Map<string, { waiting: number; in_rate: number; out_rate: number; published: number }>();

export function targets(flow: MockFlow, stage: MockStage): { output: string; target: string }[] {
  return Object.entries(stage.outputs ?? {}).flatMap(([output, to]) =>
    [to].flat().map((place) => ({ output, target: /[:/]/.test(place) ? place : `${flow.flow}/${place}` })));
}

export function countsOf(address: string): Counts {
  let found = counts.get(address);
  if (!found) {
    found = { turns: 90_000, in: 0, out: 0, queued: 0, dropped: 0, rate: 0, failures: 0, dead: 0, restarts: 0, busy: 0, edges: {} };
    counts.set(address, found);
  }
  return found;
}

function queueOf(name: string) {
  let found = queues.get(name);
  if (!found) queues.set(name, (found = { waiting: 3, in_rate: 0, out_rate: 0, published: 1000 }));
  return found;
}

const taking = new WeakMap<MockFlow["stages"], Set<string>>();

function provider(flow: MockFlow, name: string): boolean {
  let found = taking.get(flow.stages);
  if (!found) taking.set(flow.stages, (found = new Set(Object.values(flow.stages).flatMap((stage) => targets(flow, stage).map(({ target }) => target)))));
  return !found.has(`${flow.flow}/${name}`);
}

/** A tenth of a second goes by. */
export function tick(): void {
  const wave = 1 + 0.35 * Math.sin(Date.now() / 9_000) + (Math.random() - 0.5) * 0.2;
  for (const flow of flows) {
    for (const [name, stage] of Object.entries(flow.stages)) {
      const address = `${flow.flow}/${name}`;
      const own = countsOf(address);
      const room = (stage.workers ?? 1) * flow.pace * 0.11;
      const can = paused.has(address) ? 0 : Math.max(0, Math.round(room * (1.1 + Math.random() * 0.3)));
      const done = provider(flow, name) ? (paused.has(address) ? 0 : Math.round(flow.pace * 0.1 * wave + Math.random() * 0.9)) : Math.min(own.queued, can);
      if (!provider(flow, name)) { own.queued -= done; own.out += done; }
      own.turns += done;
      own.rate = own.rate * 0.8 + done * 10 * 0.2;
      own.busy = Math.min(stage.workers ?? 1, Math.ceil(done / Math.max(1, flow.pace * 0.06)));
      if (name === "bill" && Math.random() < 0.01) { own.failures++; own.dead += Math.random() < 0.3 ? 1 : 0; }
      for (const { output, target } of targets(flow, stage)) {
        const sent = output === "out" || output === "rest" ? Math.round(done * (stage.plugin === "window" ? 0.1 : 1)) : Math.random() < 0.05 ? 1 : 0;
        const key = `${address}.${output}>${target}`;
        own.edges[key] = (own.edges[key] ?? 0) + sent;
        if (target.startsWith("queue:")) { const queue = queueOf(target.slice(6)); queue.waiting += sent; queue.published += sent; queue.in_rate = queue.in_rate * 0.9 + sent; }
        else if (!target.includes(":")) { const to = countsOf(target); to.in += sent; to.queued += sent; }
      }
    }
  }
  for (const queue of queues.values()) { const taken = Math.min(queue.waiting, Math.round(queue.in_rate * 0.1 + Math.random())); queue.waiting -= taken; queue.out_rate = queue.out_rate * 0.9 + taken; }
}
queueOf("orders"); queueOf("invoices/new");

export function liveFrame(only: string | null) {
  const stages: Record<string, unknown> = {}, edges: Record<string, unknown> = {}, shown: Record<string, unknown> = {};
  for (const flow of flows) {
    if (only && flow.flow !== only) continue;
    for (const [name, stage] of Object.entries(flow.stages)) {
      const address = `${flow.flow}/${name}`, own = countsOf(address);
      stages[address] = {
        state: "running", paused: paused.has(address), stands: null, rate: Math.round(own.rate * 10) / 10,
        latency_ms: own.rate > 0 ? { p50: 0.8 + own.queued / 60, p99: 4 + own.queued / 12 } : null,
        workers: stage.workers ?? 1, workers_busy: own.busy, failures: own.failures, dead: own.dead, restarts: own.restarts, turns: own.turns,
        input: provider(flow, name) ? null : { in: own.in, out: own.out, queued: own.queued, dropped: own.dropped, room: 4096 },
      };
      for (const [key, sent] of Object.entries(own.edges)) edges[key] = { in: sent, rate: Math.round(own.rate * 10) / 10 };
    }
  }
  for (const [name, queue] of queues) shown[name] = { waiting: queue.waiting, in_rate: Math.round(queue.in_rate * 10) / 10, out_rate: Math.round(queue.out_rate * 10) / 10, oldest_ms: queue.waiting ? 1200 : null };
  return { kind: "live", at_ms: Date.now(), complete: true, stages, edges, queues: shown };
}

export function stageShown(flow: MockFlow, name: string) {
  const stage = flow.stages[name] as MockStage, address = `${flow.flow}/${name}`, own = countsOf(address);
  const outputs: Record<string, string[]> = {};
  for (const { output, target } of targets(flow, stage)) (outputs[output] ??= []).push(target);
  return {
    state: "running", paused: paused.has(address), turns: own.turns, turns_per_second: own.rate, waiting: own.queued, failures: own.failures, dead: own.dead,
    restarts: own.restarts, late_replies: 0, unconnected: 0, version: 3, workers_count: stage.workers ?? 1, parts: null, nodes: { "node-a": stage.workers ?? 1 },
    stands: null, latency: { p50_ms: 1.2, p99_ms: 8 }, scaling: null, deployment: null, moves: { moves: 0, ms_p50: 0, ms_p99: 0, ms_max: 0 },
    code: { name: stage.plugin, version: "0.9.0", kind: provider(flow, name) ? "provider" : "processor", native: true, digest: "sha256:0", capabilities: [], outputs: Object.keys(outputs) },
    spec: { address, args: JSON.stringify(stage.parameters ?? {}), delivery: "durable", workers: stage.workers ?? 1, kind: stage.key ? { keyed: stage.key } : { pool: "round-robin" }, grants: [],
      outputs, scale: null },
    workers: Array.from({ length: stage.workers ?? 1 }, (_, index) => ({ address: `${address}/${index + 1}`, state: index < own.busy ? "busy" : "idle", turns: Math.round(own.turns / (stage.workers ?? 1)), waiting: 0, restarts: 0, version: 3, children: [], last_failure: null })),
  };
}

export function queueShown(name: string) {
  const queue = queueOf(name);
  return { name, waiting: queue.waiting, on_disk: queue.waiting, unacknowledged: 0, bytes: queue.waiting * 240, memory_bytes: queue.waiting * 320, consumers: 1, in_per_second: queue.in_rate, out_per_second: queue.out_rate,
    oldest_age_ms: queue.waiting ? 1_200 : null, totals: { published: queue.published, delivered: queue.published, acknowledged: queue.published - queue.waiting, returned: 2, refused: 0, dead: 1 } };
}

export function removeQueue(name: string): number {
  const waiting = queues.get(name)?.waiting ?? 0;
  queues.delete(name);
  return waiting;
}

export const queueNames = () => [...queues.keys()].sort();
