import { expect, it } from "vitest";
import type { DeadLetter } from "../api/types";
import { choices, fits, isPlain } from "./letters";

const letter = (from: string | null, reason: string | null, body = "") => ({ id: 1, from, reason, body, headers: {} }) as DeadLetter;
const none = { from: "", reason: "", text: "" };

it("tells which letters are meant", () => {
  const one = letter("orders", "Too old", "coffee");
  expect([fits(one, none), fits(one, { ...none, from: "orders" }), fits(one, { ...none, from: "order" }), fits(one, { ...none, reason: "Too old" }), fits(one, { ...none, reason: "old" })]).toEqual([true, true, false, true, false]);
  expect([fits(one, { ...none, text: "COFF" }), fits(one, { ...none, text: "too" }), fits(one, { ...none, text: "tea" }), fits(letter(null, null), { ...none, text: "a" })]).toEqual([true, true, false, false]);
  expect([isPlain({ ...none, from: "a" }), isPlain({ ...none, text: "a" })]).toEqual([true, false]);
});

it("counts what there is to choose from", () => {
  expect(choices([letter("a", null), letter("b", null), letter("b", null), letter(null, null)], ({ from }) => from)).toEqual([{ value: "b", count: 2 }, { value: "a", count: 1 }]);
});
