// What somebody wants to crawl, and the flow document of it: the one that `hivewire crawl` writes, too.
import type { FlowDocumentGiven } from "../api/types";

export interface Wanted {
  /** One a line; without a scheme, https is meant. */
  urls: string;
  /** The name of the flow; made of the first host if empty. */
  name: string;
  /** Separated by blanks, commas or lines; those of the URLs if empty. */
  domains: string;
  depth: string;
  pages: string;
  /** `10/min`, `2/s`, `unlimited`; polite if empty. */
  rate: string;
  /** A folder, or postgres://…; `crawls/NAME` if empty. */
  store: string;
  keeps_bodies: boolean;
  warc: boolean;
  search: boolean;
  allow_private: boolean;
  connections: string;
  user_agent: string;
}

export const nothing: Wanted = {
  urls: "", name: "", domains: "", depth: "", pages: "", rate: "", store: "",
  keeps_bodies: true, warc: false, search: true, allow_private: false, connections: "", user_agent: "",
};

const PREFIX = "crawl-";
const NAME_MAX = 60;
const CONNECTIONS = 32;
const CONNECTIONS_MAX = 4_096;
const UNDER_WAY = 8;
const DAY_MS = 86_400_000;
const UNITS_MS: Record<string, number> = { s: 1_000, sec: 1_000, second: 1_000, m: 60_000, min: 60_000, minute: 60_000, h: 3_600_000, hour: 3_600_000 };

export type Problems = Partial<Record<keyof Wanted, string>>;

/** A URL as people write it; null if it cannot be crawled. */
export function urlOf(text: string): URL | null {
  try {
    const url = new URL(text.includes("://") ? text : `https://${text}`);
    const fit = (url.protocol === "http:" || url.protocol === "https:") && url.hostname !== "" && url.username === "" && url.password === "";
    return fit ? url : null;
  } catch {
    return null;
  }
}

const words = (text: string) => text.split(/[\s,]+/).filter(Boolean);

export function flowName(url: URL): string {
  const name = url.host.replace(/[^a-z0-9]/gi, "-").slice(0, NAME_MAX).replace(/^-+|-+$/g, "");
  return PREFIX + name;
}

/**
 * The domains that these URLs belong to: the host and all below it, without `www.`. A host with a port of its
 * own, or without a name, is meant alone.
 */
export function domainsOf(urls: readonly URL[]): string[] {
  const domains = urls.map((url) => (url.port || /^\d+(\.\d+){3}$|^\[/.test(url.hostname) ? url.host : url.hostname.replace(/^www\.(?=[^.]+\.)/, "")));
  return [...new Set(domains)].sort();
}

/** The parameter `pace` of a frontier; undefined if the rate is left to it, null if it is none. */
export function paceOf(rate: string): { delay: string } | { unlimited: true } | undefined | null {
  const text = rate.trim();
  if (text === "") return undefined;
  if (text === "unlimited") return { unlimited: true };
  const [number = "", unit = ""] = text.split("/");
  const unit_ms = UNITS_MS[unit.trim()];
  const value = Number(number);
  if (unit_ms === undefined || number.trim() === "" || !(value > 0)) return null;
  const ms = Math.round(unit_ms / value);
  return ms >= 1 && ms <= DAY_MS ? { delay: period(ms) } : null;
}

function period(ms: number): string {
  const units: [number, string][] = [[DAY_MS, "d"], [3_600_000, "h"], [60_000, "m"], [1_000, "s"]];
  const [by, unit] = units.find(([by]) => ms % by === 0) ?? [1, "ms"];
  return `${ms / by}${unit}`;
}

/** What is wrong with it, by field. */
export function problemsOf(wanted: Wanted): Problems {
  const found: Problems = {};
  const urls = words(wanted.urls);
  const wrong = urls.find((text) => urlOf(text) === null);
  if (urls.length === 0) found.urls = "Name at least one URL";
  else if (wrong) found.urls = `${wrong} cannot be crawled: write a URL such as https://example.com/`;
  if (wanted.name && !/^[a-z0-9][a-z0-9._-]*$/i.test(wanted.name)) found.name = "Letters, digits, - and _ only";
  if (wanted.depth && !/^\d{1,9}$/.test(wanted.depth.trim())) found.depth = "Write a whole number";
  if (wanted.pages && !/^[1-9]\d{0,14}$/.test(wanted.pages.trim())) found.pages = "Write a whole number above 0";
  if (paceOf(wanted.rate) === null) found.rate = "Write 10/min, 2/s or 100/h, or unlimited for a server of your own";
  const connections = Number(wanted.connections || CONNECTIONS);
  if (!Number.isInteger(connections) || connections < 1 || connections > CONNECTIONS_MAX) found.connections = `Write a number from 1 to ${CONNECTIONS_MAX}`;
  return found;
}

/** Leaves out what is not said; undefined if nothing is. */
function said(all: Record<string, unknown>): Record<string, unknown> | undefined {
  const some = Object.entries(all).filter(([, value]) => value !== undefined);
  return some.length > 0 ? Object.fromEntries(some) : undefined;
}

/** The document of such a crawl. Look at `problemsOf` first. */
export function crawlDocument(wanted: Wanted): FlowDocumentGiven {
  const urls = words(wanted.urls).map(urlOf).filter((url) => url !== null);
  const first = urls[0];
  if (!first) throw new Error("name at least one URL");
  const flow = wanted.name.trim() || flowName(first);
  const short = flow.startsWith(PREFIX) ? flow.slice(PREFIX.length) : flow;
  const number = (text: string) => (text.trim() ? Number(text) : undefined);
  const connections = number(wanted.connections) ?? CONNECTIONS;
  const domains = words(wanted.domains);
  const fetch = said({ allow_private: wanted.allow_private || undefined, user_agent: wanted.user_agent.trim() || undefined });
  const fetching = fetch ? { fetch } : undefined;
  const reads = { call_ms_max: 60_000 };
  // A worker that is busy with one event gets no other, and what waits for it can still be filtered.
  const single = { mailbox_messages_max: 1, batch_messages_max: 1, spill_messages_max: 1, call_ms_max: 120_000 };
  const grows = { min: 1, max: 4 };
  const at = (column: number, row: number) => ({ x: column * 260, y: row * 170 });
  const stages: Record<string, Record<string, unknown>> = {
    seed: { plugin: "seed", delivery: "state-once", parameters: { urls: urls.map(String) }, limits: reads, outputs: { out: "normalise" }, position: at(0, 0) },
    normalise: { plugin: "url-normaliser", outputs: { out: "seen", refused: "store" }, position: at(1, 0) },
    seen: { plugin: "seen-urls", delivery: "state-once", key: "json:/host", outputs: { out: "frontier" }, position: at(2, 0) },
    frontier: {
      plugin: "frontier", delivery: "state-once", key: "json:/host", limits: reads, outputs: { out: "domains", refused: "store" }, position: at(3, 0),
      parameters: said({ pace: paceOf(wanted.rate) ?? undefined, pages_max: number(wanted.pages), under_way_max: connections * UNDER_WAY }),
    },
    domains: { plugin: "domain-filter", parameters: said({ domains: domains.length > 0 ? domains : domainsOf(urls), depth_max: number(wanted.depth) }), outputs: { out: "robots", refused: "store" }, position: at(4, 0) },
    robots: { plugin: "robots", parameters: fetching, workers: 16, router: "smallest-mailbox", limits: single, outputs: { out: "download", refused: "store", sitemaps: "normalise" }, position: at(5, 0) },
    download: {
      plugin: "downloader", parameters: fetching, scale: { min: Math.min(connections, CONNECTIONS), max: connections }, router: "smallest-mailbox", limits: single, position: at(5, 1),
      outputs: { out: wanted.warc ? ["content", "archive"] : "content", redirects: "normalise", refused: "store" },
    },
    content: { plugin: "content-filter", scale: grows, outputs: { out: "decode", refused: "store" }, position: at(4, 1) },
    decode: { plugin: "charset-decoder", scale: grows, outputs: { out: "links" }, position: at(3, 1) },
    links: { plugin: "link-extractor", scale: grows, outputs: { out: "text", links: "normalise" }, position: at(2, 1) },
    text: { plugin: "text-extractor", scale: grows, outputs: { out: "store" }, position: at(2, 2) },
    store: {
      plugin: "page-store", limits: { batch_messages_max: 256, call_ms_max: 60_000 }, position: at(4, 2),
      parameters: said({ to: wanted.store.trim() || `crawls/${short}`, keep_body: wanted.keeps_bodies ? undefined : false, search: wanted.search || undefined }),
    },
    ...(wanted.warc ? { archive: { plugin: "warc-writer", parameters: { folder: `archives/${short}` }, position: at(5, 2) } } : {}),
  };
  for (const stage of Object.values(stages)) if (stage["parameters"] === undefined) delete stage["parameters"];
  return {
    flow, stages,
    description: urls.length === 1 ? `Crawls ${first.href}` : `Crawls ${first.href} and ${urls.length - 1} more`,
    // Pages are handled in memory on the node that fetched them; the frontier keeps on disk what is under way.
    delivery: "at-most-once",
  } as FlowDocumentGiven;
}
