// Live numbers as the node sends them, and how partial ones become whole.

export interface LiveInput {
  in: number;
  out: number;
  queued: number;
  dropped: number;
  /** How many may wait; null if unbounded or unknown. */
  room: number | null;
}

export interface LiveStage {
  state: string;
  paused: boolean;
  /** Why it stands still, if it does. */
  stands: string | null;
  /** Turns per second. */
  rate: number;
  latency_ms: { p50: number; p99: number } | null;
  workers: number;
  workers_busy: number;
  failures: number;
  dead: number;
  restarts: number;
  turns: number;
  /** Null for providers. in = out + queued + dropped. */
  input: LiveInput | null;
}

export interface LiveEdge {
  in: number;
  rate: number;
}

export interface LiveQueue {
  waiting: number;
  in_rate: number;
  out_rate: number;
  oldest_ms: number | null;
}

export interface LiveTables {
  stages: Record<string, LiveStage | null>;
  edges: Record<string, LiveEdge | null>;
  queues: Record<string, LiveQueue | null>;
}

export interface LiveFrame extends LiveTables {
  at_ms: number;
  complete: boolean;
}

/** Reads a text frame; null if it is none that the studio knows. */
export function readFrame(text: string): LiveFrame | null {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    return null;
  }
  if (read === null || typeof read !== "object") return null;
  const frame = read as Partial<LiveFrame> & { kind?: string };
  if (frame.kind !== "live") return null;
  return {
    at_ms: frame.at_ms ?? 0,
    complete: frame.complete ?? false,
    stages: frame.stages ?? {},
    edges: frame.edges ?? {},
    queues: frame.queues ?? {},
  };
}

/** Two frames that came one after the other, as one. So what waits to be drawn is never more than one frame. */
export function join(first: LiveFrame | null, second: LiveFrame): LiveFrame {
  if (first === null || second.complete) return second;
  return {
    at_ms: second.at_ms,
    complete: first.complete,
    stages: { ...first.stages, ...second.stages },
    edges: { ...first.edges, ...second.edges },
    queues: { ...first.queues, ...second.queues },
  };
}

interface Table<T> {
  set(key: string, value: T): unknown;
  delete(key: string): boolean;
  keys(): Iterable<string>;
}

/** Puts the entries of a frame into what is shown: null takes out, and a complete frame takes out all it lacks. */
export function merge<T>(shown: Table<T>, entries: Record<string, T | null>, complete: boolean): void {
  if (complete) {
    for (const key of [...shown.keys()]) if (!(key in entries)) shown.delete(key);
  }
  for (const [key, value] of Object.entries(entries)) {
    if (value === null) shown.delete(key);
    else shown.set(key, value);
  }
}

/** `shop/orders.out>shop/bill` has the stage `shop/orders`, its output `out` and the target `shop/bill`. */
export function readEdge(key: string): { stage: string; output: string; target: string } | null {
  const split = key.indexOf(">");
  const from = key.slice(0, split);
  const dot = from.lastIndexOf(".");
  if (split < 0 || dot < 0) return null;
  return { stage: from.slice(0, dot), output: from.slice(dot + 1), target: key.slice(split + 1) };
}

export function edgeKey(stage: string, output: string, target: string): string {
  return `${stage}.${output}>${target}`;
}
