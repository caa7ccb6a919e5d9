// Dead letters, clients, topics and plug-ins of the mock, which change as those of a node would.
// MOCK_QUEUES=10000 makes so many queues more.
import { readFileSync } from "node:fs";
import { Refusal, type Ask } from "./routes";
import { plugins } from "./plugins";
import { queueNames, queueShown, removeQueue } from "./world";

type Handler = (ask: Ask, ...values: string[]) => unknown;

const hour = 3_600_000;
const reasons = ["the worker failed 5 times: total is negative\n  at bill::total (src/lib.rs:41)\n  at bill::handle (src/lib.rs:18)", "nobody took it within its time", "at /customer: there is no such field"];
let letters = Array.from({ length: 640 }, (_, at) => ({
  id: at + 1, from: at % 3 ? "order-enrichment.bill" : "orders", from_kind: "queue", reason: reasons[at % 3], tries: at % 3 === 1 ? 1 : 5, headers: { "content-type": "application/json", "dead-reason": reasons[at % 3] },
  body: JSON.stringify({ order: 4711 + at, customer: `c${at % 17}`, total: -(at % 40) }), published_at: Date.now() - (640 - at) * 60_000, died_at: Date.now() - (640 - at) * 60_000 + 9_000,
}));
let clients = ["stomp", "gamq", "stomp"].map((protocol, index) => ({ id: index + 1, protocol, address: `127.0.0.1:5${index}123`, connected_at_ms: Date.now() - index * hour - 90_000, user: index ? null : "shop", sent: 1_200, received: 900,
  subscriptions: index === 1 ? [] : [{ destination: index ? "topic:alerts" : "queue:orders", waiting_acks: 2, prefetch: 10 as number | null }] }));

const many = Array.from({ length: Number(process.env["MOCK_QUEUES"] ?? 0) }, (_, at) => `customer-${at}/orders`);
const made = new Set(many);
const page = <T>(all: T[], query: URLSearchParams, key: (one: T) => string, limit_default: number) => {
  const after = query.get("after"), from = after === null ? 0 : all.findIndex((one) => key(one) === after) + 1;
  const limit = Number(query.get("limit") ?? limit_default), part = all.slice(from, from + limit), last = part.at(-1);
  return { part, next: last && from + limit < all.length ? key(last) : null };
};
const chosen = (body: string) => {
  const { from, id } = JSON.parse(body || "{}") as { from?: string; id?: number };
  const found = letters.filter((letter) => (!from || letter.from === from) && (!id || letter.id === id));
  letters = letters.filter((letter) => !found.includes(letter));
  return found.length;
};
const topic = (name: string) => ({ name, held: 0, bytes: 0, consumers: 2, in_per_second: 0.4 + Math.random() * 0.2, out_per_second: 0.8, totals: { published: 90, delivered: 180, missed: 0 } });

export const broker: Record<string, Handler> = {
  "GET /api/v1/openapi.json": () => JSON.parse(readFileSync(new URL("../docs/reference/openapi.json", `file://${process.cwd()}/`), "utf8")) as unknown,
  "GET /api/v1/queues": ({ query }) => {
    const { part, next } = page([...queueNames(), ...many].sort(), query, (name) => name, 1_000);
    return { queues: part.map((name) => (made.has(name) ? { ...queueShown("orders"), name, waiting: name.length * 7 % 40 } : queueShown(name))), next };
  },
  "DELETE /api/v1/queues/*": (_, name) => ({ name, removed: removeQueue(name ?? "") }),
  "GET /api/v1/topics/*": (_, name) => topic(name ?? ""),
  "POST /api/v1/topics/*/messages": () => ({ accepted: 1, ack_level: "memory" }),
  "POST /api/v1/messages/*": () => ({ accepted: 1 }),
  "GET /api/v1/dead": ({ query }) => {
    const { part, next } = page(letters.filter(({ from, id }) => (!query.get("from") || from === query.get("from")) && id > Number(query.get("after") ?? 0)), new URLSearchParams({ limit: query.get("limit") ?? "100" }), ({ id }) => String(id), 100);
    return { letters: part, next };
  },
  "POST /api/v1/dead/replay": ({ body }) => ({ replayed: chosen(body) }),
  "POST /api/v1/dead/purge": ({ body }) => ({ purged: chosen(body) }),
  "GET /api/v1/queues/*": (_, name = "") => {
    if (name === "hivewire.dead") return { ...queueShown("orders"), name, waiting: letters.length };
    if (!queueNames().includes(name) && !made.has(name)) throw new Refusal(404, "No such queue", `There is no queue ${name}.`);
    return queueShown(name);
  },
  "GET /api/v1/clients": () => {
    for (const client of clients) { client.sent += 3; client.received += client.subscriptions.length * 5; }
    return { clients, next: null };
  },
  "DELETE /api/v1/clients/*": (_, id) => {
    if (!clients.some((client) => String(client.id) === id)) throw new Refusal(404, "No such client", `no client ${id} is connected`);
    clients = clients.filter((client) => String(client.id) !== id);
    return { id: Number(id) };
  },
  "POST /api/v1/plugins": () => { throw new Refusal(422, "Unfit", "the component has no descriptor: give --id and --version, or build it with hivewire build"); },
  "PUT /api/v1/plugins/*/*": (_, id = "", version = "") => {
    plugins.push({ id, kind: "processor", category: "own", title: id, description: "Pushed in the mock.", author: "", licence: "", newest: version, repository: "own", versions: [version], parameters: null, outputs: [] } as never);
    return { created: true, plugin: { id, version } };
  },
  "DELETE /api/v1/plugins/*/*": (_, id, version) => {
    const at = plugins.findIndex((plugin) => plugin.id === id), found = plugins[at];
    if (found) { found.versions = found.versions.filter((one) => one !== version); if (found.versions.length === 0) plugins.splice(at, 1); }
    return { removed: { id, version } };
  },
};
