import { describe, expect, it } from "vitest";
import type { LogLine } from "../api/types";
import type { NodeEvent } from "../live/events.svelte";
import { asText, fits, LineBuffer, LINES_MAX } from "./buffer";
import { story } from "./story";

const line = (id: number, more: Partial<LogLine> = {}) => ({ id, node: "a", at_ms: id, level: "info", line: `line ${id}`, stage: null, worker: null, target: null, ...more }) as LogLine;

describe("lines", () => {
  it("are kept once each, also if they come again after a break", () => {
    const buffer = new LineBuffer();
    expect(buffer.push([line(1), line(2)])).toBe(2);
    expect(buffer.push([line(2), line(3), line(2, { node: "b" })])).toBe(2);
    expect(buffer.lines.map(({ node, id }) => node + id)).toEqual(["a1", "a2", "a3", "b2"]);
    buffer.clear();
    expect(buffer.push([line(3), line(4)])).toBe(1);
    buffer.reset();
    expect(buffer.push([line(3)])).toBe(1);
  });

  it("are bounded, and it is known how many went", () => {
    const buffer = new LineBuffer();
    for (let id = 0; id < LINES_MAX + 1_500; id++) buffer.push([line(id)]);
    expect(buffer.lines.length).toBeLessThanOrEqual(LINES_MAX + 1_000);
    expect(buffer.lines.length + buffer.dropped).toBe(LINES_MAX + 1_500);
  });

  it("are filtered by flow, stage and text", () => {
    const one = line(1, { stage: "shop/orders", worker: "shop/orders/3", line: "Total is negative" } as Partial<LogLine>);
    const fit = (text: string, place = "") => fits(one, { text, place });
    expect([fit(""), fit("NEGATIVE"), fit("orders/3"), fit("positive")]).toEqual([true, true, true, false]);
    expect([fit("", "shop"), fit("", "shop/orders"), fit("", "sho"), fit("", "shop/order")]).toEqual([true, true, false, false]);
  });

  it("are written line by line", () => {
    expect(asText([line(1), line(2)]).split("\n").length).toBe(3);
    expect(asText([])).toBe("");
  });
});

describe("stories", () => {
  const of = (event: Partial<NodeEvent>) => story({ number: 1, at_ms: 1, node: "a", kind: "note", ...event } as NodeEvent);

  it("say what happened, and where one sees more", () => {
    expect(of({ kind: "stage", event: "moved", stage: "shop/orders", to: "b" })).toMatchObject({ sentence: "shop/orders moved to b", link: "#/flows/shop?stage=orders" });
    expect(of({ kind: "stage", event: "moved", stage: "shop/orders" }).sentence).toBe("shop/orders was spread over all nodes");
    expect(of({ kind: "request", event: "done", method: "PUT", path: "/api/v1/x", who: "token", status: 409 })).toMatchObject({ tone: "warn", detail: "by token, answered 409" });
    expect(of({ kind: "alert", event: "fired", rule: "disk", severity: "critical", labels: { node: "a" } })).toMatchObject({ tone: "error", detail: "node=a" });
    expect(of({ kind: "node", event: "gone" })).toMatchObject({ sentence: "a is gone", tone: "error", link: "#/cluster/a" });
  });

  it("do not fail over what they do not know", () => {
    expect(of({ kind: "other" as never, event: "new" }).sentence).toBe("other new");
  });
});
