// The last values of what is watched, for charts: bounded, and only of what somebody looks at.

export class Ring {
  #values: Float64Array;
  #next = 0;
  #count = 0;

  constructor(readonly points_max: number) {
    this.#values = new Float64Array(points_max);
  }

  push(value: number): void {
    this.#values[this.#next] = value;
    this.#next = (this.#next + 1) % this.points_max;
    this.#count = Math.min(this.#count + 1, this.points_max);
  }

  get length(): number {
    return this.#count;
  }

  /** Oldest first. */
  toArray(): number[] {
    const first = (this.#next - this.#count + this.points_max) % this.points_max;
    return Array.from({ length: this.#count }, (_, index) => this.#values[(first + index) % this.points_max] ?? NaN);
  }
}

/** Series of one thing, which share their times. A value that was not known is NaN, a gap in the chart. */
export class History {
  readonly #times: Ring;
  readonly #series = new Map<string, Ring>();

  constructor(readonly points_max: number) {
    this.#times = new Ring(points_max);
  }

  push(at_ms: number, values: Record<string, number | null | undefined>): void {
    for (const name of Object.keys(values)) {
      if (this.#series.has(name)) continue;
      const ring = new Ring(this.points_max);
      for (let known = 0; known < this.#times.length; known++) ring.push(NaN);
      this.#series.set(name, ring);
    }
    this.#times.push(at_ms);
    for (const [name, ring] of this.#series) ring.push(values[name] ?? NaN);
  }

  get times(): number[] {
    return this.#times.toArray();
  }

  series(name: string): number[] {
    return this.#series.get(name)?.toArray() ?? [];
  }
}
