// A flow as a small drawing: where its stages stand, column by column, and which lines join them.

export interface Drawn {
  name: string;
  kind: "provider" | "stage" | "keyed" | "outside";
  x: number;
  y: number;
}

export interface Drawing {
  nodes: Drawn[];
  /** Indexes into `nodes`. A line that leads back is drawn as an arc. */
  lines: { from: number; to: number; back: boolean }[];
}

interface Stage {
  outputs?: Record<string, string | string[]> | undefined;
  to?: string | string[] | undefined;
  key?: unknown;
}

const NODES_MAX = 40;

/** All places that the outputs of a stage lead to, each once. */
export function targetsOf(stage: Stage): string[] {
  return [...new Set([stage.to ?? [], ...Object.values(stage.outputs ?? {})].flat())];
}

/** Which lines lead back to where a walk from the first stages has come through. */
function backLines(next: number[][]): Set<string> {
  const state = new Array<0 | 1 | 2>(next.length).fill(0);
  const back = new Set<string>();
  const visit = (at: number) => {
    state[at] = 1;
    for (const to of next[at] ?? []) {
      if (state[to] === 1) back.add(`${at} ${to}`);
      else if (state[to] === 0) visit(to);
    }
    state[at] = 2;
  };
  const inner = new Set(next.flat());
  next.forEach((_, at) => !inner.has(at) && state[at] === 0 && visit(at));
  next.forEach((_, at) => state[at] === 0 && visit(at));
  return back;
}

/** Lays a document out within 0…1 both ways. */
export function draw(document: { flow?: string; stages?: Record<string, Stage> }): Drawing {
  const stages = Object.entries(document.stages ?? {}).slice(0, NODES_MAX);
  const names = stages.map(([name]) => name);
  const index = new Map(names.map((name, at) => [name, at]));
  const next: number[][] = names.map(() => []);
  const own = `${document.flow}/`;
  stages.forEach(([, stage], from) => {
    for (const target of targetsOf(stage)) {
      const name = target.startsWith(own) ? target.slice(own.length) : target;
      let to = index.get(name);
      if (to === undefined) {
        if (names.length >= NODES_MAX) continue;
        to = names.push(name) - 1;
        index.set(name, to);
        next.push([]);
      }
      if (!next[from]?.includes(to)) next[from]?.push(to);
    }
  });

  const back = backLines(next);
  const column = names.map(() => 0);
  // As many rounds as the longest path can have.
  for (let round = 0; round < names.length; round++) {
    let moved = false;
    next.forEach((all, from) => all.forEach((to) => {
      const least = (column[from] ?? 0) + 1;
      if (back.has(`${from} ${to}`) || (column[to] ?? 0) >= least) return;
      column[to] = least;
      moved = true;
    }));
    if (!moved) break;
  }
  const width = Math.max(0, ...column);
  const rows = Array.from({ length: width + 1 }, (_, at) => names.map((_, node) => node).filter((node) => column[node] === at));
  const y = names.map(() => 0.5);
  for (const row of rows) {
    // Near to where its lines come from.
    const wish = (node: number) => {
      const before = next.flatMap((all, from) => (all.includes(node) && (column[from] ?? 0) < (column[node] ?? 0) ? [y[from] ?? 0.5] : []));
      return before.length ? before.reduce((sum, one) => sum + one, 0) / before.length : 0.5;
    };
    const order = row.map((node) => ({ node, wish: wish(node) })).sort((a, b) => a.wish - b.wish);
    order.forEach(({ node }, at) => (y[node] = (at + 1) / (order.length + 1)));
  }
  const entered = new Set(next.flat());
  return {
    nodes: names.map((name, at) => {
      const stage = stages[at]?.[1];
      const kind = !stage ? "outside" : !entered.has(at) ? "provider" : stage.key ? "keyed" : "stage";
      return { name, kind, x: width ? (column[at] ?? 0) / width : 0.5, y: y[at] ?? 0.5 };
    }),
    lines: next.flatMap((all, from) => all.map((to) => ({ from, to, back: back.has(`${from} ${to}`) }))),
  };
}
