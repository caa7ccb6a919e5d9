import { expect, it } from "vitest";
import type { Example } from "../api/types";
import { formOf, freeName, nameProblem, parametersOf } from "./needs";

const example = {
  id: "site", title: "", description: "", document: { flow: "site", delivery: "state-once", stages: {} },
  needs: [
    { stage: "seed", parameter: "urls", label: "Where to begin", default: ["https://example.com/"] },
    { stage: "fetch", parameter: "per_second", label: "Pace", default: 4 },
    { stage: "seed", parameter: "pace", label: "Pace", default: { a: 1 } },
  ],
} as Example;

it("makes a form of what an example needs", () => {
  const { schema, value } = formOf(example);
  expect(schema.required).toEqual(["Where to begin", "Pace", "Pace, seed"]);
  expect(schema.properties).toMatchObject({ "Where to begin": { type: "array", items: { type: "string" } }, Pace: { type: "integer" } });
  expect(parametersOf(example, { ...value, Pace: 9 })).toEqual({ seed: { urls: ["https://example.com/"], pace: { a: 1 } }, fetch: { per_second: 9 } });
});

it("knows which names a flow can have", () => {
  expect([nameProblem("shop"), nameProblem("Shop_2-b")]).toEqual([null, null]);
  expect([nameProblem(""), nameProblem("a b"), nameProblem("a/b"), nameProblem("x".repeat(99)), nameProblem("shop", ["shop"])].every(Boolean)).toBe(true);
  expect([freeName("shop", []), freeName("shop", ["shop", "shop-2"])]).toEqual(["shop", "shop-3"]);
});
