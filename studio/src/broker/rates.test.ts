import { expect, it } from "vitest";
import { Rates } from "./rates";

it("remembers the last points of what is there", () => {
  const rates = new Rates();
  for (let at = 0; at < 50; at++) rates.push([["a", at], ...(at < 49 ? [["b", 1] as const] : [])]);
  expect(rates.of("a")).toHaveLength(40);
  expect(rates.of("a").at(-1)).toBe(49);
  expect(rates.of("b")).toEqual([]);
});
