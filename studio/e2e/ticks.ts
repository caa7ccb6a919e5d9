// A flow that always has something to do, and little of it.
import type { Doc } from "./studio";

export function ticks(flow: string, per_second = 20): Doc {
  return {
    flow,
    stages: {
      source: { plugin: "generator", parameters: { per_second }, outputs: { out: "double" } },
      double: { plugin: "map", parameters: { to: "{'n': event.n, 'twice': event.n * 2}" }, outputs: { out: "last" } },
      last: { plugin: "to-file", parameters: { file: `${flow}.txt` } },
    },
  };
}
