import { expect, it } from "vitest";
import { allPages } from "./list";

it("goes through pages until the last one, or until it is enough", async () => {
  const page = async (after: string | undefined) => {
    const from = Number(after ?? 0);
    return { items: [from, from + 1], next: from < 8 ? String(from + 2) : null };
  };
  expect(await allPages(page, 100)).toEqual({ items: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], more: false });
  expect(await allPages(page, 4)).toEqual({ items: [0, 1, 2, 3], more: true });
});
