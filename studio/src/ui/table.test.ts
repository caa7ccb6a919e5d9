import { expect, it } from "vitest";
import { slice, sorted, type Column } from "./table";

const columns: Column<{ n: string; v: number | null }>[] = [
  { key: "n", title: "Name", value: (row) => row.n },
  { key: "v", title: "Value", value: (row) => row.v },
];

it("sorts numbers as numbers and texts as people do, with unknown ones last", () => {
  const rows = [{ n: "s10", v: 3 }, { n: "s2", v: null }, { n: "S1", v: 20 }];
  const by = (key: string, down: boolean) => sorted(rows, columns, { key, down }).map(({ n }) => n);
  expect(by("n", false)).toEqual(["S1", "s2", "s10"]);
  expect(by("v", false)).toEqual(["s10", "S1", "s2"]);
  expect(by("v", true)).toEqual(["S1", "s10", "s2"]);
  expect(sorted(rows, columns, null)).toBe(rows);
});

it("draws what can be seen and a little more", () => {
  expect(slice(10_000, 34, 0, 340)).toEqual({ first: 0, last: 20, before: 0, after: 339_320 });
  expect(slice(10_000, 34, 34_000, 340)).toMatchObject({ first: 990, last: 1020 });
  expect(slice(5, 34, 9_999, 340)).toMatchObject({ last: 5, after: 0 });
});
