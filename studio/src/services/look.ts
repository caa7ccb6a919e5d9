// What services tell, as the page shows it.
import type { Tone } from "../ui/Badge.svelte";
import { count, duration, plural } from "../format/numbers";
import type { Conflict, MountedRoute, MountedService, ServiceClass, ServiceRoute, Times } from "./types";

export function routeKey({ method, path, flow, stage }: ServiceRoute): string {
  return `${method} ${path} ${flow}/${stage}`;
}

/** What became of a route between looks. */
export interface RouteRate {
  /** How many requests a second were answered between the last two. */
  requests: number;
  /** Which share of them failed when some did last; 0 if that is a while ago. */
  failing: number;
}

/** Looks that follow each other faster than this say too little about a second. */
const BETWEEN_MS = 500;
/** For so long a failure is told, so that one can read it. */
const FAILING_MS = 10_000;

/** The rates of routes, from the differences between two looks. */
export class RouteRates {
  #before = new Map<string, ServiceRoute>();
  #at_ms = 0;
  #rates = new Map<string, RouteRate>();
  #failed = new Map<string, { share: number; at_ms: number }>();

  look(routes: readonly ServiceRoute[], at_ms: number): ReadonlyMap<string, RouteRate> {
    const seconds = (at_ms - this.#at_ms) / 1_000;
    if (seconds * 1_000 < BETWEEN_MS) return this.#rates;
    const rates = new Map<string, RouteRate>();
    for (const route of routes) {
      const key = routeKey(route), then = this.#before.get(key);
      // A node that began anew counts from nothing.
      if (!then || route.requests < then.requests) continue;
      const answered = route.requests - then.requests, failed = route.failed - then.failed;
      if (failed > 0) this.#failed.set(key, { share: Math.min(1, failed / Math.max(1, answered)), at_ms });
      const last = this.#failed.get(key);
      rates.set(key, { requests: answered / seconds, failing: last && at_ms - last.at_ms < FAILING_MS ? last.share : 0 });
    }
    for (const key of this.#failed.keys()) if (!rates.has(key)) this.#failed.delete(key);
    this.#before = new Map(routes.map((route) => [routeKey(route), route]));
    this.#at_ms = at_ms;
    this.#rates = rates;
    return rates;
  }
}

/** How it goes with a route, in a word; with the reason where that says more. */
export function stateOf(route: ServiceRoute, rate: RouteRate | undefined): { tone: Tone; text: string; why: string } {
  if (route.problem) return { tone: "error", text: "gets nothing", why: route.problem };
  if (!route.running) return { tone: "warn", text: "stopped", why: `${route.flow}/${route.stage} does not run: start its flow again` };
  if (rate && rate.failing > 0) {
    const share = Math.max(1, Math.round(rate.failing * 100));
    return { tone: "warn", text: "fails", why: `A moment ago ${share} of 100 requests failed: see the logs of ${route.flow}/${route.stage}` };
  }
  return { tone: "ok", text: "answers", why: "" };
}

/** What the answer is. */
export function answerOf({ reply, timeout_ms }: Pick<ServiceRoute, "reply" | "timeout_ms">): string {
  return reply ? (timeout_ms === null ? "its reply" : `its reply, within ${duration(timeout_ms)}`) : "202 at once";
}

/** The names of open parts of a path, and whether they stand for all that follows. */
export function openParts(path: string): { name: string; rest: boolean }[] {
  return [...path.matchAll(/\{(\*?)([^{}]+)\}/g)].map(([, rest, name = ""]) => ({ name, rest: rest === "*" }));
}

/** The path with its open parts filled in; what is not given stays as its name. */
export function filledPath(path: string, values: Readonly<Record<string, string>>): string {
  return path.replace(/\{(\*?)([^{}]+)\}/g, (_, rest: string, name: string) => {
    const value = values[name] || name;
    return rest ? value.split("/").map(encodeURIComponent).join("/") : encodeURIComponent(value);
  });
}

/** Whether a request of this method usually has a body. */
export function hasBody(method: string): boolean {
  return ["POST", "PUT", "PATCH"].includes(method);
}

/** What a body most likely holds. */
export function typeOf(body: string): string {
  try {
    JSON.parse(body);
    return "application/json";
  } catch {
    return "text/plain";
  }
}

/** The table of a flow that answers a request, to be put into its document. */
export const SNIPPET = '[[http]]\nroute = "POST /orders"\nstage = "orders"\n';

export const CLASSES: Record<ServiceClass, { tone: Tone; about: string }> = {
  stateless: { tone: "ok", about: "takes no state, so it runs beside everything" },
  shared: { tone: "info", about: "only reads state, so it runs beside others that read" },
  exclusive: { tone: "warn", about: "writes state, so it waits for others that take the same" },
};

export const CONFLICTS: Record<Conflict, { sign: string; about: string }> = {
  none: { sign: "·", about: "at the same time" },
  key: { sign: "k", about: "one after the other if they have the same key" },
  always: { sign: "×", about: "one after the other" },
};

/** A time in nanoseconds as people read it. */
export function nanos(ns: number): string {
  return ns < 1_000 ? `${Math.round(ns)}\u202fns` : ns < 1_000_000 ? `${count(ns / 1_000)}\u202fµs` : duration(ns / 1_000_000);
}

/** Half of the times and ninety-nine of a hundred. */
export function timesText(times: Times | undefined): string {
  return times && times.count > 0 ? `${nanos(times.p50_ns)} / ${nanos(times.p99_ns)}` : "–";
}

/** How long calls of a route take: half and 99 of 100 where that is known, otherwise of late. */
export function takingText(live: MountedRoute["live"]): string {
  if (!live || live.calls === 0) return "–";
  return live.taking.count > 0 ? timesText(live.taking) : nanos(live.mean_ns);
}

/** The states that a route takes: `stock` is read, `orders` is written. */
export function takesText({ takes }: Pick<MountedRoute, "takes">): string {
  return takes.map(({ state, writes, commits }) => `${writes ? (commits ? "commits" : "writes") : "reads"} ${state}`).join(", ");
}

/** What the event loops of a service do, in a line. */
export function loopsText({ loops, overloaded }: Pick<MountedService, "loops" | "overloaded">): string {
  const refused = `${plural(overloaded, "request was", "requests were")} answered with 503`;
  if (!loops) return `${refused}.`;
  return `${plural(loops.loops, "event loop")} on ${plural(loops.threads, "thread")}: ${plural(loops.queued, "call waits", "calls wait")}, ${count(loops.done)} done, ${count(loops.stolen)} of them taken over by another loop. ${refused}.`;
}
