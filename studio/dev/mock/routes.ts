// What the mock answers. It knows enough for every page to be seen; nothing is kept but in memory.
import { broker } from "./broker";
import { cluster } from "./cluster";
import { flows, type MockFlow } from "./flows";
import { applyDocument, checkDocument, documentOf, etagOf, flowOf, flowSchema, Refusal, versionOf, versionsOf } from "./documents";
import { examples, plugins } from "./plugins";
import { servicesShown } from "./services";
import { countsOf, paused, queueNames, queueShown, stageShown, started_ms } from "./world";

export interface Ask { if_match?: string | undefined; method: string; path: string; query: URLSearchParams; body: string }
export type Reply = { status: number; body: unknown; etag?: string };
type Handler = (ask: Ask, ...values: string[]) => unknown;

const NODE = "node-a";
const hour = 3_600_000;

export { Refusal };

function stageOf(flow: string, stage: string) {
  const found = flowOf(flow);
  if (!found.stages[stage]) throw new Refusal(404, "No such stage", `The flow ${flow} has no stage ${stage}.`);
  return stageShown(found, stage);
}

const flowShown = (flow: MockFlow) => ({ flow: flow.flow, stages: Object.keys(flow.stages).map((name) => stageShown(flow, name)) });
const bodies = [
  { order: 4711, customer: "c17", items: [{ article: "honey", count: 2 }], total: 17.8 },
  { sensor: "s3", celsius: 21.4, at: 1790000000000 },
  { text: "<script>alert('as text')</script>", ok: true },
];
const message = (id: number) => ({ id, body: JSON.stringify(bodies[id % 3]), headers: { "content-type": "application/json" }, durable: true, published_at: Date.now() - id * 700, redelivered: false, tries: 1 });
const letter = (id: number) => ({ id, from: id % 2 ? "order-enrichment.bill" : "orders", from_kind: "queue", reason: id % 2 ? "the worker failed 5 times: total is negative" : "nobody took it within its time", body: JSON.stringify(bodies[id % 3]), headers: {}, published_at: Date.now() - id * hour, died_at: Date.now() - id * hour + 9_000, tries: 5 });
const alert = (rule: string, severity: string, state: string, detail: string, minutes: number) => ({ rule, severity, state, detail, labels: { stage: "order-enrichment/bill" }, value: 7, since_ms: Date.now() - minutes * 60_000, fired_at_ms: Date.now() - minutes * 60_000 + 30_000, recovered_at_ms: null, silence: null, told_at_ms: null, told_by: null, nodes: [NODE] });

export const routes: Record<string, Handler> = {
  "GET /health": () => ({ status: "ready", version: "0.9.0" }),
  "GET /api/v1/node": () => ({ node: NODE, version: "0.9.0", process_id: 4711, uptime_seconds: (Date.now() - started_ms) / 1000, data: "hivewire-data", memory_bytes: 61_000_000,
    listeners: [["http", "tcp", "127.0.0.1:8000"], ["stomp", "tcp", "127.0.0.1:61613"], ["gamq", "tcp", "127.0.0.1:48879"]].map(([protocol, transport, address]) => ({ protocol, transport, address })),
    journal: { state: "ok", bytes: 48_000_000, used_bytes: 21_000_000, records: 190_000, segments: 3, syncs: 9_000, sync_seconds: 31, sync_seconds_max: 0.02, failure: null } }),
  "GET /api/v1/nodes": () => ({ next: null, nodes: [NODE, "node-b", "node-c"].map((name, index) => ({ name, state: ["running", "running", "paused"][index], load: 40 - index * 12, labels: { zone: index ? "b" : "a" }, this: index === 0, heard_at_ms: Date.now() - index * 400, stages: { "word-count/count": { parts: 2, version: 3 } } })) }),
  "GET /api/v1/flows": () => ({ flows: flows.map(flowShown), next: null }),
  "GET /api/v1/flows/*": (_, flow) => ({ ...flowShown(flowOf(flow ?? "")), next: null }),
  "DELETE /api/v1/flows/*": (_, flow) => { flows.splice(flows.indexOf(flowOf(flow ?? "")), 1); return { stopped: flow }; },
  "GET /api/v1/flows/*/*": (_, flow, stage) => stageOf(flow ?? "", stage ?? ""),
  "POST /api/v1/flows/*/*/pause": (_, flow, stage) => { stageOf(flow ?? "", stage ?? ""); paused.add(`${flow}/${stage}`); return {}; },
  "POST /api/v1/flows/*/*/resume": (_, flow, stage) => { paused.delete(`${flow}/${stage}`); return {}; },
  "POST /api/v1/flows/*/*/scale": ({ body }, flow, stage) => { const workers = Number(JSON.parse(body).workers); (flowOf(flow ?? "").stages[stage ?? ""] ?? { workers: 0 }).workers = workers; return { stage: `${flow}/${stage}`, version: 4, workers }; },
  "POST /api/v1/flows/*/*/restart": (_, flow, stage) => ({ restarted: `${flow}/${stage}`, reset: false }),
  "GET /api/v1/flows/*/*/workers": (_, flow, stage) => ({ workers: stageOf(flow ?? "", stage ?? "").workers, next: null }),
  "GET /api/v1/flows/*/*/history": (_, flow, stage) => ({ next: null, history: [["deployed", 3], ["replaced", 2], ["failed", 1]].map(([event, hours]) => ({ at_ms: Date.now() - Number(hours) * hour, event, stage: `${flow}/${stage}`, version: 3, digest: "sha256:0", detail: event === "failed" ? "total is negative" : "" })) }),
  "GET /api/v1/flows/*/*/decisions": () => ({ decisions: [[2, 3, "grow", "4 of 10 probes waited longer than 100 ms, and 240 messages came a second where 2 workers do 180: it gets 3 workers"], [1, 2, "grow", "6 of 10 probes waited longer than 100 ms: it gets 2 workers"]].map(([before, after, change, text], index) => ({ number: 2 - index, at_ms: Date.now() - (index + 1) * 240_000, workers_before: before, workers_after: after, change, reason: "late-probes", text, buckets: [], predicted_per_second: 270, achieved: { after_ms: 5_000, done_per_second: 251, helped: true, late_share: 0 }, measured: { arrivals_per_second: 240, done_per_second: 178, busy_share: 0.98, late_share: 0.4, depth: 190, peak_per_second: 92, probes_ms: [], service_per_second: 90, upstream_ms: 0 } })).reverse() }),
  "GET /api/v1/flows/*/*/versions": () => ({ versions: [3, 2, 1].map((version) => ({ version, digest: "sha256:0", deployed_at_ms: Date.now() - version * hour, state: version === 3 ? "current" : "past" })) }),
  "GET /api/v1/flows/*/*/sample": ({ query }, flow) => ({ output: query.get("output") ?? "out", armed_ms: 30_000, seen: 1234, events: [0, 1, 2, 3].map((index) => ({ number: 1234 - index, at_ms: Date.now() - index * 180, to: [`${flow}/count`], body: JSON.stringify(bodies[index % 3]), body_bytes: 80, headers: {} })) }),
  "GET /api/v1/documents/*": (_, flow) => documentOf(flowOf(flow ?? "")),
  "GET /api/v1/document-schema": () => flowSchema,
  "PUT /api/v1/documents/*": ({ body, query, if_match }, flow) => applyDocument(flow ?? "", JSON.parse(body), query.get("plan") === "true", if_match),
  "GET /api/v1/documents/*/versions": (_, flow) => ({ versions: versionsOf(flow ?? "") }),
  "GET /api/v1/documents/*/versions/*": (_, flow, version) => versionOf(flow ?? "", Number(version)),
  "POST /api/v1/document-check": ({ body }) => checkDocument(body),
  "GET /api/v1/plugins": () => ({ plugins, next: null, troubles: [] }),
  "GET /api/v1/plugins/*": (_, id) => ({ id, troubles: [], versions: plugins.filter((plugin) => plugin.id === id).flatMap((plugin) => plugin.versions.map((version) => ({ ...plugin, version, digest: "sha256:0", bytes: 240_000, capabilities: [], language: "Rust", entry_point: "", pushed_at_ms: Date.now() - hour }))) }),
  "GET /api/v1/examples": () => ({ examples: examples.map(([id, title, description, stage, parameter, label, fallback]) => ({ id, title, description, document: documentOf(flows.find(({ flow }) => flow === id) ?? (flows[0] as MockFlow)), needs: [{ stage, parameter, label, default: fallback }] })) }),
  "POST /api/v1/examples/*": (_, id) => ({ flow: id, version: 1, changed: true, etag: '"1"', warnings: [], steps: [{ sentence: `deploy ${id}` }] }),
  "GET /api/v1/queues": () => ({ queues: queueNames().map(queueShown), next: null }),
  "GET /api/v1/queues/*": (_, name) => queueShown(name ?? ""),
  "GET /api/v1/queues/*/messages": () => ({ messages: [1, 2, 3, 4, 5].map(message), next: null }),
  "POST /api/v1/queues/*/messages": () => ({ accepted: 1, ack_level: "synced" }),
  "GET /api/v1/topics": () => ({ next: null, topics: ["alerts", "hivewire.general"].map((name) => ({ name, held: 0, bytes: 0, consumers: 2, in_per_second: 0.4, out_per_second: 0.8, totals: { published: 90, delivered: 180, missed: 0 } })) }),
  "GET /api/v1/dead": () => ({ letters: [1, 2, 3].map(letter), next: null }),
  "POST /api/v1/dead/replay": () => ({ replayed: 1 }),
  "POST /api/v1/dead/purge": () => ({ purged: 1 }),
  "GET /api/v1/clients": () => ({ next: null, clients: ["stomp", "gamq", "websocket"].map((protocol, index) => ({ id: `${protocol}-${index + 1}`, protocol, address: `127.0.0.1:5${index}123`, connected_at_ms: Date.now() - index * hour - 90_000, user: index ? null : "shop", sent: 1200, received: 900, subscriptions: [{ destination: "queue:orders", waiting_acks: 2, prefetch: 10 }] })) }),
  "GET /api/v1/alerts": () => ({ node: NODE, left_out: 0, next: null, missing: {}, receivers: [{ node: NODE, receiver: "log", sent: 4, failed: 0, last_failure: null, last_failure_at_ms: null }], alerts: [alert("dead-letters", "warning", "firing", "7 messages of order-enrichment/bill are dead; see why and replay them", 4), alert("queue-long", "critical", "pending", "orders has more than 1,000 waiting messages", 1)] }),
  "GET /api/v1/alerts/rules": () => ({ rules: ["dead-letters", "queue-long", "stage-stands"].map((name) => ({ name, severity: "warning", for_seconds: 30, trouble: null })) }),
  "GET /api/v1/alerts/silences": () => ({ silences: [] }),
  "GET /api/v1/crawls": () => ({ next: null, crawls: [{ flow: "crawl-site", description: "Fetches a site at the pace of its hosts", runs: true, store: "pages.db" }] }),
  "GET /api/v1/crawls/*": (_, flow) => ({ flow, over: false, fetched: countsOf("crawl-site/fetch").turns, failed: 12, waiting: 420, under_way: 3, store: "pages.db", missing: {}, stages: [], hosts: ["example.com", "www.example.com", "docs.example.com"].map((host, index) => ({ host, waiting: 140 - index * 40, fetched: 900 - index * 200, under_way: 1, next_start_ms: 400 })), results: { pages: 890, bytes: 44_000_000, statuses: { 200: 870, 404: 20 }, refused: { robots: 40, "domain-filter": 300 } } }),
  "GET /api/v1/crawls/*/pages": () => ({ missing: {}, next: null, pages: [] }),
  "GET /api/v1/config": () => ({ node: NODE, keys: [{ key: "http.address", value: "127.0.0.1:8000", default: "127.0.0.1:8000", from: "default", changeable: false }, { key: "broker.queues.messages_max", value: 1_000_000, default: 1_000_000, from: "default", changeable: true }] }),
  "GET /api/v1/requests": () => ({ next: null, requests: [] }),
  "GET /api/v1/services": servicesShown,
  "GET /api/v1/history": () => ({ next: null, history: [] }),
  ...broker,
  ...cluster,
};

/** The lines that `/api/v1/logs` gives. */
export function logLine(id: number) {
  const level = (["info", "info", "debug", "warn", "error"] as const)[id % 5];
  return { id, at_ms: Date.now(), level, node: NODE, stage: id % 2 ? "order-enrichment/bill" : null, worker: null, target: null, line: level === "error" ? "total is negative: -3.50" : `handled batch ${id} in ${(id % 7) + 1} ms` };
}

export function answer(ask: Ask): Reply {
  const parts = ask.path.split("/").map(decodeURIComponent);
  for (const [name, handler] of Object.entries(routes)) {
    const [method, pattern = ""] = name.split(" ");
    const wanted = pattern.split("/");
    if (method !== ask.method || wanted.length !== parts.length) continue;
    if (!wanted.every((part, index) => part === "*" || part === parts[index])) continue;
    try {
      const values = parts.filter((_, index) => wanted[index] === "*");
      const body = handler(ask, ...values);
      return { status: 200, body, ...(name.endsWith(" /api/v1/documents/*") && method === "GET" ? { etag: etagOf(values[0] ?? "") } : {}) };
    } catch (thrown) {
      if (!(thrown instanceof Refusal)) throw thrown;
      return { status: thrown.status, body: { type: "urn:hivewire:none", title: thrown.title, status: thrown.status, detail: thrown.detail } };
    }
  }
  return { status: 404, body: { type: "urn:hivewire:none", title: "Not in the mock", status: 404, detail: `The mock does not know ${ask.method} ${ask.path}; add it to dev/mock/routes.ts.` } };
}
