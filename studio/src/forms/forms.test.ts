import { describe, expect, it } from "vitest";
import { shapeOf, type Schema } from "./schema";
import { validate } from "./validate";
import { freshName, renamed, startOf, variantIndex, withProperty } from "./values";

/** As the node writes the parameters of `window`: a record with variants told by a property, a map and periods. */
const windowSchema: Schema = {
  type: "object",
  additionalProperties: false,
  required: ["cut", "time", "compute"],
  properties: {
    cut: { $ref: "#/$defs/Cut" },
    time: { type: "string", format: "cel" },
    by: { type: ["string", "null"], format: "cel" },
    compute: { type: "object", additionalProperties: { $ref: "#/$defs/Computation" } },
    lateness: { type: "string", pattern: "^[0-9]+(ms|s|m|h|d)$", default: "0ms" },
    keys_max: { type: "integer", minimum: 0, default: 100000 },
    on_error: { $ref: "#/$defs/OnError", default: "retry" },
  },
  $defs: {
    Cut: {
      oneOf: [
        { type: "object", properties: { tumbling: { type: "string", pattern: "^[0-9]+(ms|s|m|h|d)$" } }, required: ["tumbling"], additionalProperties: false },
        {
          type: "object",
          properties: { sliding: { type: "object", properties: { size: { type: "string" }, every: { type: "string" } }, required: ["size", "every"] } },
          required: ["sliding"],
          additionalProperties: false,
        },
      ],
    },
    Computation: {
      oneOf: [
        { type: "string", const: "count", description: "How many events there were." },
        { type: "object", properties: { sum: { type: "string", format: "cel" } }, required: ["sum"], additionalProperties: false },
        { type: "object", properties: { min: { type: "string", format: "cel" } }, required: ["min"], additionalProperties: false },
      ],
    },
    OnError: { oneOf: [{ type: "string", const: "retry", description: "Again." }, { type: "string", const: "skip" }] },
  },
};

const fitting = { cut: { tumbling: "10s" }, time: "event.at", compute: { n: "count", total: { sum: "event.price" } } };

describe("shapes", () => {
  it("sees options, choices, maps and what may be null", () => {
    expect(shapeOf(windowSchema.properties?.["on_error"], windowSchema)).toMatchObject({
      kind: "options",
      options: [{ value: "retry", help: "Again." }, { value: "skip" }],
    });
    expect(shapeOf(windowSchema.properties?.["by"], windowSchema)).toMatchObject({ kind: "text", nullable: true });
    expect(shapeOf(windowSchema.properties?.["compute"], windowSchema).kind).toBe("map");
    const cut = shapeOf(windowSchema.properties?.["cut"], windowSchema);
    expect(cut).toMatchObject({ kind: "choice", variants: [{ title: "tumbling", tag: "tumbling" }, { tag: "sliding" }] });
  });

  it("takes null out of variants and names types", () => {
    expect(shapeOf({ anyOf: [{ type: "integer" }, { type: "null" }] }, {})).toMatchObject({ kind: "number", integer: true, nullable: true });
    const shape = shapeOf({ anyOf: [{ type: "string" }, { type: "array", items: { type: "string" } }] }, {});
    expect(shape).toMatchObject({ kind: "choice", variants: [{ title: "text" }, { title: "list" }] });
    expect(shapeOf({ type: ["string", "integer"] }, {}).kind).toBe("choice");
  });

  it("falls back to JSON where nothing is said", () => {
    expect(shapeOf({}, {}).kind).toBe("json");
    expect(shapeOf(true, {}).kind).toBe("json");
    expect(shapeOf({ type: "object" }, {}).kind).toBe("json");
    expect(shapeOf({ $ref: "#/$defs/Missing" }, {}).kind).toBe("json");
  });

  it("ends where a schema refers to itself", () => {
    const root: Schema = { $ref: "#/$defs/A", $defs: { A: { $ref: "#/$defs/A" } } };
    expect(shapeOf(root, root).kind).toBe("json");
    expect(startOf(root, root)).toBeDefined();
  });
});

describe("validation", () => {
  it("is content with what fits", () => {
    expect([...validate(windowSchema, fitting)]).toEqual([]);
    expect([...validate(windowSchema, { ...fitting, by: null })]).toEqual([]);
  });

  it("says what is wrong where it is", () => {
    const found = validate(windowSchema, { cut: { tumbling: "10" }, compute: { n: { sum: 3 } }, keys_max: -1, on_error: "stop" });
    expect(Object.fromEntries(found)).toEqual({
      "/cut/tumbling": "Write a number with its unit, such as 500ms, 10s, 5m, 1h or 2d",
      "/time": "This is needed",
      "/compute/n/sum": "Write a text here",
      "/keys_max": "This must be at least 0",
      "/on_error": "Choose one of retry, skip",
    });
  });

  it("checks lengths, bounds and lists", () => {
    expect(validate({ type: "string", minLength: 1 }, "").get("")).toBe("Write something here");
    expect(validate({ type: "integer" }, 1.5).get("")).toBe("Write a whole number here");
    expect(validate({ type: "number", exclusiveMinimum: 0 }, 0).get("")).toBe("This must be more than 0");
    expect(validate({ type: "array", items: { type: "string" }, minItems: 1 }, []).get("")).toBe("Add at least one");
    expect(validate({ type: "array", items: { type: "string" } }, ["a", 2]).get("/1")).toBe("Write a text here");
  });

  it("lets patterns pass that browsers do not know", () => {
    expect(validate({ type: "string", pattern: "(?P<a>x)" }, "y").size).toBe(0);
  });
});

describe("values", () => {
  it("begins with defaults and what is needed", () => {
    expect(startOf(windowSchema, windowSchema)).toEqual({ cut: { tumbling: "" }, time: "", compute: {} });
    expect(startOf({ type: "integer", default: 7 }, {})).toBe(7);
    const part = (name: string, own: unknown) => ({ [name]: { type: ["string", "null"], default: own } });
    expect(startOf({ type: "object", properties: { ...part("a", "x"), ...part("b", "y"), ...part("c", null) }, default: { a: "x", b: "z", c: null } }, {})).toEqual({ b: "z" });
  });

  it("knows of which variant a value is", () => {
    const shape = shapeOf({ $ref: "#/$defs/Computation" }, windowSchema);
    if (shape.kind !== "choice") throw new Error("a choice was expected");
    const of = (value: unknown) => variantIndex(value, shape.variants, windowSchema);
    expect([of("count"), of({ sum: "event.a" }), of({ min: "" }), of(3)]).toEqual([0, 1, 2, -1]);
  });

  it("changes parts without touching the rest", () => {
    const before = { a: 1, b: 2, c: 3 };
    expect(withProperty(before, "b", undefined)).toEqual({ a: 1, c: 3 });
    expect(Object.keys(renamed(before, "b", "x"))).toEqual(["a", "x", "c"]);
    expect(freshName({ name: 1, name2: 1 })).toBe("name3");
    expect(before).toEqual({ a: 1, b: 2, c: 3 });
  });
});
