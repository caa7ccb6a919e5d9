import { describe, expect, it } from "vitest";
import { crawlState, fetching, isPaused, rates, remaining_ms } from "./progress";
import { crawlDocument, domainsOf, flowName, nothing, paceOf, problemsOf, urlOf } from "./wanted";

const of = (more: Partial<typeof nothing>) => crawlDocument({ ...nothing, search: false, ...more });
type Stages = Record<string, { plugin: string; parameters?: Record<string, unknown>; outputs?: Record<string, unknown>; workers?: number; scale?: unknown; limits?: unknown }>;

describe("the document of a crawl", () => {
  it("is the one that the command writes", () => {
    const document = of({ urls: "http://127.0.0.1:18088/", rate: "2/s", search: true, allow_private: true });
    const stages = document.stages as Stages;
    expect([document.flow, document.delivery, document.description]).toEqual(["crawl-127-0-0-1-18088", "at-most-once", "Crawls http://127.0.0.1:18088/"]);
    expect(Object.fromEntries(Object.entries(stages).map(([name, { plugin, outputs }]) => [name, [plugin, outputs]]))).toEqual({
      content: ["content-filter", { out: "decode", refused: "store" }],
      decode: ["charset-decoder", { out: "links" }],
      domains: ["domain-filter", { out: "robots", refused: "store" }],
      download: ["downloader", { out: "content", redirects: "normalise", refused: "store" }],
      frontier: ["frontier", { out: "domains", refused: "store" }],
      links: ["link-extractor", { out: "text", links: "normalise" }],
      normalise: ["url-normaliser", { out: "seen", refused: "store" }],
      robots: ["robots", { out: "download", refused: "store", sitemaps: "normalise" }],
      seed: ["seed", { out: "normalise" }],
      seen: ["seen-urls", { out: "frontier" }],
      store: ["page-store", undefined],
      text: ["text-extractor", { out: "store" }],
    });
    expect(stages["frontier"]?.parameters).toEqual({ pace: { delay: "500ms" }, under_way_max: 256 });
    expect(stages["domains"]?.parameters).toEqual({ domains: ["127.0.0.1:18088"] });
    expect(stages["download"]).toMatchObject({ parameters: { fetch: { allow_private: true } }, scale: { min: 32, max: 32 }, limits: { mailbox_messages_max: 1, batch_messages_max: 1, spill_messages_max: 1, call_ms_max: 120_000 } });
    expect(stages["store"]).toMatchObject({ parameters: { to: "crawls/127-0-0-1-18088", search: true }, limits: { batch_messages_max: 256, call_ms_max: 60_000 } });
    expect(stages["robots"]?.workers).toBe(16);
  });

  it("has all that is wanted, and nothing that is not said", () => {
    const all = of({ urls: "example.com\nhttps://shop.example.org/a", name: "crawl-mine", domains: "=www.example.com, example.org", depth: "3", pages: "100", rate: "unlimited", store: "here", keeps_bodies: false, warc: true, connections: "4", user_agent: "Bot/1" }).stages as Stages;
    expect(all["domains"]?.parameters).toEqual({ domains: ["=www.example.com", "example.org"], depth_max: 3 });
    expect(all["frontier"]?.parameters).toEqual({ pace: { unlimited: true }, pages_max: 100, under_way_max: 32 });
    expect(all["download"]).toMatchObject({ scale: { min: 4, max: 4 }, outputs: { out: ["content", "archive"] }, parameters: { fetch: { user_agent: "Bot/1" } } });
    expect(all["archive"]?.parameters).toEqual({ folder: "archives/mine" });
    expect(all["store"]?.parameters).toEqual({ to: "here", keep_body: false });
    expect(of({ urls: "example.com" }).stages?.["download"]).not.toHaveProperty("parameters");
  });

  it("takes names and domains from the URLs", () => {
    const urls = ["www.example.co.uk/a", "http://shop.example.org", "http://127.0.0.1:8080/"].map((text) => urlOf(text) as URL);
    expect(urls.map(flowName)).toEqual(["crawl-www-example-co-uk", "crawl-shop-example-org", "crawl-127-0-0-1-8080"]);
    expect(domainsOf(urls)).toEqual(["127.0.0.1:8080", "example.co.uk", "shop.example.org"]);
  });
});

it("tells what cannot be crawled", () => {
  for (const wrong of ["ftp://example.com/", "https://", "http://a:b@example.com/", ""]) expect(problemsOf({ ...nothing, urls: wrong }).urls, wrong).toBeDefined();
  expect(problemsOf({ ...nothing, urls: "example.com", depth: "x", pages: "0", rate: "fast", connections: "0" })).toMatchObject({ depth: expect.any(String), pages: expect.any(String), rate: expect.any(String), connections: expect.any(String) });
  expect(problemsOf({ ...nothing, urls: "example.com" })).toEqual({});
});

it("reads rates as the command does", () => {
  expect([paceOf("10/min"), paceOf("2/s"), paceOf("1/h"), paceOf("unlimited"), paceOf("")]).toEqual([{ delay: "6s" }, { delay: "500ms" }, { delay: "1h" }, { unlimited: true }, undefined]);
  expect([paceOf("fast"), paceOf("0/s"), paceOf("2/x"), paceOf("99999/s"), paceOf("-1/s")]).toEqual([null, null, null, null, null]);
});

describe("progress", () => {
  const point = (seconds: number, fetched: number) => ({ at_ms: seconds * 1_000, fetched, waiting: 0, failed: 0 });

  it("is counted over some seconds", () => {
    const found = rates([point(0, 0), point(1, 2), point(2, 4), point(7, 4), point(8, 4)]);
    expect(found[0]).toBeNaN();
    expect(found.slice(1).map((value) => Math.round(value * 10) / 10)).toEqual([2, 2, 0, 0]);
    expect(rates([point(0, 9), point(1, 3)])[1]).toBe(0);
    expect([remaining_ms(10, 2), remaining_ms(0, 2), remaining_ms(5, 0)]).toEqual([5_000, null, null]);
  });

  it("has a word", () => {
    const crawl = (over: boolean, state: unknown, waiting = 1) => ({ over, waiting, stages: [{ state }] }) as never;
    expect([crawlState(crawl(false, "running"), false), crawlState(crawl(false, "running"), true), crawlState(crawl(true, "running"), false), crawlState(crawl(false, null), false), crawlState(crawl(false, "failed"), false)].map(({ text }) => text))
      .toEqual(["running", "paused", "over", "stopped", "failed"]);
    const stages = ["robots", "download", "store"].map((name) => ({ paused: name !== "store", spec: { address: `a/${name}` } })) as never;
    expect([isPaused(stages, ["robots", "download"]), isPaused(stages, ["download", "store"]), isPaused(stages, [])]).toEqual([true, false, false]);
    expect(fetching([{ stage: "get", plugin: "downloader" }, { stage: "seed", plugin: "seed" }])).toEqual(["get"]);
  });
});
