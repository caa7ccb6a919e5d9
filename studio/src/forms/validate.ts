// Whether a value fits a JSON Schema, with what is wrong at each place, by JSON pointer. It says what to do in
// words; the node checks everything again.
import { labelOf, resolve, shapeOf, type Schema, type Shape, type Variant } from "./schema";

export type Problems = Map<string, string>;

const DEPTH_MAX = 40;
const PERIOD = "^[0-9]+(ms|s|m|h|d)$";

export function validate(schema: Schema, value: unknown, root: Schema = schema): Problems {
  const problems: Problems = new Map();
  check(schema, value, root, "", problems, 0);
  return problems;
}

function at(parent: string, part: string | number): string {
  return `${parent}/${String(part).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

function check(schema: Schema, value: unknown, root: Schema, path: string, problems: Problems, depth: number): void {
  if (depth > DEPTH_MAX) return;
  const shape = shapeOf(schema, root);
  if (value === null && shape.nullable) return;
  const said = checkOne(shape, value, root, path, problems, depth);
  if (said !== null && !problems.has(path)) problems.set(path, said);
}

/** What is wrong with the value itself; what is wrong within it goes to the problems. */
function checkOne(shape: Shape, value: unknown, root: Schema, path: string, problems: Problems, depth: number): string | null {
  switch (shape.kind) {
    case "text":
      return typeof value === "string" ? textProblem(shape.schema, value) : "Write a text here";
    case "number":
      return typeof value === "number" && Number.isFinite(value)
        ? numberProblem(shape.schema, value, shape.integer)
        : shape.integer ? "Write a whole number here" : "Write a number here";
    case "boolean":
      return typeof value === "boolean" ? null : "Say yes or no here";
    case "const":
      return same(value, shape.value) ? null : `This must be ${labelOf(shape.value)}`;
    case "options":
      return shape.options.some((option) => same(option.value, value))
        ? null
        : `Choose one of ${shape.options.map((option) => option.label).join(", ")}`;
    case "list":
      return listProblem(shape, value, root, path, problems, depth);
    case "map":
    case "object":
      return recordProblem(shape, value, root, path, problems, depth);
    case "choice":
      return choiceProblem(shape.variants, value, root, path, problems, depth);
    case "json":
      return value === undefined ? "Write a value here" : null;
  }
}

function textProblem(schema: Schema, value: string): string | null {
  const letters = [...value].length;
  if (letters < (schema.minLength ?? 0)) return schema.minLength === 1 ? "Write something here" : `Write at least ${schema.minLength} letters`;
  if (letters > (schema.maxLength ?? Infinity)) return `Write at most ${schema.maxLength} letters`;
  if (schema.format === "cel" && value.trim() === "") return "Write an expression, such as event.price > 10";
  if (schema.pattern && !fits(schema.pattern, value)) {
    return schema.pattern === PERIOD
      ? "Write a number with its unit, such as 500ms, 10s, 5m, 1h or 2d"
      : `This must look like ${schema.pattern}`;
  }
  return null;
}

function fits(pattern: string, value: string): boolean {
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true; // The node has other patterns than browsers; it checks this one.
  }
}

function numberProblem(schema: Schema, value: number, integer: boolean): string | null {
  if (integer && !Number.isInteger(value)) return "Write a whole number here";
  if (value < (schema.minimum ?? -Infinity)) return `This must be at least ${schema.minimum}`;
  if (value > (schema.maximum ?? Infinity)) return `This must be at most ${schema.maximum}`;
  if (value <= (schema.exclusiveMinimum ?? -Infinity)) return `This must be more than ${schema.exclusiveMinimum}`;
  if (value >= (schema.exclusiveMaximum ?? Infinity)) return `This must be less than ${schema.exclusiveMaximum}`;
  return null;
}

function listProblem(shape: Shape & { kind: "list" }, value: unknown, root: Schema, path: string, problems: Problems, depth: number): string | null {
  if (!Array.isArray(value)) return "Make a list here";
  for (const [index, item] of value.entries()) check(shape.items, item, root, at(path, index), problems, depth + 1);
  const { minItems = 0, maxItems = Infinity } = shape.schema;
  if (value.length < minItems) return minItems === 1 ? "Add at least one" : `Add at least ${minItems}`;
  return value.length > maxItems ? `There may be at most ${maxItems}` : null;
}

function recordProblem(
  shape: Shape & { kind: "map" | "object" }, value: unknown, root: Schema, path: string, problems: Problems, depth: number,
): string | null {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return "Make a record here";
  const record = value as Record<string, unknown>;
  if (shape.kind === "map") {
    for (const [name, part] of Object.entries(record)) {
      if (name === "") problems.set(at(path, name), "Give it a name");
      else if (shape.names?.pattern && !fits(shape.names.pattern, name)) problems.set(at(path, name), `The name must look like ${shape.names.pattern}`);
      check(shape.values, part, root, at(path, name), problems, depth + 1);
    }
    return null;
  }
  const known = new Set(shape.fields.map(({ name }) => name));
  for (const { name, schema, required } of shape.fields) {
    const part = record[name];
    if (part !== undefined) check(schema, part, root, at(path, name), problems, depth + 1);
    else if (required) problems.set(at(path, name), "This is needed");
  }
  for (const [name, part] of Object.entries(record)) {
    if (!known.has(name) && shape.rest) check(shape.rest, part, root, at(path, name), problems, depth + 1);
  }
  return null;
}

function choiceProblem(variants: Variant[], value: unknown, root: Schema, path: string, problems: Problems, depth: number): string | null {
  let nearest: Problems | null = null;
  for (const { schema, tag } of variants) {
    const own: Problems = new Map();
    check(schema, value, root, path, own, depth + 1);
    const strange = unknownName(schema, value, root);
    if (own.size === 0 && strange === null) return null;
    if (strange !== null && own.size === 0) own.set(at(path, strange), "Nothing of this name is known here");
    // A variant that the value names is the one that is meant, although it does not fit yet.
    const isNamed = tag !== null && value !== null && typeof value === "object" && tag in value;
    if (isNamed || (!own.has(path) && (nearest === null || own.size < nearest.size))) nearest = own;
    if (isNamed) break;
  }
  if (nearest === null) return `Choose one of ${variants.map(({ title }) => title).join(", ")}`;
  for (const [where, what] of nearest) problems.set(where, what);
  return null;
}

/** A property that an object without further ones does not know: it tells variants apart. */
function unknownName(schema: Schema, value: unknown, root: Schema): string | null {
  const resolved = resolve(schema, root);
  if (resolved.additionalProperties !== false || value === null || typeof value !== "object") return null;
  return Object.keys(value).find((name) => !(name in (resolved.properties ?? {}))) ?? null;
}

export function same(a: unknown, b: unknown): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}
