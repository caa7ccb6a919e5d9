// What the fields of one form share.
import { getContext, setContext } from "svelte";
import { SvelteMap, SvelteSet } from "svelte/reactivity";
import type { Schema } from "./schema";

const KEY = Symbol("form");

export class Form {
  root = $state.raw<Schema>({});
  problems = $state.raw(new Map<string, string>());
  /** What the node said: shown at once. */
  said = $state.raw(new Map<string, string>());
  showAll = $state(false);
  disabled = $state(false);
  /** Fields that were left once. */
  readonly touched = new SvelteSet<string>();
  /** Text areas whose JSON cannot be read, which is why the value does not have it. */
  readonly broken = new SvelteMap<string, string>();

  problemAt(path: string): string | undefined {
    const problem = this.problems.get(path);
    return problem && (this.showAll || this.touched.has(path) || this.said.has(path) || this.broken.has(path)) ? problem : undefined;
  }
}

export function provideForm(): Form {
  return setContext(KEY, new Form());
}

export function useForm(): Form {
  return getContext<Form>(KEY);
}
