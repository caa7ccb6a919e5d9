// What the nodes have of the flows, as the cluster page shows it.
import type { Flow, Node, Stage, ThisNode } from "../api/types";
import { duration, plural } from "../format/numbers";
import type { Tone } from "../ui/Badge.svelte";

/** After so long without a heartbeat of itself a node is cut off. */
const CUT_OFF_MS = 4_000;
const LATE_MS = 3_000;

export interface NodeLook {
  tone: Tone;
  text: string;
  /** What that means. */
  means: string;
}

export function look(node: Pick<Node, "state" | "this" | "heard_at_ms">, now_ms: number): NodeLook {
  const silent_ms = now_ms - node.heard_at_ms;
  if (node.this && (node.state === "dead" || silent_ms > CUT_OFF_MS * 3)) {
    return { tone: "error", text: "cut off", means: "It does not hear even itself over the bus, and has let go of its parts. See its log and the bus." };
  }
  if (node.state === "dead") return { tone: "error", text: "gone", means: "Nobody has heard it. The others have its parts; start it again, or leave it: it is forgotten after an hour." };
  if (node.state === "draining") return { tone: "info", text: "draining", means: "It gives everything away and takes nothing." };
  if (node.state === "paused") return { tone: "warn", text: "paused", means: "It keeps its parts but pulls no messages: those wait." };
  if (silent_ms > LATE_MS) return { tone: "warn", text: "silent", means: `Its last heartbeat came ${duration(silent_ms)} ago.` };
  return { tone: "ok", text: "running", means: "It takes its share." };
}

export type Sharing = "keyed" | "routed" | "pool" | "memory";

/** How nodes share a stage. */
export function sharing(stage: Stage): Sharing {
  if (stage.spec.delivery === "memory") return "memory";
  const kind = stage.spec.kind as Record<string, unknown>;
  return "keyed" in kind ? "keyed" : "pool" in kind ? "pool" : "routed";
}

export interface BoardStage {
  address: string;
  flow: string;
  name: string;
  sharing: Sharing | null;
  /** Parts there are in all. */
  total: number;
  /** Parts by node. */
  parts: Record<string, number>;
  stage: Stage | null;
}

/** All stages that any node has, or that are to run, in the order of their addresses. */
export function board(nodes: readonly Node[], flows: readonly Flow[]): BoardStage[] {
  const stages = new Map<string, Stage>(flows.flatMap(({ stages: all }) => all.map((stage) => [stage.spec.address, stage] as const)));
  const addresses = new Set([...stages.keys(), ...nodes.flatMap(({ stages: own }) => Object.keys(own))]);
  const words = new Intl.Collator("en", { numeric: true });
  return [...addresses].sort(words.compare).map((address) => {
    const stage = stages.get(address) ?? null;
    const parts: Record<string, number> = {};
    for (const node of nodes) {
      const has = node.state === "dead" ? 0 : (node.stages[address]?.parts ?? 0);
      if (has > 0) parts[node.name] = has;
    }
    const held = Object.values(parts).reduce((sum, each) => sum + each, 0);
    const [flow = "", name = ""] = address.split("/");
    const how = stage ? sharing(stage) : null;
    return { address, flow, name, stage, parts, sharing: how, total: Math.max(held, how === "memory" ? 0 : (stage?.parts ?? 0)) };
  });
}

export function partsOf(node: Pick<Node, "stages">): number {
  return Object.values(node.stages).reduce((sum, { parts }) => sum + parts, 0);
}

/** What a move will do, in sentences, before anybody agrees to it. */
export function moveSentences(stage: BoardStage, to: string): string[] {
  const leaving = Object.entries(stage.parts).filter(([node]) => node !== to);
  const from = leaving.map(([node, parts]) => `${node} gives ${plural(parts, "part")}`);
  const first = leaving.length === 0 && (stage.parts[to] ?? 0) > 0
    ? `${to} has all of ${stage.address} already; from now on it stays there.`
    : `All of ${stage.address} will be on ${to}${from.length > 0 ? `: ${from.join(", ")}` : ""}.`;
  const how: Record<Sharing, string> = {
    keyed: "At most 16 parts leave a node at a time. The messages of a key wait some milliseconds while its part moves; its state goes with it, and the order holds.",
    pool: "Its workers stop where they are after the message in hand, and start there. What waits stays in the queue.",
    routed: "Its router and workers stop after the message in hand and start there, with their state. What waits stays in the queue.",
    memory: "It is kept in memory, so it is not divided: other nodes stop theirs, with what waits in their memory, and its state does not go with it.",
  };
  return [first, how[stage.sharing ?? "pool"], "It stays there until it is moved again or spread over all nodes; if that node goes, the others take it."];
}

/** How far a move is: the share of parts that are where they should be. */
export function moveShare(stage: Stage, to: string | null): number {
  const at = stage.nodes ?? {};
  const total = stage.spec.delivery === "memory" ? Object.values(at).reduce((sum, each) => sum + each, 0) : (stage.parts ?? 0);
  if (total === 0) return 0;
  if (to === null) return Object.values(at).filter((parts) => parts > 0).length > 1 ? 1 : 0;
  return Math.min(1, (at[to] ?? 0) / total);
}

export interface JoinAdvice {
  /** What must be done at this node first; empty if nothing. */
  first: string;
  /** For another terminal of this machine, or for another machine. */
  command: string;
  /** Whether only this machine can reach the bus. */
  local: boolean;
}

/** How another node joins this one. */
export function joinAdvice(node: Pick<ThisNode, "node" | "listeners"> | null, name = "hive2"): JoinAdvice {
  const stomp = node?.listeners.find(({ protocol, transport }) => protocol === "stomp" && transport !== "websocket");
  const address = stomp?.address ?? "127.0.0.1:61613";
  const open = /^(0\.0\.0\.0|\[::\])(?=:)/.test(address);
  const local = /^(127\.|localhost|\[::1\])/.test(address);
  const secure = stomp?.transport === "tls" ? "+ssl" : "";
  const reached = open ? address.replace(/^(0\.0\.0\.0|\[::\])/, "THIS-MACHINE") : address;
  return {
    first: node?.node ? "" : "hivewire up --name hive1",
    command: `hivewire join --name ${name} --bus stomp${secure}://${reached}`,
    local,
  };
}

/** `a=1, b=2` as an object; what cannot be read is told. */
export function readLabels(text: string): { labels: Record<string, string>; error: string | null } {
  const labels: Record<string, string> = {};
  for (const part of text.split(/[,\n]/)) {
    if (!part.trim()) continue;
    const [key = "", value] = part.split(/=(.*)/s);
    if (!key.trim() || value === undefined) return { labels, error: `${part.trim()} is no label: write key=value` };
    labels[key.trim()] = value.trim();
  }
  return { labels, error: null };
}

export function labelsText(labels: Record<string, string>): string {
  return Object.entries(labels).map(([key, value]) => `${key}=${value}`).join(", ");
}
