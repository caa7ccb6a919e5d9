// Routes that the OpenAPI document does not describe yet. Each goes from here once the document has it; the
// names of the types stay in `types.ts`, so that pages need no change.
import type { components } from "./schema";

type Schemas = components["schemas"];
type Json<T> = { 200: { headers: Record<string, unknown>; content: { "application/json": T } } };
type Get<T, Path = never, Query = never> = {
  parameters: { path: Path; query?: Query };
  responses: Json<T>;
};
type Post<T, Path = never, Body = never> = {
  parameters: { path: Path };
  requestBody?: { content: { "application/json": Body } };
  responses: Json<T>;
};

export interface ExampleNeed {
  stage: string;
  parameter: string;
  label: string;
  default: unknown;
}

export interface Example {
  id: string;
  title: string;
  description: string;
  document: Schemas["FlowDocument"];
  needs: ExampleNeed[];
}

export interface ExampleOrder {
  flow?: string;
  parameters?: Record<string, Record<string, unknown>>;
}

export interface SampledEvent {
  number: number;
  at_ms: number;
  to: string[];
  body?: string | null;
  body_base64?: string | null;
  body_bytes?: number | null;
  headers: Record<string, string>;
}

export interface Sample {
  output: string;
  armed_ms: number;
  seen: number;
  events: SampledEvent[];
}

export interface ClientSubscription {
  destination: string;
  waiting_acks: number;
  prefetch: number | null;
}

export interface Client {
  id: string | number;
  protocol: string;
  address: string;
  connected_at_ms: number;
  user: string | null;
  /** Null if it is too busy to be asked. */
  sent: number | null;
  received: number | null;
  subscriptions: ClientSubscription[];
}

export interface ClientPage {
  clients: Client[];
  next: string | null;
}

/** A plug-in with all that the palette and the forms need; built-in ones are among them. */
export interface PalettePlugin {
  id: string;
  version?: string | null;
  newest?: string | null;
  title?: string | null;
  description: string;
  author: string;
  licence?: string;
  repository?: string;
  versions?: string[];
  kind: "provider" | "processor";
  category?: string | null;
  parameters?: unknown;
  outputs?: { name: string; description: string }[];
}

export interface PalettePage {
  plugins: PalettePlugin[];
  troubles: Schemas["Trouble"][];
  next: string | null;
}

type StagePath = { flow: string; stage: string };

export interface ExtraPaths {
  "/api/v1/examples": { get: Get<{ examples: Example[] }> };
  "/api/v1/examples/{id}": { post: Post<Schemas["Applied"], { id: string }, ExampleOrder> };
  "/api/v1/plugins": {
    get: Get<PalettePage, never, { q?: string; kind?: string; own?: boolean; after?: string; limit?: number }>;
    post: { responses: Json<Schemas["PushedPlugin"]> };
  };
  "/api/v1/flows/{flow}/{stage}/sample": { get: Get<Sample, StagePath, { output?: string; count?: number }> };
  "/api/v1/flows/{flow}/{stage}/pause": { post: Post<unknown, StagePath> };
  "/api/v1/flows/{flow}/{stage}/resume": { post: Post<unknown, StagePath> };
  "/api/v1/clients": { get: Get<ClientPage, never, { after?: string; limit?: number }> };
  "/api/v1/clients/{id}": { delete: Get<unknown, { id: string | number }> };
}
