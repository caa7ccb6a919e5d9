// The last rates of many queues, for the small lines in lists. Bounded for each, and only of those that are there.
import { Ring } from "../live/history";

const POINTS_MAX = 40;

export class Rates {
  #rings = new Map<string, Ring>();

  /** Takes one point of all; what is not among them is forgotten. */
  push(values: Iterable<readonly [name: string, value: number]>): void {
    const before = this.#rings;
    this.#rings = new Map();
    for (const [name, value] of values) {
      const ring = before.get(name) ?? new Ring(POINTS_MAX);
      ring.push(value);
      this.#rings.set(name, ring);
    }
  }

  of(name: string): number[] {
    return this.#rings.get(name)?.toArray() ?? [];
  }
}
