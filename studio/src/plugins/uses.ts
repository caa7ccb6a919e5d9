// Where plug-ins are used, and how lists of them are cut and grouped.
import type { Flow, PalettePlugin } from "../api/types";
import { categoryOf } from "../flow/model/plugins";

export interface Use {
  stage: string;
  version: string;
}

/** Stages whose code is this plug-in; with what version. */
export function usesOf(id: string, flows: readonly Flow[]): Use[] {
  return flows.flatMap(({ stages }) => stages.flatMap(({ spec, code, deployment }) => {
    const source = deployment?.source ?? "";
    const named = source.replace(/^(plugin|builtin):/, "").split("@")[0];
    const own = /^(plugin|builtin):/.test(source) ? named === id : code?.name === id;
    return own ? [{ stage: spec.address, version: code?.version ?? "" }] : [];
  }));
}

export interface Filter {
  text: string;
  kind: string;
  from: string;
}

export const isBuiltIn = ({ repository }: Pick<PalettePlugin, "repository">) => repository === "built-in";

export function titleOf({ title, id }: Pick<PalettePlugin, "title" | "id">): string {
  return title || id;
}

/** The first sentence of what it does. */
export function briefly(description: string): string {
  const line = description.split("\n")[0] ?? "";
  return /^.*?[.!?](?=\s|$)/.exec(line)?.[0] ?? line;
}

export function filtered(plugins: readonly PalettePlugin[], { text, kind, from }: Filter): PalettePlugin[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return plugins.filter((plugin) => {
    if (kind && plugin.kind !== kind) return false;
    if (from && (from === "built-in") !== isBuiltIn(plugin)) return false;
    const all = `${plugin.id} ${plugin.title ?? ""} ${plugin.description} ${plugin.author} ${categoryOf(plugin)}`.toLowerCase();
    return words.every((word) => all.includes(word));
  });
}
