import { expect, it } from "vitest";
import type { Example } from "../api/types";
import { formOf, parametersOf } from "./needs";

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
