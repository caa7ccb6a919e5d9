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

const NAME_BYTES_MAX = 60;

/** What is wrong with the name of a flow; null if nothing. */
export function nameProblem(name: string, taken: readonly string[] = []): string | null {
  if (!name) return "A flow needs a name.";
  if (!/^[\w-]+$/.test(name)) return "Only letters without accents, digits, - and _ can be in a name.";
  if (name.length > NAME_BYTES_MAX) return `A name has at most ${NAME_BYTES_MAX} letters.`;
  return taken.includes(name) ? "There is a flow of this name. Choose another, or stop that one first." : null;
}

/** The name itself, or with the first number that is free. */
export function freeName(name: string, taken: readonly string[]): string {
  if (!taken.includes(name)) return name;
  let number = 2;
  while (taken.includes(`${name}-${number}`)) number++;
  return `${name}-${number}`;
}
