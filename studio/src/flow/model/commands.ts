// Every edit of a document: plain functions from one document to the next. What does not change stays the same object.
import { freshName, same, type Doc, type Position, type Stage } from "./document";
import { edgesOf, type GraphEdge } from "./graph";
import { withRoutes } from "./http";

type Outputs = Record<string, readonly string[]>;
export type EdgeEnds = Pick<GraphEdge, "stage" | "output" | "target">;

function withStages(doc: Doc, stages: Record<string, Stage>): Doc {
  return { ...doc, stages };
}

/** The stage with a field changed, or without it if the value is undefined. */
function withField<K extends keyof Stage>(stage: Stage, field: K, value: Stage[K] | undefined): Stage {
  const made = { ...stage };
  if (value === undefined) delete made[field];
  else made[field] = value;
  return made;
}

function withOutputs(stage: Stage, outputs: Outputs): Stage {
  const kept = Object.fromEntries(Object.entries(outputs).filter(([, targets]) => targets.length > 0));
  return withField(stage, "outputs", Object.keys(kept).length > 0 ? kept : undefined);
}

/** All stages with their targets changed; null takes an edge out. */
function mapTargets(doc: Doc, change: (target: string, stage: string, output: string) => string | null): Doc {
  let touched = false;
  const stages: Record<string, Stage> = {};
  for (const [name, stage] of Object.entries(doc.stages)) {
    let own = false;
    const outputs: Outputs = {};
    for (const [output, targets] of Object.entries(stage.outputs ?? {})) {
      const next: string[] = [];
      for (const target of targets) {
        const to = change(target, name, output);
        if (to !== target) own = true;
        if (to !== null && !next.includes(to)) next.push(to);
      }
      outputs[output] = next;
    }
    stages[name] = own ? withOutputs(stage, outputs) : stage;
    touched ||= own;
  }
  return touched ? withStages(doc, stages) : doc;
}

export function addStage(doc: Doc, wish: string, stage: Stage): { doc: Doc; name: string } {
  const name = freshName(Object.keys(doc.stages), wish);
  return { doc: withStages(doc, { ...doc.stages, [name]: stage }), name };
}

/** Takes stages out, with all edges from and to them, and the routes that lead there. */
export function removeStages(doc: Doc, names: readonly string[]): Doc {
  const gone = new Set(names.filter((name) => name in doc.stages));
  if (gone.size === 0) return doc;
  const left = withStages(doc, Object.fromEntries(Object.entries(doc.stages).filter(([name]) => !gone.has(name))));
  const routed = doc.http ? withRoutes(left, doc.http.filter(({ stage }) => !gone.has(stage))) : left;
  return mapTargets(routed, (target) => (gone.has(target) ? null : target));
}

/** Gives a stage another name; all that leads to it follows. */
export function renameStage(doc: Doc, from: string, to: string): Doc {
  if (from === to || !(from in doc.stages) || to in doc.stages) return doc;
  const stages = Object.fromEntries(Object.entries(doc.stages).map(([name, stage]) => [name === from ? to : name, stage]));
  const renamed = withStages(doc, stages);
  const routed = doc.http ? withRoutes(renamed, doc.http.map((route) => (route.stage === from ? { ...route, stage: to } : route))) : renamed;
  return mapTargets(routed, (target) => (target === from ? to : target));
}

export function setField<K extends keyof Stage>(doc: Doc, name: string, field: K, value: Stage[K] | undefined): Doc {
  const stage = doc.stages[name];
  if (!stage || same(stage[field], value)) return doc;
  return withStages(doc, { ...doc.stages, [name]: withField(stage, field, value) });
}

/** Puts a whole stage in place of another of the same name. */
export function setStage(doc: Doc, name: string, stage: Stage): Doc {
  return same(doc.stages[name], stage) ? doc : withStages(doc, { ...doc.stages, [name]: stage });
}

export function setFlowField(doc: Doc, field: "description" | "delivery" | "flow", value: string | undefined): Doc {
  if (doc[field] === value) return doc;
  const made: Record<string, unknown> = { ...doc };
  if (value === undefined || value === "") delete made[field];
  else made[field] = value;
  return made as unknown as Doc;
}

export function connect(doc: Doc, { stage, output, target }: EdgeEnds): Doc {
  const from = doc.stages[stage];
  const targets = from?.outputs?.[output] ?? [];
  if (!from || targets.includes(target)) return doc;
  return withStages(doc, { ...doc.stages, [stage]: withOutputs(from, { ...from.outputs, [output]: [...targets, target] }) });
}

export function disconnect(doc: Doc, edges: readonly EdgeEnds[]): Doc {
  const gone = new Set(edges.map(({ stage, output, target }) => `${stage}.${output}>${target}`));
  return mapTargets(doc, (target, stage, output) => (gone.has(`${stage}.${output}>${target}`) ? null : target));
}

/** Gives an edge another beginning or end. */
export function reconnect(doc: Doc, before: EdgeEnds, after: EdgeEnds): Doc {
  if (same(before, after)) return doc;
  return connect(disconnect(doc, [before]), after);
}

/** Gives what is no stage, such as a queue, another name: all edges to it follow. */
export function renameTarget(doc: Doc, from: string, to: string): Doc {
  return mapTargets(doc, (target) => (target === from ? to : target));
}

/** Takes out what is no stage, with all edges to it. */
export function removeTarget(doc: Doc, gone: string): Doc {
  return mapTargets(doc, (target) => (target === gone ? null : target));
}

export function moveStages(doc: Doc, positions: ReadonlyMap<string, Position>): Doc {
  let touched = false;
  const stages = { ...doc.stages } as Record<string, Stage>;
  for (const [name, { x, y }] of positions) {
    const stage = stages[name];
    if (!stage || (stage.position?.x === x && stage.position.y === y)) continue;
    stages[name] = { ...stage, position: { x, y } };
    touched = true;
  }
  return touched ? withStages(doc, stages) : doc;
}

/** Puts a stage into the middle of an edge: what came over the edge goes through the stage. */
export function insertInto(doc: Doc, edge: EdgeEnds, name: string, output: string): Doc {
  return connect(reconnect(doc, edge, { ...edge, target: name }), { stage: name, output, target: edge.target });
}

/** All edges that begin or end at the stage. */
export function edgesAt(doc: Doc, name: string): GraphEdge[] {
  return edgesOf(doc).filter(({ stage, target }) => stage === name || target === name);
}
