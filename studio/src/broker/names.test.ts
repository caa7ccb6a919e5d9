import { expect, it } from "vitest";
import type { Flow } from "../api/types";
import { isInternal, nameProblem, placeOf, sendersOf, stageOf, stageQueues, takersOf } from "./names";

const stage = (address: string, outputs: Record<string, string[]>, name = "map", args = "{}") => ({ spec: { address, outputs, args }, code: { name } });
const flows = [{ flow: "shop", stages: [stage("shop/orders", { out: ["shop/bill", "queue:audit"] }), stage("shop/bill", { out: ["queue:audit"] }, "from-queue", '{"queue":"bills"}')] }] as unknown as Flow[];

it("tells the queues of stages from those of people", () => {
  const stages = stageQueues(flows);
  expect(["shop.orders", "shop.orders.3", "shop.orders.b17", "shop.orders.3.child", "shop", "shop.other", "orders"].map((name) => stageOf(name, stages)))
    .toEqual(["shop/orders", "shop/orders", "shop/orders", "shop/orders", null, null, null]);
  expect([isInternal("hivewire.dead", stages), isInternal("shop.bill.b1", stages), isInternal("audit", stages)]).toEqual([true, true, false]);
});

it("knows who sends to a queue, and who takes from it", () => {
  expect(sendersOf("queue:audit", flows)).toEqual(["shop/orders.out", "shop/bill.out"]);
  expect([takersOf("bills", flows), takersOf("audit", flows)]).toEqual([["shop/bill"], []]);
});

it("reads destinations", () => {
  expect([placeOf("queue:a:b"), placeOf("topic news"), placeOf("plain")]).toEqual([{ kind: "queue", name: "a:b" }, { kind: "topic", name: "news" }, { kind: "queue", name: "plain" }]);
});

it("checks names", () => {
  expect([nameProblem("orders/new"), nameProblem("größe")]).toEqual([null, null]);
  expect([nameProblem(""), nameProblem("a b"), nameProblem("ä".repeat(128))].every(Boolean)).toBe(true);
});
