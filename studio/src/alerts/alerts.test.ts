import { expect, it } from "vitest";
import type { Alert } from "../api/types";
import { adviceFor, ranked, readFor, ruleSentence, silenceSentence, toneOf, whereOf, type Rule } from "./words";

const alert = (rule: string, state: string, severity = "warning", since_ms = 0) => ({ rule, state, severity, since_ms, labels: {} }) as unknown as Alert;

it("puts first what needs somebody most", () => {
  const all = [alert("a", "silenced", "critical"), alert("b", "firing", "warning", 1), alert("c", "pending", "critical"), alert("d", "firing", "critical"), alert("e", "firing", "warning", 9)];
  expect(ranked(all).map(({ rule }) => rule)).toEqual(["d", "e", "b", "c", "a"]);
  expect(all.map(toneOf)).toEqual(["off", "warn", "info", "error", "warn"]);
});

it("says where to look", () => {
  expect(whereOf({ rule: "stage-restarts", labels: { stage: "shop/orders" } }).map(({ link }) => link)).toEqual(["#/flows/shop?stage=orders", "#/logs?stage=shop%2Forders"]);
  expect(whereOf({ rule: "node-gone", labels: { node: "b" } })).toEqual([{ label: "Node b", link: "#/cluster/b" }]);
  expect(whereOf({ rule: "dead-letters", labels: { queue: "orders" } }).map(({ label }) => label)).toEqual(["Queue orders", "Dead letters"]);
});

it("says what to do, also for rules with other names", () => {
  expect(adviceFor("disk")).toContain("Free space");
  expect(adviceFor("slow", new Map([["slow", "queue-age"]]))).toContain("more workers");
  expect(adviceFor("mine")).toContain("your own");
});

it("says rules as sentences", () => {
  expect(ruleSentence({ kind: "dead-letters", more_than: 10, within_seconds: 600, for_seconds: 0 } as Rule)).toBe("More than 10 messages went to the dead letters within 10\u202fmin");
  expect(ruleSentence({ kind: "queue-age", queues: "orders.*", older_than_seconds: 60, for_seconds: 60 } as Rule)).toContain("a queue orders.*");
  expect(ruleSentence({ kind: "disk", free_percent_min: 10, for_seconds: 60 } as Rule)).toBe("For 1\u202fmin, less than 10\u202f% of the disk of the data folder are free");
});

it("reads how long, and says what is silenced", () => {
  expect([readFor("30m"), readFor("2h"), readFor("1 d"), readFor("0s"), readFor("soon")]).toEqual([1_800, 7_200, 86_400, null, null]);
  expect(silenceSentence({ rule: null, labels: { node: "b*" } })).toBe("All rules where node=b*");
});
