import { expect, it } from "vitest";
import { draw, targetsOf } from "./graph";

it("finds all places that a stage leads to", () => {
  expect(targetsOf({ to: "b", outputs: { out: ["b", "queue:q"], refused: "store" } })).toEqual(["b", "queue:q", "store"]);
  expect(targetsOf({})).toEqual([]);
});

it("puts stages in columns, each behind what leads to it", () => {
  const { nodes, lines } = draw({ flow: "f", stages: { c: { key: "body", outputs: { out: "queue:done" } }, a: { outputs: { out: ["b", "c"] } }, b: { outputs: { out: "f/c" } } } });
  const at = Object.fromEntries(nodes.map((node) => [node.name, node]));
  expect(["a", "b", "c", "queue:done"].map((name) => at[name]?.x)).toEqual([0, 1 / 3, 2 / 3, 1]);
  expect(nodes.map(({ kind }) => kind)).toEqual(["keyed", "provider", "stage", "outside"]);
  expect(lines).toHaveLength(4);
});

it("draws cycles, and flows of one stage or none", () => {
  const { nodes, lines } = draw({ stages: { seed: { to: "fetch" }, fetch: { to: ["links", "store"] }, links: { to: "fetch" }, store: {} } });
  expect(lines.filter(({ back }) => back)).toEqual([{ from: 2, to: 1, back: true }]);
  expect(nodes.every(({ x, y }) => x >= 0 && x <= 1 && y > 0 && y < 1)).toBe(true);
  expect(draw({ stages: { only: {} } }).nodes).toEqual([{ name: "only", kind: "provider", x: 0.5, y: 0.5 }]);
  expect(draw({}).nodes).toEqual([]);
});
