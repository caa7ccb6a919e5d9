import { expect, it } from "vitest";
import { glimpse, isSound, messageOf, problemsOf, sizeOf, type Draft } from "./message";

const draft = (change: Partial<Draft>): Draft => ({ body: "{}", type: "application/json", headers: [], durable: true, ...change });

it("finds what is wrong with a message before it is sent", () => {
  expect(isSound(problemsOf(draft({})))).toBe(true);
  expect(problemsOf(draft({ body: "{oops" })).body).toMatch(/^This is no JSON/);
  expect(isSound(problemsOf(draft({ body: "{oops", type: "text/plain" })))).toBe(true);
  const headers = [{ name: "a", value: "1" }, { name: "", value: "2" }, { name: "a b", value: "" }, { name: "a", value: "3" }, { name: "content-type", value: "x" }, { name: "", value: "" }];
  expect(Object.keys(problemsOf(draft({ headers })).headers)).toEqual(["1", "2", "3", "4"]);
});

it("sends only what was filled in", () => {
  expect(messageOf(draft({ headers: [{ name: "", value: "" }, { name: "k", value: "v" }], durable: false }))).toEqual({ body: "{}", durable: false, headers: { "content-type": "application/json", k: "v" } });
  expect(messageOf(draft({ type: "" })).headers).toEqual({});
});

it("shows the beginning and the size of a body", () => {
  expect([glimpse({ body: " a\n b" }), glimpse({ body_base64: "AA==" }), glimpse({ body: "x".repeat(500) }).length, glimpse({})]).toEqual(["a b", "bytes", 120, ""]);
  expect([sizeOf({ body: "é" }), sizeOf({ body_base64: "AAA=" }), sizeOf({ body: "a", body_bytes: 9 }), sizeOf({})]).toEqual([2, 2, 9, 0]);
});
