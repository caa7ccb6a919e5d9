// Uses a node through types that were generated from its OpenAPI document. That it compiles shows that the
// document says enough; that it runs shows that it is true.

import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { env: Record<string, string | undefined> };

type Queue = components["schemas"]["QueueShown"];
type Problem = components["schemas"]["Problem"];

const baseUrl = process.env["HIVEWIRE_SERVER"];
const token = process.env["HIVEWIRE_TOKEN"];
if (baseUrl === undefined || token === undefined) {
  throw new Error("HIVEWIRE_SERVER and HIVEWIRE_TOKEN are needed");
}
const node = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });

function check(holds: boolean, what: string): asserts holds {
  if (!holds) {
    throw new Error(what);
  }
}

async function nodes(): Promise<string[]> {
  const { data, error } = await node.GET("/api/v1/nodes", { params: { query: { state: "running" } } });
  check(data !== undefined, `no nodes: ${JSON.stringify(error)}`);
  return data.nodes.map((one) => one.name);
}

async function publish(name: string, bodies: string[]): Promise<void> {
  const messages = bodies.map((body) => ({ body, headers: { from: "typescript" } }));
  for (const _ of [1, 2]) {
    // A retry with the same key does it once.
    const { data, error } = await node.POST("/api/v1/queues/{name}/messages", {
      params: { path: { name }, header: { "Idempotency-Key": "typescript-1" } },
      body: { messages },
    });
    check(data !== undefined, `not published: ${JSON.stringify(error)}`);
    check(data.accepted === bodies.length && data.ack_level === "synced", JSON.stringify(data));
  }
}

async function queues(limit: number): Promise<Queue[]> {
  const all: Queue[] = [];
  let after: string | undefined;
  do {
    const query = after === undefined ? { limit } : { limit, after };
    const { data } = await node.GET("/api/v1/queues", { params: { query } });
    check(data !== undefined, "no queues");
    all.push(...data.queues);
    after = data.next ?? undefined;
  } while (after !== undefined);
  return all;
}

async function main(): Promise<void> {
  check((await nodes()).includes("typed"), "the node lists itself");
  await publish("orders/new", ["one", "two"]);
  await publish2();
  const names = (await queues(1)).map((queue) => queue.name);
  check(names.includes("orders/new") && names.includes("other"), names.join());
  const path = { name: "orders/new" };
  const peeked = await node.GET("/api/v1/queues/{name}/messages", { params: { path } });
  const bodies = peeked.data?.messages.map((message) => message.body);
  check(bodies?.join() === "one,two", JSON.stringify(peeked.data));
  const missing = await node.GET("/api/v1/queues/{name}", { params: { path: { name: "none" } } });
  const problem: Problem | undefined = missing.error;
  check(missing.response.status === 404 && problem?.type === "urn:hivewire:not-found", JSON.stringify(problem));
  console.log("all is well");
}

async function publish2(): Promise<void> {
  const { data } = await node.POST("/api/v1/messages/{address}", {
    params: { path: { address: "queue:other" } },
    body: { messages: [{ body_base64: "/w==", durable: false }] },
  });
  check(data?.accepted === 1, JSON.stringify(data));
}

await main();
