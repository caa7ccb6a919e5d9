// Keys that work everywhere. Pages add their own while they are shown, and the help lists them all.
import { SvelteMap } from "svelte/reactivity";
import { pages } from "../pages";
import { router } from "../router/router.svelte";
import { palette } from "./palette.svelte";

export interface Shortcut {
  /** Such as `Ctrl+S`, `n` or `Delete`. */
  keys: string;
  title: string;
  /** Left out if something else does it, and only the help is to name it. */
  act?: (event: KeyboardEvent) => void;
}

const GO_MS = 1_200;

/** `Ctrl` is also the command key of Macs. */
export function fits(keys: string, event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "shiftKey" | "altKey">): boolean {
  const parts = keys.split("+");
  const key = parts.pop() ?? "";
  const letter = key.length === 1;
  return (
    event.key.toLowerCase() === key.toLowerCase() &&
    parts.includes("Ctrl") === (event.ctrlKey || event.metaKey) &&
    parts.includes("Alt") === event.altKey &&
    (parts.includes("Shift") === event.shiftKey || (letter && !parts.includes("Ctrl")))
  );
}

function writes(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement | null;
  return target?.closest("input, textarea, select, [contenteditable]") != null;
}

class Shortcuts {
  help = $state(false);
  readonly own = new SvelteMap<string, Shortcut>();
  #went_at = -GO_MS;

  readonly everywhere: Shortcut[] = [
    { keys: "Ctrl+k", title: "Jump to a page, flow, stage or queue", act: () => (palette.open = true) },
    { keys: "/", title: "Search in this page", act: () => document.querySelector<HTMLInputElement>("main [data-search]")?.focus() },
    { keys: "?", title: "Show these shortcuts", act: () => (this.help = true) },
  ];

  /** Adds keys of a page, until what is given back is called: `$effect(() => shortcuts.add([…]))`. */
  add(given: Shortcut[]): () => void {
    for (const one of given) this.own.set(one.keys, one);
    return () => {
      // What came later under the same keys stays.
      for (const one of given) if (this.own.get(one.keys) === one) this.own.delete(one.keys);
    };
  }

  pressed(event: KeyboardEvent): void {
    if (event.defaultPrevented || event.isComposing) return;
    const modal = document.querySelector("dialog[open]") !== null;
    const chord = event.ctrlKey || event.metaKey || event.altKey;
    if (modal || (writes(event) && !chord)) return;
    if (this.#goes(event)) return event.preventDefault();
    const found = [...this.own.values(), ...this.everywhere].find(({ keys, act }) => act && fits(keys, event));
    if (!found?.act) return;
    event.preventDefault();
    found.act(event);
  }

  /** `g` and the letter of a page. */
  #goes(event: KeyboardEvent): boolean {
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    const soon = event.timeStamp - this.#went_at < GO_MS;
    this.#went_at = event.key === "g" ? event.timeStamp : -GO_MS;
    const page = soon ? pages.find(({ shortcut }) => shortcut === event.key) : undefined;
    if (page) router.go(`#${page.pattern}`);
    return page !== undefined;
  }
}

export const shortcuts = new Shortcuts();
