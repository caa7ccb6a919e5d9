// All plug-ins that stages can use, built in and from repositories.
import { api } from "../api/client";
import type { PalettePlugin } from "../api/types";

const PAGES_MAX = 20;
const FRESH_MS = 60_000;
let kept: { at_ms: number; plugins: Promise<ReadonlyMap<string, PalettePlugin>> } | null = null;

async function fetchAll(): Promise<ReadonlyMap<string, PalettePlugin>> {
  const found = new Map<string, PalettePlugin>();
  let after: string | undefined;
  for (let page = 0; page < PAGES_MAX; page++) {
    const { plugins, next } = await api.get("/api/v1/plugins", { query: { limit: 500, ...(after ? { after } : {}) } });
    for (const plugin of plugins) found.set(plugin.id, plugin as PalettePlugin);
    if (!next) break;
    after = next;
  }
  return found;
}

/** Fetched again only if some time has passed. */
export function allPlugins(): Promise<ReadonlyMap<string, PalettePlugin>> {
  if (!kept || Date.now() - kept.at_ms > FRESH_MS) {
    const plugins = fetchAll();
    kept = { at_ms: Date.now(), plugins };
    plugins.catch(() => (kept = null));
  }
  return kept.plugins;
}
