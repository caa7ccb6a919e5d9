import type { components } from "../api/schema";

type Schemas = components["schemas"];

export type Page = Schemas["CrawledPage"];
export type Hit = Schemas["CrawlHit"];
export type Why = Schemas["WhyShown"];
export type Refusal = Schemas["CrawlRefusal"];
export type Host = Schemas["CrawlHost"];
/** A page as it is exported, with its text. */
export type WholePage = Page & { text?: string | null; headers?: Record<string, unknown> | null };
