// Whether the command palette is open, and what pages add to it.
import { SvelteMap } from "svelte/reactivity";
import type { IconName } from "../ui/icons";

export interface Command {
  title: string;
  /** What it is: page, flow, stage, queue, action. */
  kind: string;
  icon: IconName;
  act: () => void;
}

class Palette {
  open = $state(false);
  readonly own = new SvelteMap<string, Command>();

  /** Adds commands of a page, until what is given back is called. */
  add(given: Command[]): () => void {
    for (const one of given) this.own.set(one.title, one);
    return () => {
      for (const one of given) this.own.delete(one.title);
    };
  }
}

export const palette = new Palette();
