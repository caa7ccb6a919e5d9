// What a JSON Schema says about one value, in the words of a form. What a form cannot show is of the shape `json`.

export interface Schema {
  $ref?: string;
  $defs?: Record<string, Schema | boolean>;
  definitions?: Record<string, Schema | boolean>;
  type?: string | string[];
  title?: string;
  description?: string;
  default?: unknown;
  const?: unknown;
  enum?: unknown[];
  format?: string;
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  multipleOf?: number;
  items?: Schema | boolean;
  minItems?: number;
  maxItems?: number;
  properties?: Record<string, Schema | boolean>;
  required?: string[];
  additionalProperties?: Schema | boolean;
  propertyNames?: Schema;
  oneOf?: (Schema | boolean)[];
  anyOf?: (Schema | boolean)[];
  allOf?: (Schema | boolean)[];
  examples?: unknown[];
}

export interface Option {
  value: unknown;
  label: string;
  help: string;
}

export interface Variant {
  title: string;
  help: string;
  schema: Schema;
  /** `{"sum": …}`: the one property that says which variant it is; the form shows only what is in it. */
  tag: string | null;
}

interface Common {
  help: string;
  /** Whether null stands for nothing. */
  nullable: boolean;
}

export type Shape = Common &
  (
    | { kind: "text"; schema: Schema }
    | { kind: "number"; schema: Schema; integer: boolean }
    | { kind: "boolean" }
    | { kind: "const"; value: unknown }
    | { kind: "options"; options: Option[] }
    | { kind: "list"; items: Schema; schema: Schema }
    | { kind: "map"; values: Schema; names: Schema | null }
    | { kind: "object"; fields: Field[]; rest: Schema | null }
    | { kind: "choice"; variants: Variant[] }
    | { kind: "json" }
  );

export interface Field {
  name: string;
  schema: Schema;
  required: boolean;
}

const DEPTH_MAX = 20;

function asSchema(given: Schema | boolean | undefined): Schema {
  return typeof given === "object" && given !== null ? given : {};
}

/** Follows `$ref` within the whole schema; what stands beside it counts more. */
export function resolve(given: Schema | boolean | undefined, root: Schema, depth = 0): Schema {
  const schema = asSchema(given);
  if (!schema.$ref || depth > DEPTH_MAX) return schema;
  const { $ref, ...beside } = schema;
  if (!$ref.startsWith("#/")) return beside;
  let found: unknown = root;
  for (const part of $ref.slice(2).split("/")) {
    const key = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
    found = found !== null && typeof found === "object" ? (found as Record<string, unknown>)[key] : undefined;
  }
  return { ...resolve(found as Schema, root, depth + 1), ...beside };
}

function isNull(schema: Schema): boolean {
  return schema.type === "null" || ("const" in schema && schema.const === null);
}

/** Several schemas that all hold, as one, if they are of objects. */
function allOf(schema: Schema, root: Schema): Schema {
  if (!schema.allOf) return schema;
  const { allOf: parts, ...own } = schema;
  return parts.map((part) => resolve(part, root)).reduce<Schema>(
    (all, part) => ({
      ...part,
      ...all,
      ...(all.properties || part.properties ? { properties: { ...part.properties, ...all.properties } } : {}),
      ...(all.required || part.required ? { required: [...new Set([...(part.required ?? []), ...(all.required ?? [])])] } : {}),
    }),
    own,
  );
}

export function labelOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** What a property name says to people: `keys_max` is `keys max`. */
export function nameOf(name: string): string {
  return name.replaceAll("_", " ");
}

function optionsOf(schema: Schema): Option[] | null {
  if (schema.enum) return schema.enum.map((value) => ({ value, label: labelOf(value), help: "" }));
  if ("const" in schema) return [{ value: schema.const, label: schema.title ?? labelOf(schema.const), help: schema.description ?? "" }];
  return null;
}

function variantOf(schema: Schema, root: Schema, index: number): Variant {
  const help = schema.description ?? "";
  const properties = Object.entries(schema.properties ?? {});
  const only = properties.length === 1 && schema.required?.length === 1 ? properties[0] : undefined;
  if (only && !("const" in resolve(only[1], root))) {
    return { title: schema.title ?? nameOf(only[0]), help, schema, tag: only[0] };
  }
  const named = properties.map(([, value]) => resolve(value, root)).find((value) => "const" in value || value.enum?.length === 1);
  const name = named ? ("const" in named ? named.const : named.enum?.[0]) : undefined;
  const type = Array.isArray(schema.type) ? schema.type.join(" or ") : schema.type;
  const words: Record<string, string> = { string: "text", array: "list", object: "record", boolean: "yes or no", integer: "whole number" };
  const options = optionsOf(schema);
  const title = schema.title ?? (name !== undefined ? labelOf(name) : undefined)
    ?? (options?.length === 1 ? options[0]?.label : undefined) ?? (type ? (words[type] ?? type) : `variant ${index + 1}`);
  return { title, help, schema, tag: null };
}

function alternatives(parts: Schema[], root: Schema, common: Common): Shape {
  const present = parts.filter((part) => !isNull(part));
  const nullable = common.nullable || present.length < parts.length;
  const single = present[0];
  if (present.length === 1 && single) {
    const inner = shapeOf(single, root);
    return { ...inner, nullable: nullable || inner.nullable, help: common.help || inner.help };
  }
  const options = present.map(optionsOf);
  if (present.length > 0 && options.every((option) => option !== null)) {
    return { ...common, nullable, kind: "options", options: options.flat() };
  }
  return { ...common, nullable, kind: "choice", variants: present.map((part, index) => variantOf(part, root, index)) };
}

export function shapeOf(given: Schema | boolean | undefined, root: Schema): Shape {
  const schema = allOf(resolve(given, root), root);
  const types = schema.type === undefined ? [] : Array.isArray(schema.type) ? schema.type : [schema.type];
  const common: Common = { help: schema.description ?? "", nullable: types.includes("null") };
  const several = schema.oneOf ?? schema.anyOf;
  // An object whose variants only say which of its fields belong together is shown with all of its fields.
  if (several && !schema.properties) {
    return alternatives(several.map((part) => allOf(resolve(part, root), root)), root, common);
  }
  if ("const" in schema) return { ...common, kind: "const", value: schema.const };
  if (schema.enum) {
    const values = schema.enum.filter((value) => value !== null);
    return { ...common, nullable: common.nullable || values.length < schema.enum.length, kind: "options", options: optionsOf({ enum: values }) ?? [] };
  }
  const real = types.filter((type) => type !== "null");
  if (real.length > 1) {
    return alternatives(types.map((type) => ({ ...schema, description: "", type })), root, { ...common, nullable: false });
  }
  const type = real[0] ?? (schema.properties || schema.additionalProperties ? "object" : schema.items ? "array" : undefined);
  switch (type) {
    case "string":
      return { ...common, kind: "text", schema };
    case "integer":
    case "number":
      return { ...common, kind: "number", schema, integer: type === "integer" };
    case "boolean":
      return { ...common, kind: "boolean" };
    case "array":
      return { ...common, kind: "list", items: asSchema(schema.items), schema };
    case "object":
      return objectShape(schema, common);
    default:
      return { ...common, kind: "json" };
  }
}

function objectShape(schema: Schema, common: Common): Shape {
  const properties = Object.entries(schema.properties ?? {});
  const rest = typeof schema.additionalProperties === "object" ? schema.additionalProperties : null;
  if (properties.length === 0) {
    if (rest) return { ...common, kind: "map", values: rest, names: schema.propertyNames ?? null };
    // An object about which nothing is said can hold anything.
    return schema.additionalProperties === false && schema.properties
      ? { ...common, kind: "object", fields: [], rest: null }
      : { ...common, kind: "json" };
  }
  const required = new Set(schema.required ?? []);
  const fields = properties.map(([name, value]) => ({ name, schema: asSchema(value), required: required.has(name) }));
  // What must be given comes first, otherwise they stay in their order.
  fields.sort((a, b) => Number(b.required) - Number(a.required));
  return { ...common, kind: "object", fields, rest };
}
