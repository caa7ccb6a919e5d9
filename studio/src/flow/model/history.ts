// What was done to a document, so that it can be undone exactly: documents are never changed in place, so the ones
// before are kept as they were.
import type { Doc } from "./document";

export interface Done {
  /** What was done, for people: "words added". */
  label: string;
  before: Doc;
  after: Doc;
  /** Edits of the same field that follow each other soon are one. */
  merge: string | null;
  at_ms: number;
}

const DONE_MAX = 500;
const MERGE_MS = 1_500;

export interface History {
  readonly doc: Doc;
  readonly done: readonly Done[];
  readonly undone: readonly Done[];
}

export function historyOf(doc: Doc): History {
  return { doc, done: [], undone: [] };
}

export function perform(history: History, label: string, after: Doc, merge: string | null = null, now_ms = 0): History {
  if (after === history.doc) return history;
  const last = history.done.at(-1);
  const joins = last && merge !== null && last.merge === merge && now_ms - last.at_ms < MERGE_MS && history.undone.length === 0;
  const before = joins ? last.before : history.doc;
  const rest = joins ? history.done.slice(0, -1) : history.done;
  return { doc: after, done: [...rest, { label, before, after, merge, at_ms: now_ms }].slice(-DONE_MAX), undone: [] };
}

export function undo(history: History): History {
  const last = history.done.at(-1);
  if (!last) return history;
  return { doc: last.before, done: history.done.slice(0, -1), undone: [...history.undone, last] };
}

export function redo(history: History): History {
  const next = history.undone.at(-1);
  if (!next) return history;
  // Nothing joins what was done again.
  return { doc: next.after, done: [...history.done, { ...next, merge: null }], undone: history.undone.slice(0, -1) };
}
