// Which commands fit what was typed, best first.

/** How well the text fits: higher is better, 0 is not at all. All words must be in it. */
export function fit(text: string, wanted: string): number {
  const lower = text.toLowerCase();
  let sum = 1;
  for (const word of wanted.toLowerCase().split(/\s+/).filter(Boolean)) {
    const at = lower.indexOf(word);
    if (at < 0) return 0;
    const begins = at === 0 || /[^\p{L}\p{N}]/u.test(lower[at - 1] ?? "");
    sum += (begins ? 20 : 5) + (at === 0 ? 10 : 0) + (lower === word ? 20 : 0);
  }
  return sum - Math.min(text.length, 60) / 100;
}

export function best<T extends { title: string }>(all: readonly T[], wanted: string, most: number): T[] {
  return all
    .map((one, index) => ({ one, index, fits: fit(one.title, wanted) }))
    .filter(({ fits }) => fits > 0)
    .sort((a, b) => (wanted.trim() ? b.fits - a.fits : 0) || a.index - b.index)
    .slice(0, most)
    .map(({ one }) => one);
}
