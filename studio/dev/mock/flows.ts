// Flow documents of the mock: small, and of each kind of stage; and a large one.
import { largeFlow } from "./large";

export interface MockStage {
  plugin: string;
  parameters?: unknown;
  to?: string;
  outputs?: Record<string, string | string[]>;
  key?: string;
  workers?: number;
  description?: string;
  position: { x: number; y: number };
}

export interface MockFlow {
  flow: string;
  description: string;
  delivery: string;
  /** Events a second that its providers give. */
  pace: number;
  stages: Record<string, MockStage>;
  http?: { route: string; stage: string; reply?: boolean; timeout?: string; headers?: string[] }[];
}

const at = (column: number, row = 0) => ({ x: 60 + column * 260, y: 120 + row * 140 });

export const flows: MockFlow[] = [
  {
    flow: "word-count", description: "Counts the words of a text", delivery: "state-once", pace: 140,
    stages: {
      lines: { plugin: "file-lines", parameters: { file: "text.txt" }, outputs: { out: ["words"] }, position: at(0) },
      words: { plugin: "flat-map", parameters: { to: "event.text.lower().words().map(w, {'word': w})" }, outputs: { out: ["count"] }, workers: 2, position: at(1) },
      count: { plugin: "aggregate", key: "json:/word", workers: 2, parameters: { by: "event.word", compute: { count: "count" } }, outputs: { out: ["queue:word-counts"] }, position: at(2) },
    },
    http: [{ route: "POST /texts", stage: "words", reply: false }],
  },
  {
    flow: "sensor-alerts", description: "Warns if a sensor is too hot for a minute", delivery: "state-once", pace: 950,
    stages: {
      sensors: { plugin: "generator", parameters: { per_second: 950, seed: 7 }, outputs: { out: ["check"] }, position: at(0, 0.5) },
      check: { plugin: "filter", parameters: { where: "event.celsius > -40.0" }, outputs: { out: ["averages"], refused: ["queue:sensor-refused"] }, workers: 2, position: at(1, 0.5) },
      averages: { plugin: "window", key: "json:/sensor", workers: 4, parameters: { cut: { tumbling: "1m" }, time: "event.at", by: "event.sensor", compute: { average: { average: "event.celsius" } } }, outputs: { out: ["hot"] }, position: at(2, 0.5) },
      hot: { plugin: "split", parameters: { outputs: [{ name: "alert", if: "event.average > 38.0" }] }, outputs: { alert: ["topic:alerts"], rest: ["store"] }, position: at(3, 0.5) },
      store: { plugin: "to-sqlite", parameters: { file: "sensors.db", table: "averages" }, position: at(4, 1) },
    },
    http: [{ route: "PUT /sensors/{sensor}", stage: "check", reply: false }, { route: "GET /orders/{number}", stage: "check" }],
  },
  {
    flow: "order-enrichment", description: "Adds to each order what is known of its customer", delivery: "at-least-once", pace: 60,
    stages: {
      orders: { plugin: "from-queue", parameters: { queue: "orders" }, outputs: { out: ["customers"] }, position: at(0) },
      customers: { plugin: "enrich", parameters: { key: "event.customer", file: "customers.csv" }, outputs: { out: ["bill"], missing: ["queue:orders-unknown"] }, position: at(1) },
      bill: { plugin: "billing@1.4.2", parameters: { currency: "EUR" }, outputs: { out: ["queue:bills"] }, workers: 3, position: at(2) },
    },
    http: [
      { route: "POST /orders", stage: "customers" }, { route: "GET /orders/{id}", stage: "bill", timeout: "2s", headers: ["accept"] }, { route: "DELETE /orders/{id}", stage: "bill" },
      { route: "GET /invoices/{year}/{*path}", stage: "bill" },
    ],
  },
  {
    flow: "crawl-site", description: "Fetches a site at the pace of its hosts", delivery: "state-once", pace: 8,
    stages: {
      seeds: { plugin: "seed", parameters: { urls: ["https://example.com/"] }, outputs: { out: ["normalise"] }, position: at(0) },
      normalise: { plugin: "url-normaliser", outputs: { out: ["seen"] }, position: at(1) },
      seen: { plugin: "seen-urls", key: "json:/url", outputs: { out: ["frontier"] }, position: at(2) },
      frontier: { plugin: "frontier", key: "json:/host", outputs: { out: ["fetch"] }, position: at(3) },
      fetch: { plugin: "downloader", workers: 8, outputs: { out: ["links", "store"] }, position: at(3, 1.2) },
      links: { plugin: "link-extractor", outputs: { out: ["normalise"] }, position: at(2, 1.2) },
      store: { plugin: "page-store", parameters: { file: "pages.db" }, position: at(4, 1.2) },
    },
  },
  // Only if it is wanted, as its numbers cost something: MOCK_LARGE=1 npm run dev
  ...(process.env["MOCK_LARGE"] ? [largeFlow()] : []),
];
