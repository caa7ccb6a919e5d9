// What the mock says about nodes, crawls, alerts and their settings.
import { flows } from "./flows";
import { countsOf } from "./world";

interface Asked { query: URLSearchParams; body: string }
type Handler = (ask: Asked, ...values: string[]) => unknown;

const NAMES = ["node-a", "node-b", "node-c"];
const states: Record<string, string> = { "node-c": "paused" };
const labels: Record<string, Record<string, string>> = { "node-a": { zone: "a" }, "node-b": { zone: "b", disk: "ssd" }, "node-c": { zone: "b" } };
/** Stages that were moved to one node. */
const moved = new Map<string, string>();
const silences: { id: number; rule: string | null; labels: Record<string, string>; since_ms: number; until_ms: number; why: string }[] = [];
const keys = [
  { key: "alerts.look_every_ms", value: 5_000 as unknown, default: 5_000 as unknown, from: "default", changeable: true },
  { key: "alerts.rules", value: [], default: [], from: "default", changeable: true },
  { key: "http.address", value: "127.0.0.1:8000", default: "127.0.0.1:8000", from: "default", changeable: false },
  { key: "logs.filter", value: "info", default: "info", from: "file", changeable: true },
  { key: "logs.files", value: true, default: true, from: "default", changeable: true },
];
const changes: unknown[] = [];
const minute = 60_000;
const began_ms = Date.now() - 50 * minute;

function partsAt(address: string, keyed: boolean, node: string): number {
  const to = moved.get(address);
  if (to) return to === node ? (keyed ? 129 : 1) : 0;
  return keyed ? 43 : NAMES[address.length % 3] === node ? 1 : 0;
}

const nodeShown = (name: string, index: number) => ({
  name, state: states[name] ?? "running", load: Math.round(40 - index * 12 + Math.random() * 8), labels: labels[name], this: index === 0, heard_at_ms: Date.now() - index * 300,
  stages: Object.fromEntries(flows.flatMap(({ flow, stages }) => Object.entries(stages).map(([stage, { key }]) => [`${flow}/${stage}`, { version: 3, parts: partsAt(`${flow}/${stage}`, key !== undefined, name) }] as const)).filter(([, { parts }]) => parts > 0)),
});

const page = (index: number) => ({
  url: `https://example.com/honey/${index}`, final_url: `https://example.com/honey/${index}`, host: "example.com", depth: 1 + (index % 4), from: index ? "https://example.com/" : null, status: index % 9 === 8 ? 404 : 200, mime: "text/html", charset: "UTF-8",
  size: 4_000 + index * 37, fetched_at: Date.now() - index * 3_000, took_ms: 40 + (index % 7) * 20, node: NAMES[index % 3], title: index % 5 ? `Honey number ${index} <b>` : null, language: "en", description: "All about honey", hash: "1a7f5dd2d0d4951a5296953964df8e0e", fields: null, fetches: 1,
});
const refusal = (index: number) => ({ url: `https://example.com/private/${index}`, host: "example.com", stage: "robots", rule: index % 3 ? "robots" : "domain", reason: "robots.txt of example.com forbids it in line 2: Disallow: /private/", from: "https://example.com/", depth: 2, at: Date.now() - index * 9_000, node: "node-b" });

export const cluster: Record<string, Handler> = {
  "GET /api/v1/nodes": () => ({ next: null, nodes: NAMES.map(nodeShown) }),
  "POST /api/v1/nodes/*": ({ body }, name = "") => {
    const given = JSON.parse(body) as { state?: string; labels?: Record<string, string> };
    if (given.state) states[name] = given.state;
    if (given.labels) labels[name] = given.labels;
    return { node: name, order: given };
  },
  "POST /api/v1/nodes/*/profile": ({ query }, node) => ({ node, seconds: Number(query.get("seconds")), frequency_hz: 99, samples: 420, left_out: 0, svg: "<svg xmlns='http://www.w3.org/2000/svg'/>", folded: "turns;main;run;filter 160\nturns;main;run;window;insert 90\nturns;main;run;window;emit 40\njournal;main;write;sync 70\nhttp;main;poll;serve 60\n" }),
  "POST /api/v1/moves": ({ body }) => {
    const { what, to } = JSON.parse(body) as { what: string; to: string };
    moved.set(what, to);
    return { moved: [what], to };
  },
  "POST /api/v1/deployments": ({ body }) => {
    const { as } = JSON.parse(body) as { as: string };
    moved.delete(as);
    return { stage: as, version: 3, changed: true, replaced: true, digest: "sha256:0" };
  },
  "GET /api/v1/config": () => ({ node: NAMES[0], keys }),
  "GET /api/v1/config/history": () => ({ node: NAMES[0], changes }),
  "PUT /api/v1/config/*": ({ body }, name) => {
    const key = keys.find(({ key }) => key === name) ?? keys[0];
    if (!key) return {};
    const { value } = JSON.parse(body) as { value: unknown };
    changes.unshift({ number: changes.length + 1, at_ms: Date.now(), key: name, old: key.value, new: value, unset: false, who: "token", from: "127.0.0.1:51234", via: null });
    Object.assign(key, { value, from: "run-time" });
    return { ...key, changed: true };
  },
  "DELETE /api/v1/config/*": (_, name) => {
    const key = keys.find(({ key }) => key === name);
    if (key) Object.assign(key, { value: key.default, from: "default" });
    return { ...key, changed: true };
  },
  "GET /api/v1/requests": () => ({ next: null, requests: [1, 2, 3].map((id) => ({ id, at_ms: began_ms - id * minute, method: "PUT", path: "/api/v1/documents/word-count", who: "token", from: "127.0.0.1:51234", status: id === 2 ? 412 : 200, took_us: 41_000 })) }),
  "GET /api/v1/alerts/rules": () => ({ rules: [
    { name: "node-gone", kind: "node-gone", severity: "critical", for_seconds: 10, trouble: null },
    { name: "dead-letters", kind: "dead-letters", more_than: 10, within_seconds: 600, severity: "warning", for_seconds: 0, trouble: null },
    { name: "queue-long", kind: "expression", expression: "hivewire_queue_messages > 1000", severity: "critical", for_seconds: 300, trouble: null },
  ] }),
  "GET /api/v1/alerts/silences": () => ({ silences }),
  "POST /api/v1/alerts/silences": ({ body }) => {
    const given = JSON.parse(body) as { for_seconds: number; rule: string | null; labels: Record<string, string>; why: string };
    const made = { id: silences.length + 1, rule: given.rule, labels: given.labels, why: given.why, since_ms: Date.now(), until_ms: Date.now() + given.for_seconds * 1_000 };
    silences.push(made);
    return made;
  },
  "DELETE /api/v1/alerts/silences/*": (_, id) => silences.splice(silences.findIndex((one) => one.id === Number(id)), 1)[0],
  "POST /api/v1/alerts/test": () => ({ receivers: [{ receiver: "log", sent: true, failure: null }] }),
  "GET /api/v1/crawls/*": (_, flow) => ({
    flow, over: false, fetched: countsOf("crawl-site/fetch").turns, failed: 12, waiting: 420 + Math.round(Math.random() * 30), under_way: 3, store: "pages.db", missing: {},
    stages: Object.entries(flows.find((one) => one.flow === flow)?.stages ?? {}).map(([stage, { plugin, workers }]) => ({ stage, plugin, state: "running", workers: workers ?? 1, waiting: 2, turns: 900, turns_per_second: countsOf(`${flow}/${stage}`).rate, failures: 0 })),
    hosts: ["example.com", "www.example.com", "docs.example.com"].map((host, index) => ({ host, waiting: 140 - index * 40, fetched: 900 - index * 200, under_way: index ? 0 : 1, next_start_ms: Date.now() + index * 2_500 })),
    results: { pages: 890, bytes: 44_000_000, statuses: { 200: 870, 404: 20 }, refused: { robots: 40, domain: 20 } },
  }),
  "GET /api/v1/crawls/*/pages": ({ query }) => {
    const from = Number(query.get("after") ?? 0);
    const fit = (one: ReturnType<typeof page>) => one.url.includes(query.get("q") ?? "") && (query.get("status") ?? "2").startsWith(String(one.status)[0] ?? "");
    return { missing: {}, pages: Array.from({ length: 50 }, (_, index) => page(from + index)).filter(fit), next: from < 300 ? String(from + 50) : null };
  },
  "GET /api/v1/crawls/*/search": ({ query }) => ({ missing: {}, hits: [1, 2, 3].map((index) => ({ page: page(index), snippet: [{ text: "Bees make ", is_match: false }, { text: query.get("query") ?? "", is_match: true }, { text: ", and wasps do not.", is_match: false }] })) }),
  "GET /api/v1/crawls/*/why": ({ query }) => {
    const url = query.get("url") ?? "", isPrivate = url.includes("private");
    return { url, fate: isPrivate ? "refused" : "fetched", sentence: "", page: isPrivate ? null : { ...page(0), url }, refusal: isPrivate ? { ...refusal(1), url } : null, forecast: null, missing: {} };
  },
};

/** Lines of JSON, for the routes that answer with them; undefined for others. */
export function linesOf(url: URL): object[] | undefined {
  if (url.pathname === "/api/v1/events") {
    const told = [
      ["node", "joined", { node: "node-a", version: "0.9.0", address: "127.0.0.1:8000" }], ["node", "joined", { node: "node-b", version: "0.9.0", address: "127.0.0.1:8001" }], ["node", "joined", { node: "node-c", version: "0.8.2", address: "127.0.0.1:8002" }],
      ["request", "done", { method: "PUT", path: "/api/v1/documents/word-count", who: "token", status: 200 }], ["flow", "applied", { flow: "word-count", version: 4 }], ["stage", "moved", { flow: "word-count", stage: "word-count/count", to: "node-b" }],
      ["alert", "fired", { rule: "dead-letters", severity: "warning", labels: { stage: "order-enrichment/bill" }, detail: "7 messages are dead" }], ["node", "changed", { node: "node-c", state: "paused" }],
    ] as const;
    const wanted = url.searchParams.get("kind")?.split(",");
    return told.map(([kind, event, more], index) => ({ number: index + 1, node: "node-a", at_ms: began_ms + index * 5 * minute, kind, event, ...more })).filter(({ kind }) => !wanted || wanted.includes(kind));
  }
  if (!url.pathname.endsWith("/export")) return undefined;
  return url.searchParams.get("what") === "refused" ? Array.from({ length: 60 }, (_, index) => refusal(index)) : Array.from({ length: 300 }, (_, index) => ({ ...page(index), headers: { "content-type": "text/html", server: "made up" }, text: `Bees make honey, number ${index}.` }));
}
