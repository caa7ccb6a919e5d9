import { describe, expect, it } from "vitest";
import { href, match, readPlace } from "./match";

describe("addresses", () => {
  it("are read and written alike", () => {
    const address = href("/flows/:flow/edit", { flow: "a/b c" }, { stage: "x y", none: undefined });
    expect(address).toBe("#/flows/a%2Fb%20c/edit?stage=x+y");
    const place = readPlace(address);
    expect(match("/flows/:flow/edit", place.path)).toEqual({ flow: "a/b c" });
    expect(place.query).toEqual({ stage: "x y" });
  });

  it("fit patterns part by part", () => {
    expect(match("/flows", "/flows")).toEqual({});
    expect(match("/flows", "/flows/shop")).toBeNull();
    expect(match("/flows/:flow", "/flows/%E0%A4%A")).toBeNull();
    expect(match("/", "/")).toEqual({});
  });

  it("lead to the first page if they are none", () => {
    expect(readPlace("").path).toBe("/");
    expect(readPlace("#token=abc").path).toBe("/");
    expect(readPlace("#/flows/").path).toBe("/flows");
  });
});
