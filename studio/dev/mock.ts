// A node that is none, for `npm run dev`: believable answers and live numbers. Its token is "mock".
// With HIVEWIRE_NODE=http://127.0.0.1:8000 the requests go to a real node instead.
import type { IncomingMessage, Server as HttpServer, ServerResponse } from "node:http";
import type { Http2SecureServer } from "node:http2";
import type { Duplex } from "node:stream";
import type { Connect, Plugin } from "vite";
import { WebSocketServer, type WebSocket } from "ws";
import { linesOf } from "./mock/cluster";
import { answer, logLine } from "./mock/routes";
import { liveFrame, tick } from "./mock/world";

const TOKEN = "mock";
const RUN = String(Date.now());

function reply(response: ServerResponse, status: number, body: unknown): void {
  response.statusCode = status;
  response.setHeader("Content-Type", status < 400 ? "application/json" : "application/problem+json");
  response.end(JSON.stringify(body));
}

async function serve(request: IncomingMessage, response: ServerResponse, next: () => void): Promise<void> {
  const url = new URL(request.url ?? "/", "http://mock");
  if (!/^\/(api|health|metrics|registry)/.test(url.pathname)) return next();
  if (url.pathname !== "/health" && request.headers.authorization !== `Bearer ${TOKEN}`) {
    return reply(response, 401, { type: "urn:hivewire:token", title: "Token needed", status: 401, detail: 'The token of the mock is "mock".' });
  }
  if (url.pathname === "/api/v1/logs" || url.pathname.endsWith("/logs")) return logs(url, request, response);
  const lines = request.method === "GET" ? linesOf(url) : undefined;
  if (lines) {
    response.setHeader("Content-Type", "application/x-ndjson");
    response.write(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    return void (url.searchParams.get("follow") === "true" || response.end());
  }
  let body = "";
  for await (const chunk of request) body += String(chunk);
  const { status, body: said, etag } = answer({ if_match: request.headers["if-match"], method: request.method ?? "GET", path: url.pathname, query: url.searchParams, body });
  if (etag) response.setHeader("ETag", etag);
  reply(response, status, said);
}

function logs(url: URL, request: IncomingMessage, response: ServerResponse): void {
  response.setHeader("Content-Type", "application/x-ndjson");
  for (let id = 1; id <= 60; id++) response.write(`${JSON.stringify(logLine(id))}\n`);
  if (url.searchParams.get("follow") !== "true") return void response.end();
  let id = 61;
  const timer = setInterval(() => response.write(`${JSON.stringify(logLine(id++))}\n`), 700);
  request.on("close", () => clearInterval(timer));
}

function live(socket: WebSocket, url: URL): void {
  const flow = url.searchParams.get("flow");
  let before: Partial<ReturnType<typeof liveFrame>> = {};
  const send = () => {
    const frame = liveFrame(flow);
    const part: Record<string, unknown> = { kind: "live", at_ms: frame.at_ms, complete: !before.stages };
    for (const table of ["stages", "edges", "queues"] as const) {
      const now = frame[table], known = before[table] ?? {};
      const changed = Object.entries(now).filter(([key, value]) => JSON.stringify(known[key]) !== JSON.stringify(value));
      part[table] = Object.fromEntries([...changed, ...Object.keys(known).filter((key) => !(key in now)).map((key) => [key, null])]);
    }
    before = frame;
    socket.send(JSON.stringify(part));
  };
  send();
  const timer = setInterval(send, Math.max(100, Number(url.searchParams.get("period_ms") ?? 250)));
  socket.on("close", () => clearInterval(timer));
}

function events(socket: WebSocket): void {
  let number = 100;
  const say = (event: object) => socket.send(JSON.stringify({ number: number++, node: "node-a", at_ms: Date.now(), ...event }));
  say({ kind: "begin", run: RUN });
  say({ kind: "stage", event: "restarted", flow: "order-enrichment", stage: "order-enrichment/bill", detail: "total is negative", version: 3 });
  const timer = setInterval(() => say({ kind: "note", event: "said", text: "I update the shop now", from: "Ada" }), 20_000);
  socket.on("close", () => clearInterval(timer));
}

export function mock(): Plugin {
  return {
    name: "mock-node",
    config: () => {
      const target = process.env["HIVEWIRE_NODE"];
      return target ? { server: { proxy: { "/api": { target, ws: true, changeOrigin: true, headers: { Origin: target } }, "/health": { target, changeOrigin: true } } } } : {};
    },
    configureServer: attach,
    // The built studio, too, with the policy under which the node serves it.
    configurePreviewServer: attach,
  };
}

interface Server {
  httpServer: HttpServer | Http2SecureServer | null;
  middlewares: Connect.Server;
}

function attach(server: Server): void {
  if (process.env["HIVEWIRE_NODE"] || process.env["VITEST"]) return;
  const timer = setInterval(tick, 100);
  server.httpServer?.on("close", () => clearInterval(timer));
  const sockets = new WebSocketServer({ noServer: true, handleProtocols: (offered) => [...offered][0] ?? false });
  server.httpServer?.on("upgrade", (request: IncomingMessage, stream: Duplex, head: Buffer) => {
    const url = new URL(request.url ?? "/", "http://mock");
    if (!url.pathname.startsWith("/api/")) return;
    if (!(request.headers["sec-websocket-protocol"] ?? "").includes(`hivewire.token.${TOKEN}`)) return void stream.end("HTTP/1.1 401 Unauthorized\r\n\r\n");
    sockets.handleUpgrade(request, stream, head, (socket) => {
      if (url.pathname === "/api/v1/live") live(socket, url);
      else if (url.pathname === "/api/v1/events") events(socket);
      else socket.close();
    });
  });
  server.middlewares.use((request, response, next) => void serve(request, response, next).catch((thrown: unknown) => reply(response, 500, { title: "The mock failed", status: 500, detail: String(thrown) })));
}
