// Finds places for all nodes: layers by the longest way from where events begin, an order within each layer that
// keeps edges from crossing, and heights near those of the neighbours. Edges that go back are left out of the layers.
import type { Position } from "./document";

export interface LayoutNode {
  id: string;
  width: number;
  height: number;
}

export interface LayoutEdge {
  from: string;
  to: string;
}

const GAP_X = 100;
const GAP_Y = 40;
const GRID = 20;
const SWEEPS = 12;
const DUMMIES_MAX = 6_000;

/** Edges that lead back into what they come from, by their index. */
export function backEdges(nodes: readonly LayoutNode[], edges: readonly LayoutEdge[]): Set<number> {
  const out = new Map<string, { to: string; index: number }[]>(nodes.map(({ id }) => [id, []]));
  const indegree = new Map<string, number>(nodes.map(({ id }) => [id, 0]));
  edges.forEach(({ from, to }, index) => {
    out.get(from)?.push({ to, index });
    indegree.set(to, (indegree.get(to) ?? 0) + 1);
  });
  const state = new Map<string, "open" | "done">();
  const back = new Set<number>();
  const begin = [...nodes].sort((a, b) => Math.min(1, indegree.get(a.id) ?? 0) - Math.min(1, indegree.get(b.id) ?? 0));
  for (const { id } of begin) {
    if (state.has(id)) continue;
    const stack = [{ id, next: 0 }];
    state.set(id, "open");
    while (stack.length > 0) {
      const top = stack[stack.length - 1] as { id: string; next: number };
      const edge = out.get(top.id)?.[top.next++];
      if (!edge) {
        state.set(top.id, "done");
        stack.pop();
      } else if (state.get(edge.to) === "open") back.add(edge.index);
      else if (!state.has(edge.to)) {
        state.set(edge.to, "open");
        stack.push({ id: edge.to, next: 0 });
      }
    }
  }
  return back;
}

/** The layer of each node: one behind the last of those that lead to it. */
export function layersOf(nodes: readonly LayoutNode[], edges: readonly LayoutEdge[]): Map<string, number> {
  const layers = new Map<string, number>(nodes.map(({ id }) => [id, 0]));
  const out = new Map<string, string[]>(nodes.map(({ id }) => [id, []]));
  const waits = new Map<string, number>(nodes.map(({ id }) => [id, 0]));
  for (const { from, to } of edges) {
    out.get(from)?.push(to);
    waits.set(to, (waits.get(to) ?? 0) + 1);
  }
  const ready = nodes.filter(({ id }) => waits.get(id) === 0).map(({ id }) => id);
  const order: string[] = [];
  for (let id = ready.pop(); id !== undefined; id = ready.pop()) {
    order.push(id);
    for (const to of out.get(id) ?? []) {
      layers.set(to, Math.max(layers.get(to) ?? 0, (layers.get(id) ?? 0) + 1));
      const left = (waits.get(to) ?? 0) - 1;
      waits.set(to, left);
      if (left === 0) ready.push(to);
    }
  }
  // Where events begin stands just before the first that takes them.
  const hasInput = new Set(edges.map(({ to }) => to));
  for (const id of order) {
    if (hasInput.has(id)) continue;
    const nearest = Math.min(...(out.get(id) ?? []).map((to) => layers.get(to) ?? 0));
    if (Number.isFinite(nearest)) layers.set(id, Math.max(0, nearest - 1));
  }
  return layers;
}

interface Slot {
  id: string;
  height: number;
  before: Slot[];
  behind: Slot[];
  order: number;
  y: number;
}

export function layout(nodes: readonly LayoutNode[], edges: readonly LayoutEdge[]): Map<string, Position> {
  const known = new Set(nodes.map(({ id }) => id));
  const real = edges.filter(({ from, to }) => from !== to && known.has(from) && known.has(to));
  const back = backEdges(nodes, real);
  const forward = real.filter((_, index) => !back.has(index));
  const layers = layersOf(nodes, forward);
  const slots = new Map<string, Slot>(nodes.map(({ id, height }) => [id, { id, height, before: [], behind: [], order: 0, y: 0 }]));
  const columns: Slot[][] = Array.from({ length: Math.max(0, ...layers.values()) + 1 }, () => []);
  for (const { id } of nodes) columns[layers.get(id) ?? 0]?.push(slots.get(id) as Slot);

  let dummies = 0;
  const join = (from: Slot, to: Slot) => (from.behind.push(to), to.before.push(from));
  for (const { from, to } of forward) {
    const first = layers.get(from) ?? 0, last = layers.get(to) ?? 0;
    let at = slots.get(from) as Slot;
    if (dummies + last - first < DUMMIES_MAX) {
      for (let layer = first + 1; layer < last; layer++) {
        const dummy: Slot = { id: "", height: 0, before: [], behind: [], order: 0, y: 0 };
        columns[layer]?.push(dummy);
        join(at, dummy);
        at = dummy;
        dummies++;
      }
    }
    join(at, slots.get(to) as Slot);
  }
  untangle(columns);
  place(columns);

  const widths = columns.map((column) => Math.max(0, ...column.map(({ id }) => nodesById(nodes).get(id)?.width ?? 0)));
  const positions = new Map<string, Position>();
  let x = 0;
  columns.forEach((column, index) => {
    for (const slot of column) if (slot.id) positions.set(slot.id, { x: snap(x), y: snap(slot.y) });
    x += (widths[index] ?? 0) + GAP_X;
  });
  return positions;
}

const byId = new WeakMap<readonly LayoutNode[], Map<string, LayoutNode>>();
function nodesById(nodes: readonly LayoutNode[]): Map<string, LayoutNode> {
  let found = byId.get(nodes);
  if (!found) byId.set(nodes, (found = new Map(nodes.map((node) => [node.id, node]))));
  return found;
}

function snap(value: number): number {
  return Math.round(value / GRID) * GRID;
}

function number(column: Slot[]): void {
  column.forEach((slot, index) => (slot.order = index));
}

/** Orders each layer by the middle of the neighbours, to and fro, and keeps the best order that was seen. */
function untangle(columns: Slot[][]): void {
  columns.forEach(number);
  let best = columns.map((column) => [...column]);
  let fewest = crossings(columns);
  for (let sweep = 0; sweep < SWEEPS && fewest > 0; sweep++) {
    const down = sweep % 2 === 0;
    const way = down ? columns : [...columns].reverse();
    for (const column of way) {
      const weight = new Map(column.map((slot) => [slot, middle(down ? slot.before : slot.behind) ?? slot.order]));
      column.sort((a, b) => (weight.get(a) ?? 0) - (weight.get(b) ?? 0) || a.order - b.order);
      number(column);
    }
    const now = crossings(columns);
    if (now < fewest) {
      fewest = now;
      best = columns.map((column) => [...column]);
    }
  }
  best.forEach((column, index) => {
    columns[index] = column;
    number(column);
  });
}

function middle(slots: Slot[]): number | null {
  return slots.length === 0 ? null : slots.reduce((sum, { order }) => sum + order, 0) / slots.length;
}

/** How many edges cross between neighbouring layers: inversions, counted by merging. */
function crossings(columns: Slot[][]): number {
  let sum = 0;
  for (const column of columns) {
    const ends = column.flatMap((slot) => slot.behind.map(({ order }) => order).sort((a, b) => a - b));
    sum += inversions(ends);
  }
  return sum;
}

function inversions(list: number[]): number {
  if (list.length < 2) return 0;
  const half = list.length >> 1;
  const left = list.slice(0, half), right = list.slice(half);
  let sum = inversions(left) + inversions(right), i = 0, j = 0;
  for (let at = 0; at < list.length; at++) {
    if (j >= right.length || (i < left.length && (left[i] as number) <= (right[j] as number))) list[at] = left[i++] as number;
    else {
      list[at] = right[j++] as number;
      sum += left.length - i;
    }
  }
  return sum;
}

/** Gives each slot a height: near those of its neighbours, in the order of its layer, with room between. */
function place(columns: Slot[][]): void {
  for (const column of columns) {
    let y = 0;
    for (const slot of column) {
      slot.y = y;
      y += slot.height + (slot.id ? GAP_Y : GAP_Y / 2);
    }
  }
  const centre = ({ y, height }: Slot) => y + height / 2;
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    for (const column of sweep % 2 === 0 ? columns : [...columns].reverse()) {
      const wanted = column.map((slot) => {
        const near = sweep % 2 === 0 ? slot.before : slot.behind;
        const all = near.length > 0 ? near : sweep % 2 === 0 ? slot.behind : slot.before;
        return all.length === 0 ? slot.y : all.reduce((sum, other) => sum + centre(other), 0) / all.length - slot.height / 2;
      });
      settle(column, wanted);
    }
  }
  const least = Math.min(0, ...columns.flat().map(({ y }) => y));
  for (const slot of columns.flat()) slot.y -= least;
}

/** Slots come as near to what they want as their order allows: who would overlap moves as one block. */
function settle(column: Slot[], wanted: number[]): void {
  const blocks: { slots: Slot[]; sum: number; height: number }[] = [];
  column.forEach((slot, index) => {
    let block = { slots: [slot], sum: wanted[index] ?? 0, height: slot.height + (slot.id ? GAP_Y : GAP_Y / 2) };
    for (let last = blocks.at(-1); last && last.sum / last.slots.length + last.height > block.sum / block.slots.length; last = blocks.at(-1)) {
      blocks.pop();
      // What the later block wants, seen from where the earlier one begins.
      block = { slots: [...last.slots, ...block.slots], sum: last.sum + block.sum - last.height * block.slots.length, height: last.height + block.height };
    }
    blocks.push(block);
  });
  for (const { slots, sum } of blocks) {
    let y = sum / slots.length;
    for (const slot of slots) {
      slot.y = y;
      y += slot.height + (slot.id ? GAP_Y : GAP_Y / 2);
    }
  }
}
