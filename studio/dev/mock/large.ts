// A flow of 500 stages and 1,000 edges, to see that the canvas stays quick.
import type { MockFlow, MockStage } from "./flows";

const LAYERS = 25, ROWS = 20;
const PARAMETERS: Record<string, unknown> = { generator: { per_second: 40 }, map: { to: "event" }, filter: { where: "event.n % 2 == 0" }, "flat-map": { to: "[event]" }, enrich: { key: "event.id", file: "table.csv" }, aggregate: { by: "event.id", compute: { count: "count" } } };
const KINDS = ["map", "filter", "flat-map", "enrich", "aggregate"];

export function largeFlow(): MockFlow {
  const stages: Record<string, MockStage> = {};
  const nameOf = (layer: number, row: number) => `s${String(layer).padStart(2, "0")}-${String((row + ROWS) % ROWS).padStart(2, "0")}`;
  for (let layer = 0; layer < LAYERS; layer++) {
    for (let row = 0; row < ROWS; row++) {
      const last = layer === LAYERS - 1;
      const refused = (layer + row) % 3 === 0 ? { refused: [nameOf(layer + 1, row + 2)] } : {};
      const plugin = layer === 0 ? "generator" : (KINDS[(layer * 7 + row) % KINDS.length] as string);
      stages[nameOf(layer, row)] = {
        plugin, parameters: PARAMETERS[plugin], position: { x: layer * 320, y: row * 160 }, ...(plugin === "aggregate" ? { key: "json:/id", workers: 4 } : {}),
        outputs: last ? { out: [`queue:large-${row % 4}`] } : { out: [nameOf(layer + 1, row), ...(row % 4 === 1 ? [] : [nameOf(layer + 1, row + 1)])], ...refused },
      };
    }
  }
  return { flow: "large", description: "500 stages, to see that the canvas stays quick", delivery: "at-most-once", pace: 40, stages };
}
