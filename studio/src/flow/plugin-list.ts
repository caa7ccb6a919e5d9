// All plug-ins that stages can use, built in and from repositories.
import { api } from "../api/client";
import type { PalettePlugin } from "../api/types";

const PAGES_MAX = 20;
/** Of how many the details are fetched one by one, where the list does not have them, and how many at once. */
const DETAILS_MAX = 300;
const AT_ONCE = 6;
const FRESH_MS = 60_000;
let kept: { at_ms: number; plugins: Promise<ReadonlyMap<string, PalettePlugin>> } | null = null;

async function fetchAll(): Promise<ReadonlyMap<string, PalettePlugin>> {
  const found = new Map<string, PalettePlugin>();
  let after: string | undefined;
  for (let page = 0; page < PAGES_MAX; page++) {
    const { plugins, next } = await api.get("/api/v1/plugins", { query: { limit: 500, ...(after ? { after } : {}) } });
    for (const plugin of plugins) found.set(plugin.id, short(plugin as PalettePlugin));
    if (!next) break;
    after = next;
  }
  await addDetails(found);
  return found;
}

/** The first paragraph says what it does; the rest is for its own page. */
function short(plugin: PalettePlugin): PalettePlugin {
  return { ...plugin, description: plugin.description.split("\n\n")[0] ?? "" };
}

/** Parameters and outputs of those that the list only names. */
async function addDetails(found: Map<string, PalettePlugin>): Promise<void> {
  const bare = [...found.values()].filter(({ parameters, outputs }) => parameters === undefined && outputs === undefined).slice(0, DETAILS_MAX);
  const next = bare.values();
  const fetchNext = async () => {
    for (const plugin of next) {
      // One that cannot be asked for is used without.
      const known = await api.get("/api/v1/plugins/{id}", { path: { id: plugin.id } }).catch(() => null);
      const newest = known?.versions.find(({ version }) => version === plugin.newest) ?? known?.versions[0];
      if (newest) found.set(plugin.id, { ...plugin, parameters: newest.parameters, outputs: newest.outputs });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, fetchNext));
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
