import { expect, it } from "vitest";
import { limitsOf, rowsOf } from "./parameters";

it("makes a table of a schema, what must be given first", () => {
  const rows = rowsOf({
    type: "object", required: ["cut"],
    properties: {
      late: { type: "string", default: "0ms", description: "How late." },
      cut: { oneOf: [{ type: "object", required: ["tumbling"], properties: { tumbling: { $ref: "#/$defs/p" } } }, { type: "object", required: ["session"], properties: { session: { type: "string" } } }] },
      outputs: { type: "array", minItems: 1, items: { type: "object", required: ["name"], properties: { name: { type: "string" }, if: { type: "string", format: "cel" } } } },
      n: { type: ["integer", "null"], minimum: 1, maximum: 9 },
      any: {},
    },
    $defs: { p: { type: "string", description: "A period." } },
  });
  expect(rows.map(({ path, type, needed, usual }) => [path, type, needed, usual])).toEqual([
    ["cut", "one of tumbling, session", true, ""], ["cut.tumbling", "text", true, ""], ["cut.session", "text", true, ""],
    ["late", "text", false, "0ms"],
    ["outputs", "list of records", false, ""], ["outputs[].name", "text", true, ""], ["outputs[].if", "expression", false, ""],
    ["n", "whole number", false, ""], ["any", "any JSON", false, ""],
  ]);
  expect(rows[1]?.help).toBe("A period.");
  expect([rowsOf(null), rowsOf({})]).toEqual([[], []]);
});

it("says what a value must be like", () => {
  expect(limitsOf({ minimum: 1, maximum: 9 })).toBe("1 to 9");
  expect(limitsOf({ exclusiveMinimum: 0 })).toBe("above 0");
  expect(limitsOf({ minItems: 1, pattern: "^a" })).toBe("at least 1 entries, like ^a");
});

it("ends with schemas that hold themselves", () => {
  expect(rowsOf({ type: "object", properties: { a: { $ref: "#" } } }).length).toBeLessThan(10);
});
