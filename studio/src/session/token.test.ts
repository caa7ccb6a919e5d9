import { describe, expect, it } from "vitest";
import { keepToken, readToken, tokenInAddress, tokenProtocol, type Store } from "./token";

const NODE = "http://127.0.0.1:8000";

function store(): Store & { all: Map<string, string> } {
  const all = new Map<string, string>();
  return { all, getItem: (key) => all.get(key) ?? null, setItem: (key, value) => void all.set(key, value), removeItem: (key) => void all.delete(key) };
}

describe("the token in the address", () => {
  it("is found in the fragment and in the query, and taken out", () => {
    expect(tokenInAddress(`${NODE}/#token=a%2Bb`)).toEqual({ token: "a+b", address: "/" });
    expect(tokenInAddress(`${NODE}/?token=abc&x=1#/flows`)).toEqual({ token: "abc", address: "/?x=1#/flows" });
  });

  it("leaves other addresses alone", () => {
    expect(tokenInAddress(`${NODE}/#/flows/token=3`)).toEqual({ token: null, address: null });
    expect(tokenInAddress(`${NODE}/#token=`)).toEqual({ token: null, address: "/" });
  });
});

it("is kept in all stores, and goes from all", () => {
  const stores = [store(), store()];
  keepToken(stores, "abc");
  expect(readToken([stores[1] as Store])).toBe("abc");
  keepToken(stores, null);
  expect(readToken(stores)).toBeNull();
});

it("is percent-encoded for WebSockets", () => {
  expect(tokenProtocol("a b")).toBe("hivewire.token.a%20b");
});
