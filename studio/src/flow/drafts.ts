// What was changed and not applied yet lies in this browser, a draft for each flow.
import { readDocument, writeDocument, type Doc } from "./model/document";

export interface Draft {
  doc: Doc;
  /** The document from which it began, and its ETag; null for a flow that is new. */
  base: Doc | null;
  etag: string | null;
  at_ms: number;
}

const PREFIX = "hivewire.draft.";

function read(text: string | null): Draft | null {
  try {
    const kept = JSON.parse(text ?? "null") as { doc?: Record<string, unknown>; base?: Record<string, unknown> | null; etag?: string | null; at_ms?: number } | null;
    if (!kept?.doc) return null;
    return { doc: readDocument(kept.doc), base: kept.base ? readDocument(kept.base) : null, etag: kept.etag ?? null, at_ms: kept.at_ms ?? 0 };
  } catch {
    return null;
  }
}

export const drafts = {
  get(flow: string): Draft | null {
    return read(localStorage.getItem(PREFIX + flow));
  },
  /** False if the browser keeps nothing more. */
  keep(flow: string, draft: Draft): boolean {
    try {
      localStorage.setItem(PREFIX + flow, JSON.stringify({ ...draft, doc: writeDocument(draft.doc), base: draft.base && writeDocument(draft.base) }));
      return true;
    } catch {
      return false;
    }
  },
  drop(flow: string): void {
    localStorage.removeItem(PREFIX + flow);
  },
  all(): { flow: string; draft: Draft }[] {
    const found: { flow: string; draft: Draft }[] = [];
    for (let index = 0; index < localStorage.length; index++) {
      const key = localStorage.key(index);
      const draft = key?.startsWith(PREFIX) ? read(localStorage.getItem(key)) : null;
      if (key && draft) found.push({ flow: key.slice(PREFIX.length), draft });
    }
    return found.sort((a, b) => a.flow.localeCompare(b.flow));
  },
};

const ENDS = "hivewire.ends.";

/** Where ends were put: documents have no place for that. */
export const endPlaces = {
  get(flow: string): Map<string, { x: number; y: number }> {
    try {
      return new Map(Object.entries(JSON.parse(localStorage.getItem(ENDS + flow) ?? "{}") as Record<string, { x: number; y: number }>));
    } catch {
      return new Map();
    }
  },
  keep(flow: string, places: ReadonlyMap<string, { x: number; y: number }>): void {
    try {
      localStorage.setItem(ENDS + flow, JSON.stringify(Object.fromEntries(places)));
    } catch {
      // They find a place anew the next time.
    }
  },
};
