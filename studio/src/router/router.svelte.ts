// Which page is shown. The address is the only truth: pages read `router.query` and change it with `setQuery`.
import { href, readPlace } from "./match";

class Router {
  #place = $state.raw(readPlace(""));
  /** Asked before the page is left; false keeps it. */
  #guards = new Set<() => Promise<boolean> | boolean>();
  #shown = "";

  get path(): string {
    return this.#place.path;
  }

  get query(): Record<string, string> {
    return this.#place.query;
  }

  begin(): void {
    this.#read();
    window.addEventListener("hashchange", () => void this.#changed());
    window.addEventListener("beforeunload", (event) => {
      if (this.#guards.size > 0) event.preventDefault();
    });
  }

  #read(): void {
    this.#shown = location.hash;
    this.#place = readPlace(location.hash);
  }

  async #changed(): Promise<void> {
    if (location.hash === this.#shown) return;
    const leaves = readPlace(location.hash).path !== this.#place.path;
    const wanted = location.hash;
    if (leaves && this.#guards.size > 0) {
      // Asked while the old page is still shown under its own address.
      history.replaceState(null, "", this.#shown || "#/");
      for (const guard of [...this.#guards]) if (!(await guard())) return;
      this.#guards.clear();
      history.replaceState(null, "", wanted);
    }
    this.#read();
  }

  /** Goes to an address made by `href`. */
  go(address: string): void {
    location.hash = address;
  }

  /** Changes the query of this page, without a step in the history of the browser. Empty values are left out. */
  setQuery(change: Record<string, string | undefined>): void {
    const address = href(this.path, {}, { ...this.query, ...change });
    history.replaceState(null, "", address);
    this.#read();
  }

  /** Asks before this page is left, for as long as the answer has not been given back. */
  guard(ask: () => Promise<boolean> | boolean): () => void {
    this.#guards.add(ask);
    return () => this.#guards.delete(ask);
  }
}

export const router = new Router();
export { href } from "./match";
