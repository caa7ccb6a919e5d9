// Lines up what is selected.
import type { Position } from "./document";

export interface Box extends Position {
  width: number;
  height: number;
}

export type Boxes = ReadonlyMap<string, Box>;
export type Arrangement = "left" | "top" | "across" | "down";

export function arrange(boxes: Boxes, how: Arrangement): Map<string, Position> {
  const all = [...boxes];
  const moved = new Map<string, Position>();
  if (all.length < 2) return moved;
  if (how === "left" || how === "top") {
    const axis = how === "left" ? "x" : "y";
    const least = Math.min(...all.map(([, box]) => box[axis]));
    for (const [name, box] of all) moved.set(name, { x: box.x, y: box.y, [axis]: least });
    return moved;
  }
  const [axis, size] = how === "across" ? (["x", "width"] as const) : (["y", "height"] as const);
  const ordered = all.sort(([, a], [, b]) => a[axis] - b[axis]);
  const first = ordered[0]?.[1] as Box, last = ordered.at(-1)?.[1] as Box;
  const room = last[axis] + last[size] - first[axis];
  const used = ordered.reduce((sum, [, box]) => sum + box[size], 0);
  // Where they lie over each other they get some room.
  const gap = Math.max(20, (room - used) / (ordered.length - 1));
  let next = first[axis];
  for (const [name, box] of ordered) {
    moved.set(name, { x: box.x, y: box.y, [axis]: Math.round(next) });
    next += box[size] + gap;
  }
  return moved;
}
