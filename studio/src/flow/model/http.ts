// Requests over HTTP that stages of a flow answer: what is written of them, what is wrong with that, and how it changes.
import type { DocumentProblem } from "../../api/types";
import type { Doc, HttpRoute } from "./document";
import { isProvider, type Plugins } from "./plugins";

export const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] as const;
/** How long a reply is waited for if nothing is said. */
export const REPLY_USUAL = "5s";
const PATH_BYTES_MAX = 1_000;
const REPLY_MS_MAX = 300_000;
const HEADERS_MAX = 32;
const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 } as const;

/** A route of the document, and where it stands there. */
export interface Placed {
  index: number;
  route: HttpRoute;
}

/** `POST /orders` in its two parts. */
export function partsOf(route: string): { method: string; path: string } {
  const [, method = "", path = ""] = /^(\S*) (.*)$/s.exec(route) ?? [];
  return { method, path };
}

/** Why this is no path of a route; null if it is one. */
export function pathProblem(path: string): string | null {
  if (!path.startsWith("/")) return "A path begins with /";
  if (new TextEncoder().encode(path).length > PATH_BYTES_MAX) return `A path has at most ${PATH_BYTES_MAX} bytes`;
  const names = new Set<string>();
  const parts = path.slice(1).split("/");
  for (const [at, part] of parts.entries()) {
    const [, rest, name] = /^\{(\*?)(.*)\}$/s.exec(part) ?? [];
    if (name === undefined) {
      const wrong = [...part].find((letter) => !/^[!-~]$/.test(letter) || "{}?#\\\"<>^`|".includes(letter));
      if (wrong !== undefined) return `${wrong === " " ? "A space" : wrong} cannot stand in a path: write it percent-encoded, and braces only around a whole part`;
    } else if (!/^[a-z0-9_-]+$/.test(name)) return `${part} has no name that fits: use lower-case letters, digits, - and _`;
    else if (names.has(name)) return `${name} stands twice in this path: rename one of them`;
    else if (rest && at < parts.length - 1) return `${part} stands for all that follows: put it last`;
    else names.add(name);
  }
  return null;
}

/** Why this is no route; null if it is one. */
export function routeProblem(route: string): string | null {
  const { method, path } = partsOf(route);
  if (method === "" && path === "") return "Write a method and a path, such as POST /orders";
  return (METHODS as readonly string[]).includes(method) ? pathProblem(path) : `A method is one of ${METHODS.join(", ")}`;
}

/** The milliseconds that a text such as `5s` says; null if it says none. */
export function periodMs(text: string): number | null {
  const [, number, unit] = /^(\d+)\s*(ms|s|m|h)$/.exec(text) ?? [];
  return number === undefined ? null : Number(number) * UNITS[unit as keyof typeof UNITS];
}

/** A time as the node writes it: the largest unit that fits. What says no time stays as it is. */
export function periodText(text: string): string {
  const ms = periodMs(text.trim());
  if (ms === null || ms === 0) return text.trim();
  const [unit] = (["h", "m", "s", "ms"] as const).filter((one) => ms % UNITS[one] === 0);
  return `${ms / UNITS[unit ?? "ms"]}${unit}`;
}

function timeoutProblem({ timeout, reply }: HttpRoute): string | null {
  if (timeout === undefined) return null;
  if (reply === false) return "Nothing is waited for: take the time out, or let the reply be the answer";
  const ms = periodMs(timeout);
  if (ms === null) return "Write a whole number and its unit, such as 100ms, 5s or 1m";
  return ms >= 1 && ms <= REPLY_MS_MAX ? null : "A reply is waited for between 1ms and 5m";
}

function headersProblem({ headers = [] }: HttpRoute): { index: number; message: string } | null {
  if (headers.length > HEADERS_MAX) return { index: HEADERS_MAX, message: `A stage gets at most ${HEADERS_MAX} headers of a request` };
  const index = headers.findIndex((name) => !/^[a-z0-9-]+$/.test(name));
  return index < 0 ? null : { index, message: `${headers[index]} is no header: write its name in lower case` };
}

/** Two routes of the same shape take the same requests. */
export function shapeOf(route: string): string {
  return route.replace(/\{(\*?)[^{}]*\}/g, "{$1}");
}

export function routesOf(doc: Doc, stage: string): Placed[] {
  return (doc.http ?? []).map((route, index) => ({ route, index })).filter(({ route }) => route.stage === stage);
}

/** What is wrong with the routes. As the node tells it, no stage is named: see `named`. */
export function checkRoutes(doc: Doc, plugins: Plugins): DocumentProblem[] {
  const problems: DocumentProblem[] = [];
  const known = new Map<string, string>();
  for (const [index, route] of (doc.http ?? []).entries()) {
    const say = (field: string, message: string) => problems.push({ severity: "error", stage: null, path: `http.${index}.${field}`, message });
    const wrong = routeProblem(route.route);
    const shape = shapeOf(route.route);
    const other = known.get(shape);
    if (wrong) say("route", wrong);
    else if (other) say("route", `${other} takes the same requests: take one of them out`);
    else known.set(shape, route.route);
    if (!(route.stage in doc.stages)) say("stage", `There is no stage ${route.stage} in this flow`);
    else if (isProvider(plugins, doc, route.stage)) say("stage", `${route.stage} is a provider and has no input: it cannot get requests`);
    const late = timeoutProblem(route);
    if (late) say("timeout", late);
    const header = headersProblem(route);
    if (header) say(`headers.${header.index}`, header.message);
  }
  return problems;
}

/** Problems of routes with the stages of the routes, so that they are shown there. */
export function named(doc: Doc, problems: readonly DocumentProblem[]): DocumentProblem[] {
  return problems.map((one) => {
    const index = one.stage ? undefined : /^http\.(\d+)/.exec(one.path)?.[1];
    const stage = index === undefined ? undefined : doc.http?.[Number(index)]?.stage;
    return stage !== undefined && stage in doc.stages ? { ...one, stage } : one;
  });
}

/** The document with these routes; without any it has no list of them. */
export function withRoutes(doc: Doc, routes: readonly HttpRoute[]): Doc {
  const { http: _, ...rest } = doc;
  return routes.length > 0 ? { ...rest, http: routes } : rest;
}

/** A further route of a stage, for requests that nothing takes yet. */
export function addRoute(doc: Doc, stage: string): Doc {
  if (!(stage in doc.stages)) return doc;
  const all = doc.http ?? [];
  const taken = new Set(all.map(({ route }) => shapeOf(route)));
  const free = (path: string) => !taken.has(`POST ${path}`);
  let path = `/${stage}`;
  for (let number = 2; !free(path); number++) path = `/${stage}-${number}`;
  return withRoutes(doc, [...all, { route: `POST ${path}`, stage }]);
}

/** A route without what says nothing: that its reply is the answer, and empty parts. */
export function tidy(route: HttpRoute): HttpRoute {
  const { reply, timeout, headers, ...rest } = route;
  return { ...rest, ...(reply === false ? { reply } : {}), ...(timeout ? { timeout } : {}), ...(headers && headers.length > 0 ? { headers } : {}) };
}

export function setRoute(doc: Doc, index: number, route: HttpRoute): Doc {
  return withRoutes(doc, (doc.http ?? []).map((one, at) => (at === index ? tidy(route) : one)));
}

export function removeRoute(doc: Doc, index: number): Doc {
  return withRoutes(doc, (doc.http ?? []).filter((_, at) => at !== index));
}

/** What becomes of a request, in a few words. */
export function answerText({ reply, timeout, headers = [] }: HttpRoute): string {
  const answer = reply === false ? "202 at once" : `its reply within ${timeout ?? REPLY_USUAL}`;
  return headers.length > 0 ? `${answer}, with ${headers.join(", ")}` : answer;
}
