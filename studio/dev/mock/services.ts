// What the mock says about services. MOCK_SERVICES=none has none of them, MOCK_SERVICES=taken has no address for them.
import type { Conflict, MountedRoute, MountedService, Services, ServiceRoute } from "../../src/services/types";
import { flows } from "./flows";

const kind = process.env["MOCK_SERVICES"];
const counted = new Map<string, { requests: number; failed: number; at_ms: number }>();
const ids = (route: string) => [...route].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 997, 7);

/** What a route has answered until now: each has its own pace, and one in a while fails. */
function numbersOf(key: string) {
  const now = Date.now(), pace = 4 + (ids(key) % 160);
  const found = counted.get(key) ?? { requests: pace * 900, failed: key.startsWith("DELETE") ? 12 : 0, at_ms: now };
  const more = Math.round(((now - found.at_ms) / 1_000) * pace * (0.8 + Math.random() * 0.4));
  counted.set(key, { requests: found.requests + more, failed: found.failed + (key.startsWith("DELETE") && Math.random() < 0.4 ? 1 : 0), at_ms: now });
  return { requests: found.requests, failed: found.failed, under_way: Math.round(Math.random() * (pace / 20)), latency: { mean_ms: 0.9 + pace / 90, p50_ms: 0.4 + pace / 120, p99_ms: 4 + pace / 8, max_ms: 31 + pace } };
}

function routesOf(): ServiceRoute[] {
  const taken = new Map<string, string>();
  return flows.flatMap(({ flow, http = [] }) => http.map(({ route, stage, reply = true, timeout }): ServiceRoute => {
    const [method = "", path = ""] = route.split(" ");
    const shape = route.replace(/\{[^}]*\}/g, "{}"), other = taken.get(shape);
    if (!other) taken.set(shape, `${flow}/${stage}`);
    const none = { requests: 0, failed: 0, under_way: 0, latency: { mean_ms: 0, p50_ms: 0, p99_ms: 0, max_ms: 0 } };
    return {
      method, path, flow, stage, reply, timeout_ms: reply ? (timeout === "2s" ? 2_000 : 5_000) : null, running: path !== "/texts",
      problem: other ? `${other} gets the same requests: take the route out of one of them` : null, ...(other || path === "/texts" ? none : numbersOf(route)),
    };
  }));
}

const times = (count: number, p50_ns: number) => ({ count, mean_ns: p50_ns * 1.4, p50_ns, p90_ns: p50_ns * 4, p99_ns: p50_ns * 11 });
const began_ms = Date.now() - 600_000;
const since = (per_second: number) => Math.round(((Date.now() - began_ms) / 1_000) * per_second);

function mounted(): MountedService {
  const route = (method: string, path: string, states: [string, boolean, boolean?][], per_second: number, mean_ns: number): MountedRoute => ({
    method, path, class: states.length === 0 ? "stateless" : states.some(([, writes]) => writes) ? "exclusive" : "shared",
    takes: states.map(([state, writes, commits = false]) => ({ callback: 1, parameter: `${writes ? "&mut " : "&"}${state}`, state, writes, commits })),
    live: { calls: since(per_second), mean_ns, is_inline: mean_ns < 50_000, waiting_for_computations: mean_ns > 1_000_000 ? Math.round(Math.random() * 3) : 0, taking: times(since(per_second), mean_ns), computing: times(0, 0) },
  });
  const routes = [
    route("GET", "/health", [], 2, 640), route("GET", "/baskets/{id}", [["Baskets", false]], 140, 2_100), route("POST", "/baskets/{id}", [["Baskets", true], ["Stock", false]], 31, 5_400),
    route("POST", "/orders", [["Baskets", true], ["Stock", true, true]], 9, 84_000), route("GET", "/report", [["Stock", false]], 0.2, 3_900_000),
  ];
  const uses = (at: number) => routes[at]?.takes ?? [];
  const conflict = (one: number, two: number): Conflict => {
    const shared = uses(one).flatMap((a) => uses(two).filter((b) => a.state === b.state && (a.writes || b.writes)));
    return shared.length === 0 ? "none" : shared.every(({ state }) => state === "Baskets") && one < 3 && two < 3 ? "key" : "always";
  };
  const state = (parked: number, hold: number, quarantine: string | null = null) => ({ quarantine, live: { taken_at_once: since(160), parked, refused: quarantine ? 14 : 0, cancelled: 2, waiting_now: Math.random() < 0.4 ? Math.ceil(Math.random() * 4) : 0, held_now: Math.random() < 0.5, waiting: times(parked, 12_000), holding: times(since(160), hold) } });
  return {
    prefix: "/shop", routes, conflicts: routes.map((_, one) => routes.map((__, two) => conflict(one, two))), mistakes: [],
    states: [{ name: "Baskets", ...state(since(3), 3_100) }, { name: "Stock", ...state(since(0.4), 61_000) }, { name: "Prices", ...state(0, 900, "a handler panicked while it wrote: index out of bounds") }],
    loops: { loops: 2, threads: 5, queued: Math.round(Math.random() * 3), done: since(9.4), stolen: since(0.3), long_now: 0, long_so_far: 2, long_refused: 0, refused: 0, busy_ns: since(40_000_000) }, overloaded: 3,
  };
}

export function servicesShown(): Services {
  if (kind === "none") return { address: null, problem: null, connections: 0, refused: 0, routes: [], services: [] };
  const taken = kind === "taken";
  return {
    address: taken ? null : "127.0.0.1:8080", problem: taken ? "127.0.0.1:8080 is taken by another program: end it, or set services.address to another port" : null,
    connections: taken ? 0 : 20 + Math.round(Math.random() * 6), refused: 2, routes: routesOf(), services: taken ? [] : [mounted()],
  };
}
