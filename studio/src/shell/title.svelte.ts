// What the tab of the browser says: where one is, and whether something is wrong.
import { overview } from "./overview.svelte";

class Title {
  page = $state("Home");

  get text(): string {
    const count = overview.firing.length;
    return `${count > 0 ? `(${count}) ` : ""}${this.page} · Hivewire`;
  }
}

export const title = new Title();
