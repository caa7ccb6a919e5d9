// What is copied is text: a part of a document as JSON, which other flows and other studios can take in.
import { freshName, readDocument, writeDocument, type Doc, type Position, type Stage } from "./document";
import { shapeOf, withRoutes } from "./http";

const KIND = "hivewire-stages";
const STAGES_MAX = 10_000;

/** The stages with the edges between them and those that leave the flow, and the routes that lead to them. */
export function copyStages(doc: Doc, names: readonly string[]): string {
  const chosen = new Set(names);
  const stages: Record<string, Stage> = {};
  for (const [name, stage] of Object.entries(doc.stages)) {
    if (!chosen.has(name)) continue;
    const { outputs, ...rest } = stage;
    const inside = Object.entries(outputs ?? {})
      .map(([output, targets]) => [output, targets.filter((target) => chosen.has(target) || /[:/]/.test(target))] as const)
      .filter(([, targets]) => targets.length > 0);
    stages[name] = { ...rest, ...(inside.length > 0 ? { outputs: Object.fromEntries(inside) } : {}) };
  }
  const routes = (doc.http ?? []).filter(({ stage }) => chosen.has(stage));
  return JSON.stringify({ kind: KIND, ...writeDocument(withRoutes({ flow: doc.flow, stages }, routes)) }, null, 2);
}

/** The stages in a text that was copied, or in a whole document; null if it is neither. */
export function readCopied(text: string): Doc | null {
  try {
    const read: unknown = JSON.parse(text);
    if (read === null || typeof read !== "object" || !("stages" in read)) return null;
    const doc = readDocument(read as Record<string, unknown>);
    const count = Object.keys(doc.stages).length;
    return count > 0 && count <= STAGES_MAX && Object.values(doc.stages).every(({ plugin }) => typeof plugin === "string" && plugin !== "") ? doc : null;
  } catch {
    return null;
  }
}

/** Puts copied stages in, under names that are free, so that the middle of them comes to `at`. Requests that others take stay theirs. */
export function pasteStages(doc: Doc, copied: Doc, at: Position | null): { doc: Doc; names: string[] } {
  const taken = new Set(Object.keys(doc.stages));
  const named = new Map<string, string>();
  for (const name of Object.keys(copied.stages)) {
    const fresh = freshName(taken, name);
    taken.add(fresh);
    named.set(name, fresh);
  }
  const positions = Object.values(copied.stages).map(({ position }) => position ?? { x: 0, y: 0 });
  const middle = {
    x: (Math.min(...positions.map(({ x }) => x)) + Math.max(...positions.map(({ x }) => x))) / 2,
    y: (Math.min(...positions.map(({ y }) => y)) + Math.max(...positions.map(({ y }) => y))) / 2,
  };
  const shift = at ? { x: Math.round(at.x - middle.x), y: Math.round(at.y - middle.y) } : { x: 40, y: 40 };
  const stages = { ...doc.stages } as Record<string, Stage>;
  for (const [name, stage] of Object.entries(copied.stages)) {
    const { outputs, position = { x: 0, y: 0 }, ...rest } = stage;
    const renamed = Object.entries(outputs ?? {})
      .map(([output, targets]) => [output, targets.map((target) => named.get(target) ?? target).filter((target) => /[:/]/.test(target) || taken.has(target))] as const)
      .filter(([, targets]) => targets.length > 0);
    stages[named.get(name) ?? name] = {
      ...rest,
      ...(renamed.length > 0 ? { outputs: Object.fromEntries(renamed) } : {}),
      position: { x: position.x + shift.x, y: position.y + shift.y },
    };
  }
  const answered = new Set((doc.http ?? []).map(({ route }) => shapeOf(route)));
  const routes = (copied.http ?? []).filter(({ route }) => !answered.has(shapeOf(route))).map((route) => ({ ...route, stage: named.get(route.stage) ?? route.stage }));
  const pasted = { ...doc, stages };
  return { doc: routes.length > 0 ? withRoutes(pasted, [...(doc.http ?? []), ...routes]) : pasted, names: [...named.values()] };
}
