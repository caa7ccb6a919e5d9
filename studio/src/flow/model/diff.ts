// What is other between two documents, field by field, and how two changes of one document come together.
import { same, type Doc, type HttpRoute, type Stage } from "./document";
import { answerText, withRoutes } from "./http";

export type Mark = "added" | "changed" | "moved" | "removed";

export interface FieldChange {
  /** The way to the field, such as `parameters.by`. */
  field: string;
  before: unknown;
  after: unknown;
}

export interface StageChange {
  stage: string;
  kind: "added" | "removed" | "changed" | "moved";
  fields: FieldChange[];
}

export interface RouteChange {
  /** Such as `POST /orders`. */
  route: string;
  kind: "added" | "removed" | "changed";
  before: HttpRoute | undefined;
  after: HttpRoute | undefined;
}

export interface Difference {
  flow: FieldChange[];
  stages: StageChange[];
  routes: RouteChange[];
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function fieldsOf(before: unknown, after: unknown, field: string, found: FieldChange[]): void {
  if (same(before, after)) return;
  // Texts of lists and choices are read as a whole; tables part by part.
  if (isRecord(before) && isRecord(after)) {
    for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
      fieldsOf(before[name], after[name], field ? `${field}.${name}` : name, found);
    }
  } else found.push({ field, before, after });
}

/** Parts of a stage that somebody reading a change wants to see each, though they are there on one side only. */
function fieldsOfStage(before: Stage | undefined, after: Stage | undefined): FieldChange[] {
  const found: FieldChange[] = [];
  const open = (stage: Stage | undefined, other: Stage | undefined) =>
    stage && other ? { parameters: other.parameters && isRecord(other.parameters) ? {} : undefined, outputs: other.outputs ? {} : undefined, ...stage } : {};
  fieldsOf(open(before, after), open(after, before), "", found);
  return found.filter(({ before: b, after: a }) => !(isRecord(b) && Object.keys(b).length === 0 && a === undefined) && !(isRecord(a) && Object.keys(a).length === 0 && b === undefined));
}

/** Routes by what they take; should something be there twice, the second is told apart. */
function byRoute(routes: readonly HttpRoute[] = []): Map<string, HttpRoute> {
  const found = new Map<string, HttpRoute>();
  for (const route of routes) {
    let key = route.route;
    while (found.has(key)) key += " ";
    found.set(key, route);
  }
  return found;
}

function routeChanges(before: Doc, after: Doc): RouteChange[] {
  if (before.http === after.http) return [];
  const old = byRoute(before.http), now = byRoute(after.http);
  const changes = [...new Set([...old.keys(), ...now.keys()])].map((key): RouteChange => {
    const was = old.get(key), is = now.get(key);
    return { route: key, kind: !was ? "added" : !is ? "removed" : "changed", before: was, after: is };
  });
  return changes.filter((change) => !same(change.before, change.after));
}

/** A route as one reads it in a difference: who answers, and with what. */
export function routeText(route: HttpRoute): string {
  return `${route.stage}: ${answerText(route)}`;
}

/** What is meant where nothing is said: the node always says it. */
const USUAL = [["description", ""], ["delivery", "state-once"]] as const;

export function differenceOf(before: Doc, after: Doc): Difference {
  const flow: FieldChange[] = [];
  for (const [field, usual] of USUAL) {
    if ((before[field] ?? usual) !== (after[field] ?? usual)) flow.push({ field, before: before[field], after: after[field] });
  }
  const stages: StageChange[] = [];
  for (const stage of new Set([...Object.keys(before.stages), ...Object.keys(after.stages)])) {
    const old = before.stages[stage], now = after.stages[stage];
    if (old === now) continue;
    if (!old && now) {
      const { position: _, ...rest } = now;
      stages.push({ stage, kind: "added", fields: Object.entries(rest).map(([field, value]) => ({ field, before: undefined, after: value })) });
    } else if (old && !now) stages.push({ stage, kind: "removed", fields: [] });
    else {
      const fields = fieldsOfStage(old, now);
      if (fields.length === 0) continue;
      const moved = fields.every(({ field }) => field.startsWith("position"));
      stages.push({ stage, kind: moved ? "moved" : "changed", fields: moved ? [] : fields.filter(({ field }) => !field.startsWith("position")) });
    }
  }
  return { flow, stages, routes: routeChanges(before, after) };
}

export function isSame({ flow, stages, routes }: Difference): boolean {
  return flow.length === 0 && stages.length === 0 && routes.length === 0;
}

/** What is to be seen on the canvas of each stage. */
export function marksOf(before: Doc, after: Doc): Map<string, Mark> {
  const { stages, routes } = differenceOf(before, after);
  const marks = new Map<string, Mark>(stages.map(({ stage, kind }) => [stage, kind]));
  for (const stage of routes.flatMap((change) => [change.before?.stage, change.after?.stage])) {
    if (stage !== undefined && stage in after.stages && (marks.get(stage) ?? "moved") === "moved") marks.set(stage, "changed");
  }
  return marks;
}

/** In a few words: "2 stages changed, 1 added". */
export function summaryOf({ flow, stages, routes }: Difference): string {
  const parts: string[] = [];
  const count = (kind: Mark) => stages.filter((one) => one.kind === kind).length;
  for (const [kind, word] of [["changed", "changed"], ["added", "added"], ["removed", "removed"], ["moved", "moved on the canvas"]] as const) {
    const many = count(kind);
    if (many > 0) parts.push(`${many} ${many === 1 ? "stage" : "stages"} ${word}`);
  }
  if (routes.length > 0) parts.push(`${routes.length} ${routes.length === 1 ? "route" : "routes"} over HTTP ${routes.every(({ kind }) => kind === "added") ? "added" : routes.every(({ kind }) => kind === "removed") ? "removed" : "changed"}`);
  if (flow.length > 0) parts.push("the flow itself changed");
  return parts.join(", ");
}

export interface Merged {
  doc: Doc;
  /** Fields that both changed; mine stays. */
  both: string[];
}

/** My changes since `base`, put on top of theirs. */
export function mergeDocuments(base: Doc, mine: Doc, theirs: Doc): Merged {
  const both: string[] = [];
  const pick = (name: string, b: unknown, m: unknown, t: unknown): unknown => {
    if (same(m, b) || same(m, t)) return t;
    if (same(t, b)) return m;
    if (isRecord(m) && isRecord(t)) {
      const inner = isRecord(b) ? b : {};
      const made: Record<string, unknown> = {};
      for (const part of new Set([...Object.keys(t), ...Object.keys(m)])) {
        const value = pick(`${name}.${part}`, inner[part], m[part], t[part]);
        if (value !== undefined) made[part] = value;
      }
      return made;
    }
    if (!name.endsWith(".position")) both.push(name);
    return m;
  };
  const stages: Record<string, Stage> = {};
  for (const name of new Set([...Object.keys(theirs.stages), ...Object.keys(mine.stages)])) {
    const stage = pick(name, base.stages[name], mine.stages[name], theirs.stages[name]);
    if (stage !== undefined) stages[name] = stage as Stage;
  }
  const flowField = (field: "description" | "delivery") => pick(field, base[field], mine[field], theirs[field]) as string | undefined;
  const description = flowField("description"), delivery = flowField("delivery");
  const routes: HttpRoute[] = [];
  const [b, m, t] = [base, mine, theirs].map(({ http }) => byRoute(http)) as [Map<string, HttpRoute>, Map<string, HttpRoute>, Map<string, HttpRoute>];
  for (const key of new Set([...t.keys(), ...m.keys()])) {
    const route = pick(key, b.get(key), m.get(key), t.get(key)) as HttpRoute | undefined;
    if (route !== undefined) routes.push(route);
  }
  const doc: Doc = { flow: mine.flow, ...(description ? { description } : {}), ...(delivery ? { delivery } : {}), stages };
  return { doc: withRoutes(doc, routes), both };
}

/** A value as one reads it in a difference. */
export function valueText(value: unknown): string {
  if (value === undefined || value === null) return "not set";
  if (typeof value === "string") return value;
  if (Array.isArray(value) && value.every((one) => typeof one === "string")) return value.join(", ");
  return JSON.stringify(value, null, 1).replace(/\n\s*/g, " ");
}
