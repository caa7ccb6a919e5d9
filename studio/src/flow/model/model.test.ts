import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { PalettePlugin } from "../../api/types";
import { arrange } from "./arrange";
import { checkLocally, joinProblems, parameterProblems } from "./check";
import { copyStages, pasteStages, readCopied } from "./clipboard";
import * as commands from "./commands";
import { differenceOf, isSame, marksOf, mergeDocuments, summaryOf } from "./diff";
import { freshName, nameProblem, pluginId, readDocument, same, writeDocument, type Doc } from "./document";
import { edgesOf, graphOf, liveKey } from "./graph";
import { historyOf, perform, redo, undo } from "./history";
import * as http from "./http";
import { backEdges, layersOf, layout } from "./layout";
import { likelyOutput, outputsOf, whyNot } from "./plugins";
import { chance } from "./random";
import { parseText, parseToml, tomlOf, TomlError } from "./toml";

const words: Doc = readDocument({
  flow: "word-count",
  stages: {
    lines: { plugin: "file-lines", to: "words", parameters: { file: "text.txt" } },
    words: { plugin: "flat-map", to: ["word-count/count", "words"] },
    count: { plugin: "aggregate", key: "json:/word", workers: null, outputs: { out: "queue:counts", refused: ["topic:bad", "other/stage"] } },
    late: { plugin: "merge", from: ["words.out", "count.refused", "lines"] },
  },
});

const plugin = (id: string, kind: "provider" | "processor", ...outputs: string[]): PalettePlugin => ({ id, kind, description: "", author: "", outputs: outputs.map((name) => ({ name, description: "" })) });
const plugins = new Map([plugin("file-lines", "provider", "out"), plugin("flat-map", "processor", "out", "refused"), plugin("aggregate", "processor", "out", "refused"), plugin("merge", "processor", "out"), plugin("to-file", "processor"), plugin("split", "processor")].map((one) => [one.id, one]));

describe("documents", () => {
  it("have all edges in outputs", () => {
    expect(words.stages["lines"]?.outputs).toEqual({ out: ["words", "late"] });
    expect(words.stages["words"]?.outputs).toEqual({ out: ["count", "words", "late"] });
    expect(words.stages["count"]).toEqual({ plugin: "aggregate", key: "json:/word", outputs: { out: ["queue:counts"], refused: ["topic:bad", "other/stage", "late"] } });
    expect(readDocument(writeDocument(words))).toEqual(words);
  });

  it("are graphs with ends", () => {
    const graph = graphOf(words);
    expect(graph.edges.map(({ id }) => id)).toContain("words.out>count");
    expect(graph.ends).toEqual([
      { target: "queue:counts", place: "queue", from: ["count"] },
      { target: "topic:bad", place: "topic", from: ["count"] },
      { target: "other/stage", place: "flow", from: ["count"] },
    ]);
    expect(liveKey("f", { stage: "a", output: "out", target: "b" })).toBe("f/a.out>f/b");
    expect(liveKey("f", { stage: "a", output: "out", target: "queue:b" })).toBe("f/a.out>queue:b");
    expect(graphOf(commands.removeStages({ ...words, stages: { ...words.stages, x: { plugin: "map", outputs: { out: ["gone"] } } } }, [])).ends.at(-1)?.place).toBe("nowhere");
  });

  it("have names that are free and fit", () => {
    expect([freshName(["map", "map-2"], "map"), freshName([], "map"), freshName(["map-2"], "map-2"), freshName([], "shop/orders filter")]).toEqual(["map-3", "map", "map-3", "shop-orders-filter"].map((name, index) => (index === 2 ? "map-3" : name)));
    expect([nameProblem("a-b_C9"), nameProblem("a b") !== null, nameProblem("") !== null, nameProblem("a".repeat(61)) !== null]).toEqual([null, true, true, true]);
    expect(["map", "shop/x@1.2.0", "./a@b.wasm", "sha256:ab"].map(pluginId)).toEqual(["map", "shop/x", "./a@b.wasm", "sha256:ab"]);
  });
});

describe("commands", () => {
  it("rewrite all that leads to a renamed stage", () => {
    const renamed = commands.renameStage(words, "words", "split");
    expect(Object.keys(renamed.stages)).toEqual(["lines", "split", "count", "late"]);
    expect(renamed.stages["lines"]?.outputs).toEqual({ out: ["split", "late"] });
    expect(renamed.stages["split"]?.outputs).toEqual({ out: ["count", "split", "late"] });
    expect(commands.renameStage(words, "words", "count")).toBe(words);
    expect(commands.renameStage(renamed, "split", "words")).toEqual(words);
  });

  it("take edges out with a stage", () => {
    const left = commands.removeStages(words, ["words", "late"]);
    expect(edgesOf(left).map(({ id }) => id)).toEqual(["count.out>queue:counts", "count.refused>topic:bad", "count.refused>other/stage"]);
    expect("outputs" in (left.stages["lines"] ?? {})).toBe(false);
  });

  it("connect once, and part again", () => {
    const edge = { stage: "late", output: "out", target: "queue:late" };
    const once = commands.connect(words, edge);
    expect(commands.connect(once, edge)).toBe(once);
    expect(commands.disconnect(once, [edge])).toEqual(words);
    const inserted = commands.insertInto(words, { stage: "words", output: "out", target: "count" }, "late", "out");
    expect(inserted.stages["late"]?.outputs).toEqual({ out: ["count"] });
    expect(inserted.stages["words"]?.outputs).toEqual({ out: ["words", "late"] });
    expect(graphOf(commands.renameTarget(words, "queue:counts", "queue:all")).ends[0]?.target).toBe("queue:all");
  });

  it("touch nothing that stays as it is", () => {
    const next = commands.setField(words, "lines", "workers", 2);
    expect(next.stages["words"]).toBe(words.stages["words"]);
    expect(commands.setField(words, "lines", "workers", undefined)).toBe(words);
    expect(commands.moveStages(words, new Map([["nobody", { x: 1, y: 1 }]]))).toBe(words);
  });
});

/** Some edit, whatever it may be. */
function anyEdit(doc: Doc, random: ReturnType<typeof chance>): Doc {
  const names = Object.keys(doc.stages);
  const name = random.of(names) ?? "x", other = random.of(names) ?? "y";
  const target = random.of([other, "queue:q", "topic:t", "far/away"]) ?? other;
  const output = random.of(["out", "refused", "late"]) ?? "out";
  const edge = random.of(edgesOf(doc));
  const routes = doc.http ?? [];
  const index = random.below(Math.max(1, routes.length));
  switch (random.below(16)) {
    case 0: case 1: return commands.addStage(doc, random.of(["map", "filter", "to-file"]) ?? "map", { plugin: "map", position: { x: random.below(900), y: random.below(900) } }).doc;
    case 2: return commands.removeStages(doc, [name, other].slice(0, 1 + random.below(2)));
    case 3: return commands.renameStage(doc, name, freshName(names, random.of(["a", "b", "c"]) ?? "a"));
    case 4: case 5: case 6: return commands.connect(doc, { stage: name, output, target });
    case 7: return edge ? commands.disconnect(doc, [edge]) : doc;
    case 8: return edge ? commands.reconnect(doc, edge, { ...edge, target: other }) : doc;
    case 9: return commands.setField(doc, name, "parameters", random.below(2) ? { to: `event.n + ${random.below(9)}` } : undefined);
    case 10: return commands.moveStages(doc, new Map([[name, { x: random.below(99), y: 0 }]]));
    case 11: case 12: return http.addRoute(doc, name);
    case 13: {
      const route = routes[index];
      return route ? http.setRoute(doc, index, { ...route, stage: other, reply: random.below(2) === 0, headers: random.below(2) ? ["accept"] : [] }) : doc;
    }
    case 14: return routes.length > 0 ? http.removeRoute(doc, index) : doc;
    default: {
      const copied = readCopied(copyStages(doc, [name, other]));
      return copied ? pasteStages(doc, copied, { x: 5, y: 5 }).doc : doc;
    }
  }
}

describe("undo and redo", () => {
  it("lead exactly to and fro, whatever was done", () => {
    for (let seed = 1; seed <= 60; seed++) {
      const random = chance(seed);
      const original = JSON.stringify(words);
      let history = historyOf(words);
      const seen = [JSON.stringify(history.doc)];
      for (let step = 0; step < 60; step++) {
        const before = history.doc;
        history = perform(history, "edit", anyEdit(history.doc, random), null, step);
        if (history.doc !== before) seen.push(JSON.stringify(history.doc));
        if (random.below(8) === 0 && seen.length > 1) {
          history = undo(history);
          seen.pop();
          expect(JSON.stringify(history.doc)).toBe(seen.at(-1));
        }
        const names = Object.keys(history.doc.stages);
        const ids = edgesOf(history.doc).map(({ id }) => id);
        expect(new Set(ids).size).toBe(ids.length);
        // No edge and no route leads to a stage that is gone.
        expect((history.doc.http ?? []).filter(({ stage }) => !names.includes(stage))).toEqual([]);
        expect(edgesOf(history.doc).filter(({ target }) => !/[:/]/.test(target) && !names.includes(target))).toEqual([]);
      }
      while (history.undone.length > 0) history = redo(history);
      const final = JSON.stringify(history.doc);
      while (history.done.length > 0) history = undo(history);
      expect(JSON.stringify(history.doc)).toBe(original);
      expect(history.doc).toBe(words);
      while (history.undone.length > 0) history = redo(history);
      expect(JSON.stringify(history.doc)).toBe(final);
    }
  });

  it("join what is typed into one field", () => {
    const typed = (text: string) => commands.setField(words, "lines", "description", text);
    let history = perform(historyOf(words), "a", typed("R"), "lines.description", 0);
    history = perform(history, "a", typed("Re"), "lines.description", 100);
    history = perform(history, "a", typed("Rea"), "lines.description", 5_000);
    expect(history.done.length).toBe(2);
    expect(undo(undo(history)).doc).toBe(words);
    expect(perform(history, "nothing", history.doc)).toBe(history);
  });
});

describe("copies", () => {
  it("keep edges inside, leave out those to others, and get free names", () => {
    const copied = readCopied(copyStages(words, ["words", "count"]));
    expect(copied && edgesOf(copied).map(({ id }) => id)).toEqual(["words.out>count", "words.out>words", "count.out>queue:counts", "count.refused>topic:bad", "count.refused>other/stage"]);
    const pasted = copied && pasteStages(words, copied, { x: 100, y: 100 });
    expect(pasted?.names).toEqual(["words-2", "count-2"]);
    expect(pasted?.doc.stages["words-2"]?.outputs).toEqual({ out: ["count-2", "words-2"] });
    expect(pasted?.doc.stages["lines"]).toBe(words.stages["lines"]);
  });

  it("are refused if they are none", () => {
    expect(["", "hello", "{}", '{"stages":{}}', '{"stages":{"a":{}}}', "[1]"].map(readCopied)).toEqual([null, null, null, null, null, null]);
  });
});

describe("connections", () => {
  it("are refused with a reason", () => {
    expect(whyNot(words, plugins, "words", "out", "lines")).toContain("no input");
    expect(whyNot(words, plugins, "words", "out", "count")).toContain("already");
    expect(whyNot(words, plugins, "words", "nothing", "late")).toContain("no output");
    expect(whyNot(words, plugins, "late", "out", "words")).toBeNull();
    const sink = commands.addStage(words, "file", { plugin: "to-file" }).doc;
    expect(whyNot(sink, plugins, "file", "out", "words")).toContain("events end");
  });

  it("begin at the outputs of plug-in and parameters", () => {
    const stage = { plugin: "split", parameters: { outputs: [{ name: "large" }, {}], otherwise: "rest" }, outputs: { odd: ["late"] } };
    expect(outputsOf(stage, plugins.get("split")).map(({ name }) => name)).toEqual(["large", "rest", "refused", "odd"]);
    expect(likelyOutput({ plugin: "flat-map" }, plugins.get("flat-map"))).toBe("out");
    expect(likelyOutput({ plugin: "flat-map", outputs: { out: ["x"] } }, plugins.get("flat-map"))).toBe("out");
    expect(likelyOutput({ plugin: "to-file" }, plugins.get("to-file"))).toBeNull();
  });

  it("are checked at once", () => {
    const broken = commands.connect(commands.connect(words, { stage: "words", output: "out", target: "lines" }), { stage: "words", output: "out", target: "nobody" });
    const found = checkLocally(broken, plugins);
    expect(found.map(({ path }) => path)).toEqual(["stages.words.outputs.out.3", "stages.words.outputs.out.4"]);
    expect(checkLocally({ flow: "f", stages: { a: { plugin: "merge", key: "word", router: "random" } } }, plugins).map(({ path }) => path)).toEqual(["stages.a.router", "stages.a.key", "stages.a"]);
    const said = [{ severity: "error" as const, stage: "words", path: "stages.words.outputs.out.3", message: "said" }];
    expect(joinProblems(found, said).map(({ message }) => message)[0]).toBe("said");
    expect(joinProblems(found, said).length).toBe(2);
    expect(parameterProblems([{ severity: "error", stage: "a", path: "stages.a.parameters.compute.n", message: "m" }], "a")).toEqual(new Map([["/compute/n", "m"]]));
  });
});

describe("layout", () => {
  const node = (id: string) => ({ id, width: 220, height: 80 });
  it("puts each behind what leads to it, and no two over each other", () => {
    const nodes = ["a", "b", "c", "d", "e"].map(node);
    const edges = [["a", "b"], ["b", "c"], ["c", "b"], ["c", "d"], ["a", "d"], ["e", "d"], ["d", "d"]].map(([from = "", to = ""]) => ({ from, to }));
    expect([...backEdges(nodes, edges)]).toEqual([2, 6]);
    expect(Object.fromEntries(layersOf(nodes, edges.filter((_, index) => index !== 2 && index !== 6)))).toEqual({ a: 0, b: 1, c: 2, d: 3, e: 2 });
    const places = layout(nodes, edges);
    expect(["a", "b", "c", "d"].map((id) => places.get(id)?.x)).toEqual([0, 320, 640, 960]);
  });

  it("holds for any graph", () => {
    for (let seed = 1; seed <= 30; seed++) {
      const random = chance(seed);
      const nodes = Array.from({ length: 2 + random.below(60) }, (_, index) => ({ id: `n${index}`, width: 220, height: 80 + 20 * random.below(4) }));
      const edges = Array.from({ length: random.below(120) }, () => ({ from: random.of(nodes)?.id ?? "", to: random.of(nodes)?.id ?? "" }));
      const places = layout(nodes, edges);
      expect(places.size).toBe(nodes.length);
      for (const a of nodes) for (const b of nodes) {
        const one = places.get(a.id), two = places.get(b.id);
        if (a === b || !one || !two || one.x !== two.x) continue;
        expect(one.y + a.height <= two.y || two.y + b.height <= one.y).toBe(true);
      }
    }
  });

  it("is quick for large flows", () => {
    const random = chance(9);
    const nodes = Array.from({ length: 500 }, (_, index) => node(`n${index}`));
    const edges = Array.from({ length: 1_000 }, () => {
      const from = random.below(480);
      return { from: `n${from}`, to: `n${Math.min(499, from + 1 + random.below(20))}` };
    });
    const began = performance.now();
    expect(layout(nodes, edges).size).toBe(500);
    expect(performance.now() - began).toBeLessThan(2_000);
  });

  it("lines up what is selected", () => {
    const boxes = new Map([["a", { x: 10, y: 0, width: 100, height: 50 }], ["b", { x: 400, y: 90, width: 100, height: 50 }], ["c", { x: 30, y: 400, width: 100, height: 50 }]]);
    expect([...arrange(boxes, "left").values()].map(({ x }) => x)).toEqual([10, 10, 10]);
    expect(Object.fromEntries(arrange(boxes, "down"))).toEqual({ a: { x: 10, y: 0 }, b: { x: 400, y: 200 }, c: { x: 30, y: 400 } });
  });
});

describe("differences", () => {
  it("are told field by field", () => {
    const changed = commands.addStage(commands.setField(commands.setField(words, "lines", "parameters", { file: "other.txt", follow: true }), "count", "workers", 4), "map", { plugin: "map" }).doc;
    const moved = commands.moveStages(commands.removeStages(changed, ["late"]), new Map([["words", { x: 1, y: 2 }]]));
    const difference = differenceOf(words, moved);
    expect(difference.stages.find(({ stage }) => stage === "lines")?.fields).toEqual([
      { field: "parameters.file", before: "text.txt", after: "other.txt" },
      { field: "parameters.follow", before: undefined, after: true },
      { field: "outputs.out", before: ["words", "late"], after: ["words"] },
    ]);
    expect(Object.fromEntries(marksOf(words, moved))).toEqual({ lines: "changed", words: "changed", count: "changed", late: "removed", map: "added" });
    expect(summaryOf(difference)).toBe("3 stages changed, 1 stage added, 1 stage removed");
    expect(isSame(differenceOf(words, words))).toBe(true);
    const { delivery: _, ...unsaid } = words;
    expect(isSame(differenceOf({ ...unsaid, delivery: "state-once" }, unsaid))).toBe(true);
    expect(isSame(differenceOf({ ...unsaid, delivery: "at-most-once" }, unsaid))).toBe(false);
    expect(marksOf(words, commands.moveStages(words, new Map([["words", { x: 1, y: 2 }]]))).get("words")).toBe("moved");
  });

  it("of two come together", () => {
    const mine = commands.setField(commands.setField(words, "lines", "workers", 2), "count", "workers", 3);
    const theirs = commands.setField(commands.setField(commands.addStage(words, "map", { plugin: "map" }).doc, "words", "description", "theirs"), "count", "workers", 9);
    const { doc, both } = mergeDocuments(words, mine, theirs);
    expect([doc.stages["lines"]?.workers, doc.stages["words"]?.description, doc.stages["count"]?.workers, "map" in doc.stages]).toEqual([2, "theirs", 3, true]);
    expect(both).toEqual(["count.workers"]);
    expect(mergeDocuments(words, words, theirs).doc).toEqual(theirs);
    expect(mergeDocuments(words, commands.removeStages(words, ["late"]), words).doc.stages["late"]).toBeUndefined();
  });
});

describe("TOML", () => {
  const root = join(import.meta.dirname, "../../../../examples");
  const files = ["flows", "crawl"].flatMap((folder) => readdirSync(join(root, folder)).map((name) => join(root, folder, name, "flow.toml")));
  it("of the examples is read, and comes back the same", () => {
    expect(files.length).toBeGreaterThan(6);
    for (const file of files) {
      const doc = readDocument(parseText(readFileSync(file, "utf8")));
      expect(Object.keys(doc.stages).length).toBeGreaterThan(1);
      expect(graphOf(doc).ends.filter(({ place }) => place === "nowhere")).toEqual([]);
      expect(readDocument(parseToml(tomlOf(writeDocument(doc) as never)))).toEqual(doc);
    }
  });

  it("has texts, numbers, tables and lists of tables", () => {
    expect(parseToml('a.b = 1_000\nc = [1.5, -2, 0x1F,\n # comment\n]\n"d e" = {x = true, y = "q\\"\\u00e9\\n"}\nf = \'\'\'\nraw \\n\n\'\'\'\n[[g]]\nh=1\n[[g]]\nh=2\n[g.i]\nj="""a\\\n   b"""')).toEqual({
      a: { b: 1000 }, c: [1.5, -2, 31], "d e": { x: true, y: 'q"é\n' }, f: "raw \\n\n", g: [{ h: 1 }, { h: 2, i: { j: "ab" } }],
    });
  });

  it("that is broken says where", () => {
    for (const [text, line] of [["a = 1\na = 2", 2], ["a = ", 1], ["\n\na = 'x", 3], ["[a]\n[a]", 2], ["a = 1 b = 2", 1], ["a = 1\n[a.b]", 2], ["a = [1 2]", 1], ["a = nothing", 1], ['a = "\\q"', 1]] as const) {
      let thrown: unknown;
      try { parseToml(text); } catch (error) { thrown = error; }
      expect(thrown, text).toBeInstanceOf(TomlError);
      expect((thrown as TomlError).line, text).toBe(line);
    }
    expect(Object.getPrototypeOf(parseToml("[__proto__]\nx = 1"))).toBe(Object.prototype);
  });

  it("of any document comes back the same", () => {
    for (let seed = 1; seed <= 20; seed++) {
      const random = chance(seed);
      let doc = words;
      for (let step = 0; step < 20; step++) doc = anyEdit(doc, random);
      expect(same(readDocument(parseToml(tomlOf(writeDocument(doc) as never))), readDocument(writeDocument(doc)))).toBe(true);
    }
  });
});
