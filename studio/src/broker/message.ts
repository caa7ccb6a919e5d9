// A message that somebody writes by hand: what is wrong with it, and what is sent.

export interface Draft {
  body: string;
  type: string;
  headers: { name: string; value: string }[];
  durable: boolean;
}

export interface DraftProblems {
  body?: string;
  /** By place in the list. */
  headers: Record<number, string>;
}

const BODY_BYTES_MAX = 16 * 1024 * 1024;

export function problemsOf(draft: Draft): DraftProblems {
  const problems: DraftProblems = { headers: {} };
  const bytes = new TextEncoder().encode(draft.body).length;
  if (bytes > BODY_BYTES_MAX) problems.body = "A body has at most 16 MiB.";
  else if (draft.type.includes("json")) {
    try {
      JSON.parse(draft.body);
    } catch (thrown) {
      problems.body = `This is no JSON: ${thrown instanceof Error ? thrown.message : "it cannot be read"}`;
    }
  }
  draft.headers.forEach(({ name, value }, at) => {
    if (!name && !value) return;
    if (!name) problems.headers[at] = "The header has no name.";
    else if (/[\s:\p{Cc}]/u.test(name)) problems.headers[at] = "A name has neither blanks nor colons.";
    else if (draft.headers.findIndex((other) => other.name === name) !== at || (name === "content-type" && draft.type)) problems.headers[at] = `${name} is there twice.`;
  });
  return problems;
}

export const isSound = (problems: DraftProblems) => !problems.body && Object.keys(problems.headers).length === 0;

export function messageOf(draft: Draft): { body: string; headers: Record<string, string>; durable: boolean } {
  const headers = Object.fromEntries(draft.headers.filter(({ name }) => name).map(({ name, value }) => [name, value]));
  return { body: draft.body, durable: draft.durable, headers: draft.type ? { "content-type": draft.type, ...headers } : headers };
}

/** The beginning of a body on one line. */
export function glimpse(message: { body?: string | null; body_base64?: string | null }, letters_max = 120): string {
  if (message.body === null || message.body === undefined) return message.body_base64 ? "bytes" : "";
  return message.body.slice(0, letters_max * 2).replace(/\s+/g, " ").trim().slice(0, letters_max);
}

/** How many bytes a body has; `whole` counts if only a part of it is here. */
export function sizeOf(message: { body?: string | null; body_base64?: string | null; body_bytes?: number | null }): number {
  if (message.body_bytes) return message.body_bytes;
  if (message.body !== null && message.body !== undefined) return new TextEncoder().encode(message.body).length;
  return Math.floor(((message.body_base64 ?? "").replace(/=+$/, "").length * 3) / 4);
}
