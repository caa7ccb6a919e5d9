// Places for what has none of its own: ends beside the stages that lead there, and stages that were never drawn.
import { nodeHeight, END_HEIGHT, END_WIDTH, NODE_WIDTH } from "./geometry";
import type { Doc, Position } from "./document";
import { graphOf, type GraphEnd } from "./graph";
import { layout } from "./layout";
import { outputsOf, pluginOf, type Plugins } from "./plugins";

export interface Placed {
  stages: Map<string, Position>;
  ends: Map<string, Position>;
}

interface Box extends Position {
  width: number;
  height: number;
}

const apart = (a: Box, b: Box) => a.x + a.width + 10 <= b.x || b.x + b.width + 10 <= a.x || a.y + a.height + 10 <= b.y || b.y + b.height + 10 <= a.y;
const TRIES_MAX = 200;

function free(box: Box, taken: readonly Box[]): Box {
  let found = box;
  for (let tried = 0; tried < TRIES_MAX; tried++) {
    const other = taken.find((one) => !apart(found, one));
    if (!other) return found;
    found = { ...found, y: Math.ceil((other.y + other.height + 12) / 4) * 4 };
  }
  return found;
}

export function heightOf(doc: Doc, plugins: Plugins, name: string): number {
  const stage = doc.stages[name];
  return stage ? nodeHeight(outputsOf(stage, pluginOf(plugins, stage)).length) : END_HEIGHT;
}

/** New places for everything. */
export function layoutAll(doc: Doc, plugins: Plugins): Placed {
  const { edges, ends } = graphOf(doc);
  const nodes = [
    ...Object.keys(doc.stages).map((id) => ({ id, width: NODE_WIDTH, height: heightOf(doc, plugins, id) })),
    ...ends.map(({ target }) => ({ id: target, width: END_WIDTH, height: END_HEIGHT })),
  ];
  const places = layout(nodes, edges.map(({ stage, target }) => ({ from: stage, to: target })));
  const placed: Placed = { stages: new Map(), ends: new Map() };
  for (const [id, position] of places) (id in doc.stages ? placed.stages : placed.ends).set(id, position);
  return placed;
}

/** Where everything is drawn: at its own place, where it was put in this browser, or where there is room. */
export function placesOf(doc: Doc, plugins: Plugins, kept: ReadonlyMap<string, Position>, loose: readonly GraphEnd[] = []): Placed {
  const names = Object.keys(doc.stages);
  const lacking = names.filter((name) => !doc.stages[name]?.position);
  const { ends } = graphOf(doc);
  const auto = lacking.length > 0 ? layoutAll(doc, plugins) : null;
  const placed: Placed = { stages: new Map(), ends: new Map() };
  const boxes: Box[] = [];
  // If some are drawn, the others come below them, in their own order.
  const drawn = names.flatMap((name) => doc.stages[name]?.position ?? []);
  const shift = drawn.length > 0 ? { x: Math.min(...drawn.map(({ x }) => x)), y: Math.max(...drawn.map(({ y }) => y)) + 180 } : { x: 0, y: 0 };
  for (const name of names) {
    const at = auto?.stages.get(name);
    const position = doc.stages[name]?.position ?? { x: (at?.x ?? 0) + shift.x, y: (at?.y ?? 0) + shift.y };
    placed.stages.set(name, position);
    boxes.push({ ...position, width: NODE_WIDTH, height: heightOf(doc, plugins, name) });
  }
  for (const end of [...ends, ...loose]) {
    const own = kept.get(end.target) ?? (drawn.length === 0 ? auto?.ends.get(end.target) : undefined);
    const from = end.from.flatMap((name) => placed.stages.get(name) ?? []);
    const right = Math.max(0, ...from.map(({ x }) => x)) + NODE_WIDTH + 90;
    const middle = from.length > 0 ? from.reduce((sum, { y }) => sum + y, 0) / from.length + 10 : 0;
    const box = own ? { ...own, width: END_WIDTH, height: END_HEIGHT } : free({ x: right, y: middle, width: END_WIDTH, height: END_HEIGHT }, boxes);
    placed.ends.set(end.target, { x: box.x, y: box.y });
    boxes.push(box);
  }
  return placed;
}
