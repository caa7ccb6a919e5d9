// Keys of the configuration: what can be typed for them, and whether it fits.
import type { ConfigKey } from "../api/types";

export type ValueKind = "switch" | "number" | "text" | "json";

export function kindOf(key: Pick<ConfigKey, "value" | "default">): ValueKind {
  const known = key.default ?? key.value;
  if (typeof known === "boolean") return "switch";
  if (typeof known === "number") return "number";
  if (typeof known === "string") return "text";
  return "json";
}

export function write(value: unknown): string {
  return typeof value === "string" ? value : value === null || value === undefined ? "" : JSON.stringify(value, null, typeof value === "object" ? 2 : 0);
}

/** A value in one line. */
export function short(value: unknown): string {
  if (value === null || value === undefined) return "none";
  if (value === "") return '""';
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > 80 ? `${text.slice(0, 79)}…` : text;
}

/** What was typed as a value of this kind, or what is wrong with it. The node checks the rest. */
export function read(kind: ValueKind, text: string): { value?: unknown; error?: string } {
  if (kind === "text") return { value: text };
  if (kind === "switch") return { value: text === "true" };
  if (kind === "number") {
    const number = Number(text);
    return text.trim() === "" || !Number.isFinite(number) ? { error: "Write a number, without a unit" } : { value: number };
  }
  try {
    return { value: JSON.parse(text) };
  } catch (thrown) {
    return { error: `No JSON: ${thrown instanceof Error ? thrown.message : String(thrown)}` };
  }
}
