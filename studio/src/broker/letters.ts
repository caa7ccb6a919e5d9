// Dead letters: which are meant, and what there is to choose from.
import type { DeadLetter } from "../api/types";

export interface LetterFilter {
  /** The queue or topic that they came from; the node looks for it. */
  from: string;
  reason: string;
  text: string;
}

/** What the filter says beyond `from`, which only the studio can look for. */
export function fits(letter: DeadLetter, { from, reason, text }: LetterFilter): boolean {
  if (from && letter.from !== from) return false;
  if (reason && (letter.reason ?? "") !== reason) return false;
  if (!text) return true;
  const wanted = text.toLowerCase();
  return [letter.from, letter.reason, letter.body].some((part) => part?.toLowerCase().includes(wanted));
}

/** Whether the node alone can do what is asked, in one request. */
export const isPlain = ({ reason, text }: LetterFilter) => !reason && !text;

const CHOICES_MAX = 50;

/** Each value with how often it comes, the most frequent first. */
export function choices(letters: readonly DeadLetter[], of: (letter: DeadLetter) => string | null | undefined): { value: string; count: number }[] {
  const counts = new Map<string, number>();
  for (const letter of letters) {
    const value = of(letter);
    if (value) counts.set(value, (counts.get(value) ?? 0) + 1);
  }
  return [...counts].map(([value, count]) => ({ value, count })).sort((a, b) => b.count - a.count).slice(0, CHOICES_MAX);
}
