import { describe, expect, it } from "vitest";
import type { PalettePlugin } from "../../api/types";
import { checkLocally, joinProblems } from "./check";
import { copyStages, pasteStages, readCopied } from "./clipboard";
import * as commands from "./commands";
import { differenceOf, isSame, marksOf, mergeDocuments, routeText, summaryOf } from "./diff";
import { bareDocument, readDocument, writeDocument, type Doc } from "./document";
import { historyOf, perform, undo } from "./history";
import { addRoute, answerText, checkRoutes, named, partsOf, periodMs, periodText, removeRoute, routeProblem, routesOf, setRoute, shapeOf } from "./http";
import { parseToml, tomlOf } from "./toml";

const shop: Doc = readDocument({
  flow: "shop",
  stages: { tick: { plugin: "timer", to: "log" }, orders: { plugin: "map", to: "log" }, log: { plugin: "merge" } },
  http: [
    { route: "POST /orders", stage: "orders", reply: true, timeout: "2s", headers: [] },
    { stage: "log", route: "PUT /log/{*rest}", reply: false, headers: ["accept"] },
    { route: "GET /orders/{id}", stage: "orders" },
  ],
});
const plugin = (id: string, kind: "provider" | "processor"): PalettePlugin => ({ id, kind, description: "", author: "", outputs: [{ name: "out", description: "" }] });
const plugins = new Map([plugin("timer", "provider"), plugin("map", "processor"), plugin("merge", "processor")].map((one) => [one.id, one]));

describe("routes of a document", () => {
  it("are read without what says nothing, and written as the node takes them", () => {
    expect(shop.http).toEqual([{ route: "POST /orders", stage: "orders", timeout: "2s" }, { route: "PUT /log/{*rest}", stage: "log", reply: false, headers: ["accept"] }, { route: "GET /orders/{id}", stage: "orders" }]);
    expect(readDocument(writeDocument(shop))).toEqual(shop);
    expect("http" in readDocument({ flow: "f", http: [] })).toBe(false);
    expect(readDocument({ flow: "f", http: ["x", null, { headers: "accept", timeout: 5 }] }).http).toEqual([{ route: "", stage: "", headers: ["accept"], timeout: "5" }]);
    const text = tomlOf(writeDocument(shop) as never);
    expect(text.slice(text.indexOf("[[http]]"))).toBe('[[http]]\nroute = "POST /orders"\nstage = "orders"\ntimeout = "2s"\n\n[[http]]\nroute = "PUT /log/{*rest}"\nstage = "log"\nreply = false\nheaders = ["accept"]\n\n[[http]]\nroute = "GET /orders/{id}"\nstage = "orders"\n');
    expect(readDocument(parseToml(text))).toEqual(shop);
  });

  it("follow their stage when it is renamed, and go with it", () => {
    const renamed = commands.renameStage(shop, "orders", "take");
    expect(renamed.http?.map(({ stage }) => stage)).toEqual(["take", "log", "take"]);
    expect(commands.renameStage(renamed, "take", "orders")).toEqual(shop);
    const left = commands.removeStages(shop, ["orders"]);
    expect(left.http?.map(({ route }) => route)).toEqual(["PUT /log/{*rest}"]);
    expect("http" in commands.removeStages(left, ["log"])).toBe(false);
    expect(undo(perform(historyOf(shop), "orders removed", left)).doc).toBe(shop);
  });

  it("are added, changed and taken out, and nothing else changes", () => {
    const bare = bareDocument(shop);
    expect([bare.stages, "http" in bare]).toEqual([{}, false]);
    const added = addRoute(addRoute(shop, "orders"), "orders");
    expect(routesOf(added, "orders").map(({ index, route }) => [index, route.route])).toEqual([[0, "POST /orders"], [2, "GET /orders/{id}"], [3, "POST /orders-2"], [4, "POST /orders-3"]]);
    expect(added.stages).toBe(shop.stages);
    const changed = setRoute(shop, 0, { route: "POST /orders", stage: "orders", reply: false, timeout: "", headers: [] });
    expect(changed.http?.[0]).toEqual({ route: "POST /orders", stage: "orders", reply: false });
    expect(changed.http?.[1]).toBe(shop.http?.[1]);
    expect(removeRoute(added, 1).http?.map(({ route }) => route)).toEqual(["POST /orders", "GET /orders/{id}", "POST /orders-2", "POST /orders-3"]);
    expect(addRoute(bare, "orders")).toBe(bare);
    expect("http" in removeRoute(addRoute({ flow: "f", stages: { x: { plugin: "map" } } }, "x"), 0)).toBe(false);
  });

  it("are copied with their stage where nothing else takes the same requests", () => {
    const copied = readCopied(copyStages(shop, ["orders"])) as Doc;
    expect(copied.http?.map(({ route }) => route)).toEqual(["POST /orders", "GET /orders/{id}"]);
    expect(pasteStages(shop, copied, null).doc.http).toBe(shop.http);
    expect(pasteStages({ flow: "other", stages: { orders: { plugin: "map" } }, http: [{ route: "GET /orders/{other}", stage: "orders" }] }, copied, null).doc.http).toEqual([
      { route: "GET /orders/{other}", stage: "orders" }, { route: "POST /orders", stage: "orders-2", timeout: "2s" },
    ]);
    // What is cut comes back.
    expect(pasteStages(commands.removeStages(shop, ["orders"]), copied, null).doc.http?.length).toBe(3);
  });
});

describe("what is wrong with routes", () => {
  it("is told as the node does", () => {
    for (const fine of ["GET /", "POST /orders", "GET /orders/{id}", "DELETE /orders/{id}/lines/{line-number}", "GET /files/{*rest}", "PUT /a%20b/c.d~e"]) expect(routeProblem(fine), fine).toBeNull();
    for (const [route, words] of [
      ["", "method and a path"], ["/orders", "method and a path"], ["post /orders", "A method is one of"], ["FETCH /orders", "A method is one of"], ["POST orders", "begins with /"], ["POST /orders?x=1", "? cannot stand"],
      ["POST /or ders", "A space cannot stand"], ["POST /a{id}", "{ cannot stand"], ["POST /{Id}", "no name that fits"], ["POST /{}", "no name that fits"], ["POST /{id}/{id}", "stands twice"], ["POST /{*rest}/more", "put it last"],
      ["GET /ä", "ä cannot stand"], [`GET /${"a".repeat(1_000)}`, "at most 1000 bytes"],
    ] as const) expect(routeProblem(route), route).toContain(words);
    expect([partsOf("GET /a/{b}"), partsOf("nothing")]).toEqual([{ method: "GET", path: "/a/{b}" }, { method: "", path: "" }]);
  });

  it("is found in a document, with the field", () => {
    const bad: Doc = { ...shop, http: [
      { route: "GET /a/{x}", stage: "orders" }, { route: "GET /a/{y}", stage: "log" }, { route: "GET /b", stage: "nobody" }, { route: "GET /c", stage: "tick", timeout: "2h" },
      { route: "GET /d", stage: "log", timeout: "2", headers: ["a", "Accept"] }, { route: "GET /e", stage: "log", reply: false, timeout: "1s" },
    ] };
    const found = checkRoutes(bad, plugins);
    expect(found.map(({ path }) => path)).toEqual(["http.1.route", "http.2.stage", "http.3.stage", "http.3.timeout", "http.4.timeout", "http.4.headers.1", "http.5.timeout"]);
    expect(found[0]?.message).toContain("GET /a/{x} takes the same requests");
    // Shown at the stage of the route, if there is one; the word of the node counts.
    const said = [{ severity: "error" as const, stage: null, path: "http.4.timeout", message: "said" }];
    const shown = named(bad, joinProblems(checkLocally(bad, plugins), said));
    expect(shown.filter(({ path }) => path.startsWith("http.")).map(({ stage }) => stage)).toEqual(["log", "log", null, "tick", "tick", "log", "log"]);
    expect(shown.filter(({ path }) => path === "http.4.timeout").map(({ message }) => message)).toEqual(["said"]);
  });

  it("is not that nothing leads to a stage that gets requests", () => {
    const warned = (doc: Doc) => checkLocally(doc, plugins).filter(({ severity }) => severity === "warning").map(({ stage }) => stage);
    expect(warned(shop)).toEqual([]);
    expect(warned({ flow: "f", stages: shop.stages })).toEqual(["orders"]);
  });

  it("knows times", () => {
    expect(["5s", "100 ms", "1m", "2h", "5", "1.5s", "s"].map(periodMs)).toEqual([5_000, 100, 60_000, 7_200_000, null, null, null]);
    expect([" 5000ms ", "90s", "120s", "0s", "soon"].map(periodText)).toEqual(["5s", "90s", "2m", "0s", "soon"]);
    expect([shapeOf("GET /a/{b}/{*c}"), shapeOf("GET /a/{d}/{*e}")]).toEqual(["GET /a/{}/{*}", "GET /a/{}/{*}"]);
  });
});

describe("differences of routes", () => {
  it("are told one by one, and mark their stages", () => {
    const after = setRoute(addRoute(removeRoute(shop, 2), "log"), 0, { route: "POST /orders", stage: "log" });
    const difference = differenceOf(shop, after);
    expect(difference.routes.map(({ route, kind }) => [route, kind])).toEqual([["POST /orders", "changed"], ["GET /orders/{id}", "removed"], ["POST /log", "added"]]);
    expect(difference.stages).toEqual([]);
    expect(Object.fromEntries(marksOf(shop, after))).toEqual({ orders: "changed", log: "changed" });
    expect([summaryOf(difference), isSame(difference), summaryOf(differenceOf(shop, addRoute(shop, "log"))), summaryOf(differenceOf(addRoute(shop, "log"), shop))]).toEqual(["3 routes over HTTP changed", false, "1 route over HTTP added", "1 route over HTTP removed"]);
    expect(difference.routes.map(({ before }) => before && routeText(before))).toEqual(["orders: its reply within 2s", "orders: its reply within 5s", undefined]);
    expect(answerText({ route: "GET /", stage: "a", reply: false, headers: ["accept", "from"] })).toBe("202 at once, with accept, from");
  });

  it("come together with those of others", () => {
    const mine = setRoute(addRoute(shop, "orders"), 0, { route: "POST /orders", stage: "orders", timeout: "3s" });
    const theirs = setRoute(removeRoute(addRoute(shop, "log"), 1), 0, { route: "POST /orders", stage: "orders", timeout: "9s", reply: false });
    const { doc, both } = mergeDocuments(shop, mine, theirs);
    expect(doc.http).toEqual([{ route: "POST /orders", stage: "orders", reply: false, timeout: "3s" }, { route: "GET /orders/{id}", stage: "orders" }, { route: "POST /log", stage: "log" }, { route: "POST /orders-2", stage: "orders" }]);
    expect(both).toEqual(["POST /orders.timeout"]);
    expect(mergeDocuments(bareDocument(mine), mine, bareDocument(shop)).doc.http).toEqual(mine.http);
  });
});
