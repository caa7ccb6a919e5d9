import { expect, it } from "vitest";
import { fileProblem } from "./upload";

it("knows components from other files", () => {
  expect(fileProblem(new Uint8Array([0, 0x61, 0x73, 0x6d, 0x0d, 0, 1, 0]), 100)).toBeNull();
  expect(fileProblem(new Uint8Array([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]), 100)).toMatch(/module/);
  expect(fileProblem(new TextEncoder().encode("PK\u0003\u0004zip"), 100)).toMatch(/no WebAssembly/);
  expect([fileProblem(new Uint8Array(), 0), fileProblem(new Uint8Array([0, 0x61, 0x73, 0x6d]), 1e12)].every(Boolean)).toBe(true);
});
