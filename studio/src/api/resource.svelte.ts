// What a page has fetched, with what it needs to show meanwhile: the value, whether it is being fetched, and
// what went wrong last. The last good value stays while a newer one cannot be had.
import { ApiProblem } from "./problem";

export interface ResourceOptions {
  /** Fetches again after this time, while the page can be seen. */
  every_ms?: number;
}

export class Resource<T> {
  value = $state.raw<T | undefined>(undefined);
  problem = $state.raw<ApiProblem | null>(null);
  loading = $state(true);
  /** When the value came. */
  at_ms = $state(0);
  #fetch: (signal: AbortSignal) => Promise<T>;
  #under_way: AbortController | null = null;

  constructor(fetch: (signal: AbortSignal) => Promise<T>) {
    this.#fetch = fetch;
  }

  reload = async (): Promise<void> => {
    this.#under_way?.abort();
    const mine = new AbortController();
    this.#under_way = mine;
    this.loading = true;
    try {
      const value = await this.#fetch(mine.signal);
      if (mine.signal.aborted) return;
      this.value = value;
      this.problem = null;
      this.at_ms = Date.now();
    } catch (thrown) {
      if (!mine.signal.aborted) this.problem = ApiProblem.of(thrown);
    } finally {
      if (this.#under_way === mine) this.loading = false;
    }
  };

  stop(): void {
    this.#under_way?.abort();
  }
}

/**
 * Fetches while the component lives, and again whenever something changes that `fetch` reads before its first
 * `await`. Call it while a component is made.
 */
export function resource<T>(fetch: (signal: AbortSignal) => Promise<T>, options: ResourceOptions = {}): Resource<T> {
  const made = new Resource(fetch);
  $effect(() => {
    void made.reload();
    const every_ms = options.every_ms;
    const timer = every_ms ? setInterval(() => !document.hidden && !made.loading && void made.reload(), every_ms) : 0;
    return () => {
      clearInterval(timer);
      made.stop();
    };
  });
  return made;
}
