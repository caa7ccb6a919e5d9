// Values of forms: what a new one begins with, which variant one is of, and how a part of it is changed.
import { resolve, shapeOf, type Schema, type Shape, type Variant } from "./schema";
import { same, validate } from "./validate";

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export function isRecord(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

const DEPTH_MAX = 12;

/** What a field begins with once it must have a value: its default, or the emptiest that fits. */
export function startOf(schema: Schema, root: Schema, depth = 0): unknown {
  const resolved = resolve(schema, root);
  const shape = shapeOf(schema, root);
  if (resolved.default !== undefined && resolved.default !== null && !(shape.kind === "object" && isRecord(resolved.default))) return structuredClone(resolved.default);
  if (depth > DEPTH_MAX) return null;
  switch (shape.kind) {
    case "text":
      return "";
    case "number":
      return shape.schema.minimum ?? 0;
    case "boolean":
      return false;
    case "const":
      return shape.value;
    case "options":
      return shape.options[0]?.value;
    case "list":
      return Array.from({ length: shape.schema.minItems ?? 0 }, () => startOf(shape.items, root, depth + 1));
    case "map":
    case "json":
      return {};
    case "choice":
      return shape.variants[0] ? startOf(shape.variants[0].schema, root, depth + 1) : null;
    case "object": {
      const made: Record<string, unknown> = {};
      const usual = isRecord(resolved.default) ? resolved.default : {};
      for (const { name, schema: part, required } of shape.fields) {
        const own = usual[name] ?? null;
        // What a part is anyway need not be said, and null is the same as nothing.
        if (own !== null && (required || !same(own, resolve(part, root).default))) made[name] = structuredClone(own);
        else if (required) made[name] = startOf(part, root, depth + 1);
      }
      return made;
    }
  }
}

/** Which variant the value is of: the one that it fits, or else the one that it looks like. */
export function variantIndex(value: unknown, variants: Variant[], root: Schema): number {
  const fits = variants.findIndex(({ schema }) => validate(schema, value, root).size === 0);
  if (fits >= 0) return fits;
  return variants.findIndex(({ schema, tag }) => {
    if (tag !== null) return isRecord(value) && tag in value;
    const shape = shapeOf(schema, root);
    return looksLike(value, shape, root);
  });
}

function looksLike(value: unknown, shape: Shape, root: Schema): boolean {
  switch (shape.kind) {
    case "text":
    case "options":
      return typeof value === "string";
    case "const":
      return value === shape.value;
    case "number":
      return typeof value === "number";
    case "boolean":
      return typeof value === "boolean";
    case "list":
      return Array.isArray(value);
    case "object": {
      if (!isRecord(value)) return false;
      const fixed = shape.fields.map((field) => [field.name, shapeOf(field.schema, root)] as const);
      return fixed.every(([name, part]) => part.kind !== "const" || value[name] === part.value);
    }
    case "map":
      return isRecord(value);
    default:
      return false;
  }
}

/** The record with this property changed, or without it if the value is undefined. The order stays. */
export function withProperty(record: unknown, name: string, value: unknown): Record<string, unknown> {
  const made = isRecord(record) ? { ...record } : {};
  if (value === undefined) delete made[name];
  else made[name] = value;
  return made;
}

export function withItem(list: unknown, index: number, value: unknown): unknown[] {
  const made = Array.isArray(list) ? [...list] : [];
  made[index] = value;
  return made;
}

export function withoutItem(list: unknown, index: number): unknown[] {
  return Array.isArray(list) ? list.filter((_, at) => at !== index) : [];
}

/** The record with a property renamed, at the same place. */
export function renamed(record: unknown, from: string, to: string): Record<string, unknown> {
  if (!isRecord(record)) return {};
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name === from ? to : name, value]));
}

/** A name that the record does not have yet. */
export function freshName(record: unknown, wish = "name"): string {
  if (!isRecord(record) || !(wish in record)) return wish;
  let number = 2;
  while (`${wish}${number}` in record) number++;
  return `${wish}${number}`;
}

export function pointer(parent: string, part: string | number): string {
  return `${parent}/${String(part).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}
