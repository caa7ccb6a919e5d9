import { describe, expect, it } from "vitest";
import { answerOf, filledPath, hasBody, loopsText, nanos, openParts, RouteRates, routeKey, stateOf, takesText, takingText, timesText, typeOf } from "./look";
import type { ServiceRoute } from "./types";

const route = (change: Partial<ServiceRoute> = {}): ServiceRoute => ({
  method: "POST", path: "/orders", flow: "shop", stage: "orders", reply: true, timeout_ms: 5_000, running: true, problem: null, requests: 0, failed: 0, under_way: 0,
  latency: { mean_ms: 0, p50_ms: 0, p99_ms: 0, max_ms: 0 }, ...change,
});
const times = (count: number) => ({ count, mean_ns: 900, p50_ns: 800, p90_ns: 2_000, p99_ns: 4_500_000 });

describe("routes", () => {
  it("have rates between two looks", () => {
    const rates = new RouteRates();
    const one = (requests: number, failed = 0) => [route({ requests, failed })];
    const key = routeKey(route());
    expect(rates.look(one(100), 1_000).size).toBe(0);
    expect(rates.look(one(120, 4), 3_000).get(key)).toEqual({ requests: 10, failing: 0.2 });
    // A look that comes at once changes nothing, and takes nothing from the next one.
    expect(rates.look(one(121, 4), 3_010).get(key)).toEqual({ requests: 10, failing: 0.2 });
    // A failure is told for a while.
    expect(rates.look(one(130, 4), 4_000).get(key)).toEqual({ requests: 10, failing: 0.2 });
    expect(rates.look(one(130, 4), 14_000).get(key)).toEqual({ requests: 0, failing: 0 });
    // After a restart it is not known, and then again.
    expect(rates.look(one(3), 15_000).get(key)).toBeUndefined();
    expect(rates.look([...one(4), route({ path: "/new" })], 16_000)).toEqual(new Map([[key, { requests: 1, failing: 0 }]]));
    expect(rates.look([], 17_000).size).toBe(0);
  });

  it("have a state, with the reason", () => {
    expect(stateOf(route(), undefined)).toEqual({ tone: "ok", text: "answers", why: "" });
    expect(stateOf(route(), { requests: 10, failing: 0 }).tone).toBe("ok");
    expect(stateOf(route(), { requests: 10, failing: 0.2 })).toMatchObject({ tone: "warn", text: "fails" });
    expect(stateOf(route(), { requests: 10, failing: 0.2 }).why).toContain("20 of 100 requests");
    expect(stateOf(route({ running: false }), undefined)).toMatchObject({ tone: "warn", text: "stopped" });
    expect(stateOf(route({ running: false, problem: "taken" }), undefined)).toMatchObject({ tone: "error", why: "taken" });
    expect([answerOf(route()), answerOf(route({ timeout_ms: null })), answerOf(route({ reply: false, timeout_ms: null }))]).toEqual(["its reply, within 5\u202fs", "its reply", "202 at once"]);
  });

  it("are called with their open parts filled in", () => {
    expect(openParts("/a/{id}/b/{*rest}")).toEqual([{ name: "id", rest: false }, { name: "rest", rest: true }]);
    expect(filledPath("/a/{id}/b/{*rest}", { id: "7/8 ?", rest: "x/y z" })).toBe("/a/7%2F8%20%3F/b/x/y%20z");
    expect(filledPath("/a/{id}", { id: "" })).toBe("/a/id");
    expect(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"].map(hasBody)).toEqual([false, true, true, true, false, false]);
    expect([typeOf('{"a": 1}'), typeOf("one coffee")]).toEqual(["application/json", "text/plain"]);
  });
});

describe("services in Rust", () => {
  it("tell times so that short ones can be told apart", () => {
    expect([nanos(0), nanos(870), nanos(1_200), nanos(45_000), nanos(3_400_000), nanos(2e9)]).toEqual(["0\u202fns", "870\u202fns", "1.2\u202fµs", "45\u202fµs", "3.4\u202fms", "2\u202fs"]);
    expect([timesText(undefined), timesText(times(0)), timesText(times(3))]).toEqual(["–", "–", "800\u202fns / 4.5\u202fms"]);
    const live = { calls: 4, mean_ns: 700, is_inline: true, waiting_for_computations: 0, taking: times(0), computing: times(0) };
    expect([takingText(null), takingText({ ...live, calls: 0 }), takingText(live), takingText({ ...live, taking: times(4) })]).toEqual(["–", "–", "700\u202fns", "800\u202fns / 4.5\u202fms"]);
  });

  it("say what they take, and what their loops do", () => {
    const taken = (state: string, writes: boolean, commits = false) => ({ callback: 1, parameter: "p", state, writes, commits });
    expect(takesText({ takes: [taken("stock", false), taken("orders", true), taken("log", true, true)] })).toBe("reads stock, writes orders, commits log");
    expect(loopsText({ loops: null, overloaded: 1 })).toBe("1 request was answered with 503.");
    const rest = { long_now: 0, long_so_far: 0, long_refused: 0, refused: 0, busy_ns: 0 };
    expect(loopsText({ loops: { loops: 2, threads: 4, queued: 1, done: 1_200, stolen: 7, ...rest }, overloaded: 0 })).toContain("2 event loops on 4 threads: 1 call waits, 1.2k done");
  });
});
