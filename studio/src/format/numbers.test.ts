import { expect, it } from "vitest";
import { bytes, count, duration, exact, percent, plural, rate, relative } from "./numbers";

const plain = (text: string) => text.replaceAll("\u202f", " ");

it("writes counts and rates with three digits", () => {
  expect([0, 0.256, 4.2, 42.04, 999, 999.9, 1234, 12_345, 3_400_000].map(count)).toEqual([
    "0", "0.26", "4.2", "42", "999", "1k", "1.23k", "12.3k", "3.4M",
  ]);
  expect(rate(1200)).toBe("1.2k/s");
  expect([count(null), rate(undefined), bytes(NaN)]).toEqual(["–", "–", "–"]);
});

it("writes bytes, times and shares with their units", () => {
  expect([512, 2048, 5 * 1024 * 1024].map((value) => plain(bytes(value)))).toEqual(["512 B", "2 KiB", "5 MiB"]);
  expect([0.4, 12, 3400, 300_000, 7_200_000, 259_200_000].map((value) => plain(duration(value)))).toEqual([
    "0.4 ms", "12 ms", "3.4 s", "5 min", "2 h", "3 d",
  ]);
  expect(plain(percent(0.125))).toBe("12.5 %");
  expect(plain(exact(1_234_567))).toBe("1 234 567");
  expect([plural(1, "stage"), plural(2, "stage"), plural(0, "reply", "replies")]).toEqual(["1 stage", "2 stages", "0 replies"]);
});

it("tells how long ago", () => {
  expect([0, 12_000, 180_000, 7_200_000, -30_000].map((ago) => plain(relative(1e12 - ago, 1e12)))).toEqual([
    "now", "12 s ago", "3 min ago", "2 h ago", "in 30 s",
  ]);
});
