// The parameters of a plug-in as a table: one row for each, with those inside of others behind them.
import { labelOf, resolve, shapeOf, type Schema, type Shape } from "../forms/schema";

export interface ParameterRow {
  /** `cut.tumbling`, `outputs[].name`. */
  path: string;
  depth: number;
  type: string;
  needed: boolean;
  usual: string;
  help: string;
}

const DEPTH_MAX = 3;
const ROWS_MAX = 200;

/** What kind of value it is, in words. */
export function typeOf(shape: Shape, root: Schema): string {
  switch (shape.kind) {
    case "text":
      return shape.schema.format === "cel" ? "expression" : shape.schema.format === "uri" ? "URL" : isPeriod(shape.schema) ? "time" : "text";
    case "number":
      return shape.integer ? "whole number" : "number";
    case "boolean":
      return "yes or no";
    case "const":
      return labelOf(shape.value);
    case "options":
      return `one of ${shape.options.map(({ label }) => label).join(", ")}`;
    case "list":
      return `list of ${many(typeOf(shapeOf(shape.items, root), root))}`;
    case "map":
      return `names with ${many(typeOf(shapeOf(shape.values, root), root))}`;
    case "object":
      return "record";
    case "choice":
      return `one of ${shape.variants.map(({ title }) => title).join(", ")}`;
    case "json":
      return "any JSON";
  }
}

/** `30s`, `5m`: what the node writes times of its own as. */
function isPeriod({ pattern }: Schema): boolean {
  return pattern !== undefined && /\(ms\|s\|m\|h/.test(pattern);
}

function many(type: string): string {
  return { text: "texts", number: "numbers", "whole number": "whole numbers", expression: "expressions", record: "records", URL: "URLs" }[type] ?? type;
}

/** What its value must be like, beside its type. */
export function limitsOf(schema: Schema): string {
  const { minimum, maximum, minLength, maxLength, minItems, maxItems, exclusiveMinimum, pattern } = schema;
  const between = (from: number | undefined, to: number | undefined, unit: string) =>
    from !== undefined && to !== undefined ? `${from} to ${to}${unit}` : from !== undefined ? `at least ${from}${unit}` : to !== undefined ? `at most ${to}${unit}` : "";
  return [
    between(minimum, maximum, ""), exclusiveMinimum !== undefined ? `above ${exclusiveMinimum}` : "",
    between(minLength && minLength > 1 ? minLength : undefined, maxLength, " letters"), between(minItems, maxItems, " entries"), pattern ? (isPeriod(schema) ? "such as 500ms, 30s, 5m, 1h" : `like ${pattern}`) : "",
  ].filter(Boolean).join(", ");
}

export function rowsOf(schema: Schema | null | undefined): ParameterRow[] {
  const root = schema ?? {};
  const rows: ParameterRow[] = [];
  const fields = (shape: Shape, path: string, depth: number) => {
    if (shape.kind === "object") for (const field of shape.fields) row(field.schema, path ? `${path}.${field.name}` : field.name, depth, field.required);
    else if (shape.kind === "list") fields(shapeOf(shape.items, root), `${path}[]`, depth);
    else if (shape.kind === "map") fields(shapeOf(shape.values, root), `${path}.*`, depth);
    else if (shape.kind === "choice") for (const variant of shape.variants) fields(shapeOf(variant.schema, root), path, depth);
  };
  const row = (given: Schema, path: string, depth: number, needed: boolean) => {
    // Variants may have fields of the same name.
    if (rows.length >= ROWS_MAX || rows.some((other) => other.path === path)) return;
    const own = resolve(given, root);
    const shape = shapeOf(given, root);
    const usual = own.default === undefined || own.default === null ? "" : labelOf(own.default);
    rows.push({ path, depth, type: typeOf(shape, root), needed, usual, help: [shape.help, limitsOf(own)].filter(Boolean).join("\n") });
    if (depth < DEPTH_MAX) fields(shape, path, depth + 1);
  };
  fields(shapeOf(root, root), "", 0);
  return rows;
}
