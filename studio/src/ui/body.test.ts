import { expect, it } from "vitest";
import { hex, pieces, pretty } from "./body";

it("lays JSON out, and leaves other text alone", () => {
  expect(pretty('{"a":[1]}')).toBe('{\n  "a": [\n    1\n  ]\n}');
  expect([pretty("hello"), pretty("<b>"), pretty("{oops")]).toEqual([null, null, null]);
});

it("cuts JSON into pieces that make the same text", () => {
  const json = '{\n  "a\\"b": "x: 1",\n  "n": -1.5e3,\n  "t": true\n}';
  const found = pieces(json);
  expect(found.map(({ text }) => text).join("")).toBe(json);
  expect(found.filter(({ kind }) => kind !== "plain").map(({ text, kind }) => [text, kind])).toEqual([
    ['"a\\"b"', "name"], ['"x: 1"', "text"], ['"n"', "name"], ["-1.5e3", "number"], ['"t"', "name"], ["true", "word"],
  ]);
});

it("shows bytes", () => {
  expect(hex(btoa("AB\u0000"))).toBe(`000000  ${"41 42 00".padEnd(48)} AB·`);
});
