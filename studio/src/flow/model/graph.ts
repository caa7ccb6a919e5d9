// The document as nodes and edges: stages, and small ends for whatever else outputs lead to.
import { fullTarget, placeOf, type Doc, type Place } from "./document";

export interface GraphEdge {
  /** `words.out>count`. */
  id: string;
  stage: string;
  output: string;
  target: string;
}

export interface GraphEnd {
  /** The target itself, such as `queue:orders`. */
  target: string;
  place: Exclude<Place, "stage">;
  /** Stages that lead there. */
  from: string[];
}

export interface Graph {
  edges: GraphEdge[];
  ends: GraphEnd[];
}

export function edgeId(stage: string, output: string, target: string): string {
  return `${stage}.${output}>${target}`;
}

export function edgesOf(doc: Doc): GraphEdge[] {
  const edges: GraphEdge[] = [];
  for (const [stage, { outputs }] of Object.entries(doc.stages)) {
    for (const [output, targets] of Object.entries(outputs ?? {})) {
      for (const target of targets) edges.push({ id: edgeId(stage, output, target), stage, output, target });
    }
  }
  return edges;
}

export function graphOf(doc: Doc): Graph {
  const edges = edgesOf(doc);
  const ends = new Map<string, GraphEnd>();
  for (const { stage, target } of edges) {
    const place = placeOf(doc, target);
    if (place === "stage") continue;
    const end = ends.get(target) ?? { target, place, from: [] };
    if (!end.from.includes(stage)) end.from.push(stage);
    ends.set(target, end);
  }
  return { edges, ends: [...ends.values()] };
}

/** The edge as live numbers name it. */
export function liveKey(flow: string, edge: Pick<GraphEdge, "stage" | "output" | "target">): string {
  return `${flow}/${edge.stage}.${edge.output}>${fullTarget(flow, edge.target)}`;
}

/** What the target is called on the canvas. */
export function endLabel(target: string): string {
  return target.replace(/^(queue|topic):/, "");
}
