import { expect, it } from "vitest";
import { bulk } from "./bulk";

async function* numbers(count: number) {
  for (let number = 0; number < count; number++) yield number;
}

it("does the same to all, and counts what became of each", async () => {
  const seen: number[] = [];
  let told = 0;
  const result = await bulk(numbers(100), async (number) => {
    seen.push(number);
    if (number === 7) throw new Error("no");
    return number % 10 === 0 ? 0 : 1;
  }, new AbortController().signal, () => told++);
  expect(seen.sort((a, b) => a - b)).toEqual(Array.from({ length: 100 }, (_, at) => at));
  expect(result).toMatchObject({ done: 89, gone: 10, failed: 1, stopped: false });
  expect(told).toBe(100);
});

it("can be stopped, and stops by itself if everything fails", async () => {
  const stop = new AbortController();
  const result = await bulk(numbers(1_000), async () => (stop.abort(), 1), stop.signal, () => {});
  expect(result.stopped).toBe(true);
  expect(result.done).toBeLessThan(10);
  const failing = await bulk([...Array(1_000).keys()], async () => Promise.reject(new Error("no")), new AbortController().signal, () => {});
  expect(failing.failed).toBeLessThan(20);
});
