import { expect, it } from "vitest";
import type { Flow } from "../api/types";
import type { LiveStage } from "../live/frames";
import { summaryOf, totalOf } from "./totals";

const stage = (address: string, change: object = {}) => ({ spec: { address }, state: "running", turns_per_second: 2, waiting: 3, failures: 0, dead: 1, ...change });
const flow = (...stages: object[]) => ({ flow: "f", stages }) as unknown as Flow;

it("sums up a flow, with live numbers where there are any", () => {
  const live = new Map([["f/a", { rate: 10, input: { queued: 7 }, failures: 2, dead: 0, state: "running", paused: false, stands: "its queue is full" } as LiveStage]]);
  expect(summaryOf(flow(stage("f/a"), stage("f/b")), live)).toEqual({ flow: "f", stages: 2, state: "running", rate: 12, queued: 10, failures: 2, dead: 1, stands: "its queue is full" });
  expect([summaryOf(flow(stage("f/a", { paused: true })), new Map()).state, summaryOf(flow(stage("f/a", { paused: true }), stage("f/b", { state: "failed" })), new Map()).state]).toEqual(["paused", "failed"]);
});

it("sums up all flows", () => {
  expect(totalOf([summaryOf(flow(stage("f/a")), new Map()), summaryOf(flow(stage("g/a")), new Map())])).toEqual({ rate: 4, queued: 6, dead: 2 });
});
