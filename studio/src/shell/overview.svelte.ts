// What the frame around all pages knows of the node: its name, its flows, its alerts. Pages may read it, too.
import { api } from "../api/client";
import { resource, type Resource } from "../api/resource.svelte";
import type { Alert, Flow, ThisNode } from "../api/types";
import { events } from "../live/events.svelte";

const EVERY_MS = 30_000;
const SOON_MS = 300;

class Overview {
  node = $state.raw<ThisNode | null>(null);
  flows = $state.raw<Flow[] | null>(null);
  alerts = $state.raw<Alert[]>([]);

  get firing(): Alert[] {
    return this.alerts.filter(({ state }) => state === "firing");
  }

  get running(): number {
    return (this.flows ?? []).filter(({ stages }) => stages.some(({ state }) => state === "running")).length;
  }
}

export const overview = new Overview();

/** Keeps the overview up to date while the component lives. */
export function keepOverview(): void {
  const node = resource((signal) => api.get("/api/v1/node", { signal }), { every_ms: EVERY_MS });
  const flows = resource((signal) => api.get("/api/v1/flows", { query: { limit: 10_000 }, signal }), { every_ms: EVERY_MS });
  const alerts = resource((signal) => api.get("/api/v1/alerts", { query: { all: true }, signal }), { every_ms: EVERY_MS });
  $effect(() => {
    if (node.value) overview.node = node.value;
    if (flows.value) overview.flows = flows.value.flows;
    if (alerts.value) overview.alerts = alerts.value.alerts;
  });
  $effect(() => events.on(["stage", "flow"], soon(flows)));
  $effect(() => events.on(["alert", "silence"], soon(alerts)));
}

/** Many events at once fetch once. */
export function soon(what: Resource<unknown>): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(() => void what.reload(), SOON_MS);
  };
}
