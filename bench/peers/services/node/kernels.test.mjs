// `node --test`: the kernels give what those in Rust do, to the last bit.

import assert from "node:assert/strict";
import test from "node:test";
import { digits, isKernel, run } from "../../../../examples/services/scimark/kernels.mjs";

const KNOWN = {
  fft: ["4082090a57e41237", "4085fd90d7ebfb17", "40922eacb4045d60"],
  sor: ["40b38e26c8d33580", "40b35c0c880ea1aa", "40b37114de3d3608"],
  "monte-carlo": ["40092bf338716095", "40091a5b9628cbd1", "40091c432ca57a78"],
  sparse: ["408fb4904ab4affc", "4091a90dc0e94568", "4094908ee4e11b92"],
  lu: ["40bebad61d781f1f", "40be464d9450ce1f", "40bf7248d140ff8a"],
};

for (const [name, known] of Object.entries(KNOWN)) {
  test(`${name} gives what is known`, () => {
    assert.ok(isKernel(name));
    assert.deepEqual([1, 113, 4711].map((seed) => digits(run(name, seed))), known);
  });
}

test("other names are no kernels", () => assert.ok(!isKernel("nothing")));
