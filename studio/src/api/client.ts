// Requests to the node, with the types of its OpenAPI document. Every request has a timeout, can be aborted,
// and fails with an ApiProblem.
import type { ExtraPaths } from "./extra";
import { ApiProblem, problemOf } from "./problem";
import type { paths } from "./schema";

type Paths = Omit<paths, keyof ExtraPaths> & ExtraPaths;
type Method = "get" | "put" | "post" | "delete";
type Operation<P extends keyof Paths, M extends Method> = Paths[P] extends Record<M, infer O> ? O : never;

export type PathsWith<M extends Method> = {
  [P in keyof Paths]: Paths[P] extends Record<M, { responses: unknown }> ? P : never;
}[keyof Paths];

/** What the operation answers with. */
export type Answer<P extends keyof Paths, M extends Method> =
  Operation<P, M> extends { responses: { 200: { content: { "application/json": infer A } } } } ? A : unknown;

type Part<O, K extends string> = O extends { parameters: infer All }
  ? K extends keyof All
    ? Exclude<All[K], undefined>
    : never
  : never;
type BodyOf<O> = O extends { requestBody?: { content: infer C } }
  ? C extends { "application/json": infer B }
    ? B
    : unknown
  : never;

export interface Request<O = unknown> {
  /** Fills `{name}` in the path. */
  path?: Part<O, "path">;
  query?: Part<O, "query">;
  headers?: Record<string, string>;
  /** Sent as JSON. */
  body?: BodyOf<O>;
  /** Sent as it is, instead of `body`. */
  raw?: { type: string; data: BodyInit };
  signal?: AbortSignal;
  timeout_ms?: number;
}

export interface Whole<T> {
  data: T;
  status: number;
  etag: string | null;
}

const TIMEOUT_MS = 15_000;

export interface Credentials {
  token(): string | null;
  /** Called when the node refuses the token. */
  refused(): void;
}

let credentials: Credentials = { token: () => null, refused: () => {} };

/** Says where the token comes from; called once, by the session. */
export function useCredentials(given: Credentials): void {
  credentials = given;
}

export function fillPath(path: string, values: Record<string, unknown> = {}): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`${path} lacks ${name}`);
    return encodeURIComponent(String(value));
  });
}

export function queryText(query: Record<string, unknown> = {}): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") given.append(name, String(value));
  }
  const text = given.toString();
  return text ? `?${text}` : "";
}

/** Sends a request and gives the answer, whose body is not read yet. */
async function send(method: Method, path: string, given: Request): Promise<Response> {
  const headers = new Headers(given.headers);
  const token = credentials.token();
  if (token) headers.set("Authorization", `Bearer ${token}`);
  let body: BodyInit | null = null;
  if (given.raw) {
    headers.set("Content-Type", given.raw.type);
    body = given.raw.data;
  } else if (given.body !== undefined) {
    headers.set("Content-Type", "application/json");
    body = JSON.stringify(given.body);
  }
  const timeout_ms = given.timeout_ms ?? TIMEOUT_MS;
  const timeout = AbortSignal.timeout(timeout_ms);
  const signal = given.signal ? AbortSignal.any([given.signal, timeout]) : timeout;
  const url = fillPath(path, given.path ?? {}) + queryText(given.query ?? {});
  let answer: Response;
  try {
    answer = await fetch(url, { method: method.toUpperCase(), headers, body, signal, credentials: "omit" });
  } catch (thrown) {
    // Who aborted wants to hear of that, not of a problem.
    if (given.signal?.aborted) throw thrown;
    throw timeout.aborted ? ApiProblem.timeout(timeout_ms) : ApiProblem.network();
  }
  if (answer.ok) return answer;
  if (answer.status === 401) credentials.refused();
  throw await problemOf(answer);
}

async function whole<T>(method: Method, path: string, given: Request): Promise<Whole<T>> {
  const answer = await send(method, path, given);
  const text = await answer.text();
  const isJson = answer.headers.get("Content-Type")?.includes("json") ?? false;
  return {
    data: (isJson && text ? JSON.parse(text) : text) as T,
    status: answer.status,
    etag: answer.headers.get("ETag"),
  };
}

type Ask<M extends Method> = <P extends PathsWith<M>>(
  path: P,
  given?: Request<Operation<P, M>>,
) => Promise<Answer<P, M>>;

function ask<M extends Method>(method: M): Ask<M> {
  return async (path, given = {}) => (await whole<never>(method, path as string, given as Request)).data;
}

export const api = {
  get: ask("get"),
  put: ask("put"),
  post: ask("post"),
  delete: ask("delete"),
  /** Like `get`, with the ETag, which serves as If-Match. */
  whole: <P extends PathsWith<"get">>(path: P, given: Request<Operation<P, "get">> = {}) =>
    whole<Answer<P, "get">>("get", path as string, given as Request),
  /** A body that is no JSON, such as a flow document in TOML (with `headers: { Accept: "application/toml" }`). */
  text: async <P extends PathsWith<"get">>(path: P, given: Request<Operation<P, "get">> = {}) =>
    (await send("get", path as string, given as Request)).text(),
  blob: async <P extends PathsWith<"get">>(path: P, given: Request<Operation<P, "get">> = {}) =>
    (await send("get", path as string, { timeout_ms: 600_000, ...(given as Request) })).blob(),
  lines,
};

/** Lines of JSON, one after the other, for as long as the signal lets it. */
async function* lines<P extends PathsWith<"get">, T = unknown>(
  path: P,
  given: Request<Operation<P, "get">> & { signal: AbortSignal },
): AsyncGenerator<T> {
  const answer = await send("get", path as string, { timeout_ms: 86_400_000, ...(given as Request) });
  if (!answer.body) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    while (true) {
      const { done, value } = await reader.read();
      const parts = (rest + (value ?? "")).split("\n");
      rest = done ? "" : (parts.pop() ?? "");
      for (const part of parts) if (part.trim()) yield JSON.parse(part) as T;
      if (done) return;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
