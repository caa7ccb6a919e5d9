// How large nodes are and where their handles sit. Sizes are fixed, so that edges can be drawn to nodes that are not.
import type { Stage, Position } from "./document";

export const NODE_WIDTH = 208;
export const END_WIDTH = 160;
export const END_HEIGHT = 36;
const HEAD = 80;
const ROW = 20;
const FOOT = 6;

/** One output sits at the head; several have a row each. */
export function nodeHeight(outputs: number): number {
  return outputs > 1 ? HEAD + outputs * ROW + FOOT : HEAD;
}

export const INPUT_Y = 26;

export function outputY(index: number, outputs: number): number {
  return outputs > 1 ? HEAD + index * ROW + ROW / 2 : INPUT_Y;
}

export function positionOf(stage: Stage): Position | null {
  return stage.position ?? null;
}
