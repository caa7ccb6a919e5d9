// A flame graph out of folded stacks: one line for each kind, `thread;outer;inner 12`.

export interface Frame {
  name: string;
  /** From the bottom, 0. */
  depth: number;
  /** Where it begins and how wide it is, of the whole picture. */
  at: number;
  width: number;
  count: number;
}

interface Tree {
  count: number;
  inner: Map<string, Tree>;
}

const DEPTH_MAX = 200;
const FRAMES_MAX = 4_000;

function treeOf(folded: string): Tree {
  const root: Tree = { count: 0, inner: new Map() };
  for (const line of folded.split("\n")) {
    const found = /^(.*) (\d+)$/.exec(line.trim());
    if (!found) continue;
    const count = Number(found[2]);
    root.count += count;
    let at = root;
    for (const name of (found[1] ?? "").split(";").slice(0, DEPTH_MAX)) {
      let next = at.inner.get(name);
      if (!next) at.inner.set(name, (next = { count: 0, inner: new Map() }));
      next.count += count;
      at = next;
    }
  }
  return root;
}

/**
 * The frames above those named by `path`, which itself takes the whole width. The widest come first into the
 * bound; frames narrower than `least` of the width are left out.
 */
export function frames(folded: string, path: readonly string[] = [], least = 0.001): { frames: Frame[]; total: number; depth: number } {
  const root = treeOf(folded);
  const found: Frame[] = [{ name: "all", depth: 0, at: 0, width: 1, count: root.count }];
  let top = root;
  for (const name of path) {
    const next = top.inner.get(name);
    if (!next) break;
    top = next;
    found.push({ name, depth: found.length, at: 0, width: 1, count: next.count });
  }
  let row: { tree: Tree; at: number }[] = [{ tree: top, at: 0 }];
  let depth = found.length;
  while (row.length > 0 && found.length < FRAMES_MAX) {
    const above: typeof row = [];
    for (const { tree, at } of row) {
      let from = at;
      for (const [name, inner] of [...tree.inner].sort(([a], [b]) => (a < b ? -1 : 1))) {
        const width = inner.count / (top.count || 1);
        if (width >= least) {
          found.push({ name, depth, at: from, width, count: inner.count });
          above.push({ tree: inner, at: from });
        }
        from += width;
      }
    }
    row = above;
    if (above.length > 0) depth++;
  }
  return { frames: found, total: root.count, depth };
}

/** Functions with most time of their own, for reading instead of looking. */
export function heaviest(folded: string, count = 12): { name: string; share: number }[] {
  const own = new Map<string, number>();
  let total = 0;
  for (const line of folded.split("\n")) {
    const found = /^(.*) (\d+)$/.exec(line.trim());
    if (!found) continue;
    const name = (found[1] ?? "").split(";").at(-1) ?? "";
    total += Number(found[2]);
    own.set(name, (own.get(name) ?? 0) + Number(found[2]));
  }
  return [...own].sort(([, a], [, b]) => b - a).slice(0, count).map(([name, samples]) => ({ name, share: samples / (total || 1) }));
}
