// What an example asks before it runs, as the schema of a form; and what is sent then.
import type { Example } from "../api/types";
import type { Schema } from "../forms/schema";

function schemaOf(value: unknown): Schema {
  if (typeof value === "string") return { type: "string", minLength: 1 };
  if (typeof value === "number") return { type: Number.isInteger(value) ? "integer" : "number" };
  if (typeof value === "boolean") return { type: "boolean" };
  if (Array.isArray(value)) return { type: "array", minItems: 1, items: value.length > 0 ? schemaOf(value[0]) : {} };
  return {};
}

/** Each need under its label; if two have the same one, the stage tells them apart. */
function names({ needs }: Example): string[] {
  return needs.map(({ label, stage }, at) => (needs.findIndex((other) => other.label === label) === at ? label : `${label}, ${stage}`));
}

export function formOf(example: Example): { schema: Schema; value: Record<string, unknown> } {
  const all = names(example);
  const entries = example.needs.map((need, at) => [all[at] ?? "", need] as const);
  return {
    schema: { type: "object", required: all, properties: Object.fromEntries(entries.map(([name, need]) => [name, schemaOf(need.default)])) },
    value: Object.fromEntries(entries.map(([name, need]) => [name, need.default])),
  };
}

export function parametersOf(example: Example, value: unknown): Record<string, Record<string, unknown>> {
  const given = (value ?? {}) as Record<string, unknown>;
  const all = names(example);
  const parameters: Record<string, Record<string, unknown>> = {};
  example.needs.forEach(({ stage, parameter }, at) => {
    const one = given[all[at] ?? ""];
    if (one !== undefined) (parameters[stage] ??= {})[parameter] = one;
  });
  return parameters;
}
