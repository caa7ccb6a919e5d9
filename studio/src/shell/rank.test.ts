import { expect, it } from "vitest";
import { best } from "./rank";

it("finds what begins with the words first", () => {
  const all = ["reorders", "shop/orders", "orders", "Flows", "shop/bill"].map((title) => ({ title }));
  const found = (wanted: string) => best(all, wanted, 3).map(({ title }) => title);
  expect(found("orders")).toEqual(["orders", "shop/orders", "reorders"]);
  expect(found("shop bi")).toEqual(["shop/bill"]);
  expect(found("")).toEqual(["reorders", "shop/orders", "orders"]);
  expect(found("nothing")).toEqual([]);
});
