// Chance that a test can repeat.
export function chance(seed: number): { below: (most: number) => number; of: <T>(list: readonly T[]) => T | undefined } {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  const below = (most: number) => Math.floor(next() * most);
  return { below, of: (list) => list[below(list.length)] };
}
