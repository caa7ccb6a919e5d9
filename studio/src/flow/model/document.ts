// A flow document as the canvas edits it: edges stand in `outputs` only, as lists. It is never changed in place.
import type { FlowDocument, FlowDocumentGiven } from "../../api/types";

export interface Position {
  x: number;
  y: number;
}

export interface Stage {
  plugin: string;
  description?: string;
  parameters?: unknown;
  /** Where outputs lead, by their names. */
  outputs?: Readonly<Record<string, readonly string[]>>;
  key?: string;
  router?: string;
  workers?: number;
  scale?: Record<string, unknown>;
  delivery?: string;
  grants?: readonly string[];
  supervision?: Record<string, unknown>;
  limits?: Record<string, unknown>;
  hand_over?: Record<string, unknown>;
  on?: readonly string[];
  position?: Position;
}

/** Requests over HTTP that become events of a stage. */
export interface HttpRoute {
  /** The method and the path: `POST /orders`. */
  route: string;
  stage: string;
  /** Whether the reply of the stage is the answer, which it is if nothing is said. */
  reply?: boolean;
  timeout?: string;
  headers?: readonly string[];
}

export interface Doc {
  readonly flow: string;
  readonly description?: string;
  readonly delivery?: string;
  readonly stages: Readonly<Record<string, Readonly<Stage>>>;
  readonly http?: readonly HttpRoute[];
}

export type Place = "stage" | "queue" | "topic" | "flow" | "nowhere";

export const NAME_LETTERS_MAX = 60;
const NAME = /^[A-Za-z0-9_-]+$/;

/** Why this is no name of a flow or stage; null if it is one. */
export function nameProblem(name: string): string | null {
  if (name === "") return "Give it a name";
  if (name.length > NAME_LETTERS_MAX) return `A name has at most ${NAME_LETTERS_MAX} letters`;
  return NAME.test(name) ? null : "A name has letters, digits, - and _ only";
}

/** A name that nobody has: the wish itself, or with a number behind it. */
export function freshName(taken: Iterable<string>, wish: string): string {
  const all = new Set(taken);
  const plain = wish.replace(/[^A-Za-z0-9_-]+/g, "-").replace(/^-+|-+$/g, "").slice(0, NAME_LETTERS_MAX - 4) || "stage";
  if (!all.has(plain)) return plain;
  const stem = plain.replace(/-\d+$/, "");
  let number = 2;
  while (all.has(`${stem}-${number}`)) number++;
  return `${stem}-${number}`;
}

/** `shop/orders` in the flow `shop` is `orders`. */
export function shortTarget(flow: string, target: string): string {
  return target.startsWith(`${flow}/`) && !target.slice(flow.length + 1).includes("/") ? target.slice(flow.length + 1) : target;
}

/** The target as live numbers and the API name it. */
export function fullTarget(flow: string, target: string): string {
  return /[:/]/.test(target) ? target : `${flow}/${target}`;
}

export function placeOf(doc: Doc, target: string): Place {
  if (target.startsWith("queue:")) return "queue";
  if (target.startsWith("topic:")) return "topic";
  if (target.includes("/")) return "flow";
  return target in doc.stages ? "stage" : "nowhere";
}

function asList(given: unknown): string[] {
  return (Array.isArray(given) ? given : given === undefined || given === null ? [] : [given]).filter((one) => typeof one === "string");
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || value === "" || (typeof value === "object" && Object.keys(value).length === 0);
}

function readRoutes(given: unknown): HttpRoute[] {
  const routes = (Array.isArray(given) ? given : []).filter((one): one is Record<string, unknown> => one !== null && typeof one === "object");
  return routes.map(({ route, stage, reply, timeout, headers, ...rest }) => ({
    ...rest,
    route: String(route ?? ""),
    stage: String(stage ?? ""),
    ...(reply === false ? { reply } : {}),
    ...(isEmpty(timeout) ? {} : { timeout: String(timeout) }),
    ...(isEmpty(headers) ? {} : { headers: asList(headers) }),
  }));
}

/** The same document with all edges in `outputs`, and without what says nothing. */
export function readDocument(given: FlowDocument | FlowDocumentGiven | Record<string, unknown>): Doc {
  const raw = given as Record<string, unknown>;
  const flow = String(raw["flow"] ?? "");
  const rawStages = (raw["stages"] ?? {}) as Record<string, Record<string, unknown>>;
  const outputs = new Map<string, Record<string, string[]>>();
  const add = (stage: string, output: string, target: string) => {
    const own = outputs.get(stage) ?? {};
    const list = (own[output] ??= []);
    if (!list.includes(target)) list.push(target);
    outputs.set(stage, own);
  };
  for (const [name, stage] of Object.entries(rawStages)) {
    const named = (stage["outputs"] ?? {}) as Record<string, unknown>;
    for (const target of asList(stage["to"])) add(name, "out", shortTarget(flow, target));
    for (const [output, targets] of Object.entries(named)) for (const target of asList(targets)) add(name, output, shortTarget(flow, target));
  }
  for (const [name, stage] of Object.entries(rawStages)) {
    for (const source of asList(stage["from"])) {
      const [from = "", output = "out"] = source.split(".");
      if (from in rawStages) add(from, output, name);
    }
  }
  const stages: Record<string, Stage> = {};
  for (const [name, stage] of Object.entries(rawStages)) {
    const { to: _to, from: _from, outputs: _outputs, ...rest } = stage;
    const kept = Object.fromEntries(Object.entries(rest).filter(([, value]) => !isEmpty(value)));
    const own = outputs.get(name);
    stages[name] = { plugin: "", ...kept, ...(own ? { outputs: own } : {}) } as Stage;
  }
  const http = readRoutes(raw["http"]);
  return {
    flow,
    ...(raw["description"] ? { description: String(raw["description"]) } : {}),
    ...(raw["delivery"] ? { delivery: String(raw["delivery"]) } : {}),
    stages,
    ...(http.length > 0 ? { http } : {}),
  };
}

/** The document without all that it does, so that everything in it is new. */
export function bareDocument({ stages: _stages, http: _http, ...rest }: Doc): Doc {
  return { ...rest, stages: {} };
}

export function emptyDocument(flow: string): Doc {
  return { flow, stages: {} };
}

/** As the API takes it: single targets stand without a list. */
export function writeDocument(doc: Doc): FlowDocumentGiven {
  const stages = Object.fromEntries(
    Object.entries(doc.stages).map(([name, stage]) => {
      const { outputs, ...rest } = stage;
      const written = Object.entries(outputs ?? {})
        .filter(([, targets]) => targets.length > 0)
        .map(([output, targets]) => [output, targets.length === 1 ? targets[0] : targets]);
      return [name, { ...rest, ...(written.length > 0 ? { outputs: Object.fromEntries(written) } : {}) }];
    }),
  );
  return { ...doc, stages } as unknown as FlowDocumentGiven;
}

/** The plug-in without its version. */
export function pluginId(reference: string): string {
  if (/^(sha256:|file:|https?:|\.{0,2}\/)/.test(reference)) return reference;
  const at = reference.lastIndexOf("@");
  return at > 0 ? reference.slice(0, at) : reference;
}

export function same(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object") return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const one = a as Record<string, unknown>, two = b as Record<string, unknown>;
  const names = Object.keys(one).filter((name) => one[name] !== undefined);
  const others = Object.keys(two).filter((name) => two[name] !== undefined);
  return names.length === others.length && names.every((name) => same(one[name], two[name]));
}
