import { expect, it } from "vitest";
import type { Flow, PalettePlugin } from "../api/types";
import { briefly, filtered, usesOf } from "./uses";

const plugin = (id: string, change: Partial<PalettePlugin> = {}): PalettePlugin => ({ id, kind: "processor", description: "", author: "", repository: "built-in", ...change });

it("knows which stages use a plug-in", () => {
  const stage = (address: string, source: string | null, name: string) => ({ spec: { address }, code: { name, version: "1.0.0" }, deployment: source === null ? null : { source } });
  const flows = [{ flow: "f", stages: [stage("f/a", "plugin:shop/bill@1.0.0", "bill"), stage("f/b", "builtin:map", "map"), stage("f/c", null, "map"), stage("f/d", "plugin:map", "other")] }] as unknown as Flow[];
  expect(usesOf("shop/bill", flows)).toEqual([{ stage: "f/a", version: "1.0.0" }]);
  expect(usesOf("map", flows).map(({ stage }) => stage)).toEqual(["f/b", "f/c", "f/d"]);
});

it("filters", () => {
  const all = [plugin("map", { category: "change", description: "Makes another event." }), plugin("timer", { kind: "provider", category: "sources" }), plugin("bill", { repository: "local", author: "Ada" })];
  const ids = (filter: object) => filtered(all, { text: "", kind: "", from: "", ...filter }).map(({ id }) => id);
  expect([ids({}), ids({ text: "another MAP" }), ids({ text: "ada" }), ids({ kind: "provider" }), ids({ from: "built-in" }), ids({ from: "own" })])
    .toEqual([["map", "timer", "bill"], ["map"], ["bill"], ["timer"], ["map", "timer"], ["bill"]]);
});

it("tells the first sentence", () => {
  expect([briefly("Does this: a, b.c. And that."), briefly("One line\n\nMore."), briefly("")]).toEqual(["Does this: a, b.c.", "One line", ""]);
});
