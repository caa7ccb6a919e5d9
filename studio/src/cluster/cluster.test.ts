import { describe, expect, it } from "vitest";
import type { Flow, Node, Stage } from "../api/types";
import { board, joinAdvice, labelsText, look, moveSentences, moveShare, readLabels } from "./board";
import { frames, heaviest } from "./flame";
import { kindOf, read, short } from "./settings";

const node = (name: string, parts: Record<string, number>, state = "running") =>
  ({ name, state, this: name === "a", labels: {}, load: 0, heard_at_ms: 10_000, stages: Object.fromEntries(Object.entries(parts).map(([stage, count]) => [stage, { parts: count, version: 1 }])) }) as Node;
const stage = (address: string, kind: unknown, delivery = "durable", more: Partial<Stage> = {}) =>
  ({ spec: { address, kind, delivery }, parts: 129, nodes: {}, ...more }) as unknown as Stage;
const flows = [{ flow: "shop", stages: [stage("shop/count", { keyed: "body" }), stage("shop/fetch", { pool: "round-robin" }, "memory", { parts: 1 })] }] as Flow[];

describe("the board", () => {
  it("has who has what, and forgets what dead nodes had", () => {
    const rows = board([node("a", { "shop/count": 65 }), node("b", { "shop/count": 64, "shop/fetch": 1 }), node("c", { "shop/count": 9 }, "dead")], flows);
    expect(rows.map(({ address, parts, total, sharing }) => ({ address, parts, total, sharing }))).toEqual([
      { address: "shop/count", parts: { a: 65, b: 64 }, total: 129, sharing: "keyed" },
      { address: "shop/fetch", parts: { b: 1 }, total: 1, sharing: "memory" },
    ]);
  });

  it("says what a move will do", () => {
    const row = board([node("a", { "shop/count": 65 }), node("b", { "shop/count": 64 })], flows)[0];
    if (!row) throw new Error("no row");
    expect(moveSentences(row, "b")[0]).toBe("All of shop/count will be on b: a gives 65 parts.");
    expect(moveSentences({ ...row, parts: { b: 129 } }, "b")[0]).toContain("already");
  });

  it("knows how far a move is", () => {
    expect(moveShare(stage("s/a", {}, "durable", { nodes: { a: 0, b: 129 } }), "b")).toBe(1);
    expect(moveShare(stage("s/a", {}, "durable", { nodes: { a: 64, b: 65 } }), "b")).toBeCloseTo(0.5, 1);
    expect(moveShare(stage("s/a", {}, "durable", { parts: null }), "b")).toBe(0);
  });

  it("tells states of nodes apart", () => {
    expect(look(node("a", {}), 11_000).text).toBe("running");
    expect(look(node("b", {}), 15_000).text).toBe("silent");
    expect(look(node("b", {}, "dead"), 11_000).text).toBe("gone");
    expect(look(node("a", {}, "dead"), 11_000).text).toBe("cut off");
    expect(look(node("b", {}, "paused"), 11_000).text).toBe("paused");
  });
});

it("says how another node joins", () => {
  const stomp = (address: string, transport = "tcp") => ({ node: "a", listeners: [{ protocol: "stomp", transport, address }] });
  expect(joinAdvice(stomp("127.0.0.1:61613"))).toEqual({ first: "", command: "hivewire join --name hive2 --bus stomp://127.0.0.1:61613", local: true });
  expect(joinAdvice(stomp("0.0.0.0:61614", "tls")).command).toContain("stomp+ssl://THIS-MACHINE:61614");
  expect(joinAdvice({ ...stomp("127.0.0.1:1"), node: null }).first).toBe("hivewire up --name hive1");
});

it("reads labels", () => {
  expect(readLabels("zone=a, disk = ssd=fast")).toEqual({ labels: { zone: "a", disk: "ssd=fast" }, error: null });
  expect(readLabels("zone").error).toContain("key=value");
  expect(labelsText({ a: "1", b: "2" })).toBe("a=1, b=2");
});

it("draws stacks, and those above one of them", () => {
  const folded = "t;main;slow 3\nt;main;fast 1\nnonsense\n";
  const all = frames(folded);
  expect([all.total, all.depth]).toEqual([4, 4]);
  expect(all.frames.find(({ name }) => name === "slow")).toEqual({ name: "slow", depth: 3, at: 0.25, width: 0.75, count: 3 });
  expect(frames(folded, ["t", "main", "slow"]).frames.at(-1)).toMatchObject({ name: "slow", width: 1 });
  expect(heaviest(folded)[0]).toEqual({ name: "slow", share: 0.75 });
  expect(frames("").total).toBe(0);
});

it("reads values of settings", () => {
  expect([kindOf({ value: 1, default: 8 }), kindOf({ value: true, default: true }), kindOf({ value: [], default: [] }), kindOf({ value: "x", default: null })]).toEqual(["number", "switch", "json", "text"]);
  expect(read("number", "12")).toEqual({ value: 12 });
  expect(read("number", "12s").error).toBeDefined();
  expect(read("json", "[1]")).toEqual({ value: [1] });
  expect(read("json", "[").error).toContain("No JSON");
  expect(short("")).toBe('""');
});
