// The document as Svelte Flow wants it. A node that shows the same as before stays the same object, and is not drawn anew.
import { Position, type Edge, type Node } from "@xyflow/svelte";
import type { PalettePlugin } from "../api/types";
import { plural } from "../format/numbers";
import type { Editor } from "./editor.svelte";
import type { Mark } from "./model/diff";
import { fullTarget, same, type Place, type Stage } from "./model/document";
import { END_HEIGHT, END_WIDTH, INPUT_Y, nodeHeight, NODE_WIDTH, outputY } from "./model/geometry";
import { edgesOf, liveKey, type GraphEdge } from "./model/graph";
import { outputsOf, type OutputShown } from "./model/plugins";

export interface StageData extends Record<string, unknown> {
  name: string;
  address: string;
  stage: Readonly<Stage>;
  plugin: PalettePlugin | undefined;
  outputs: OutputShown[];
  mark: Mark | undefined;
  /** The requests that it answers. */
  routes: readonly string[];
  /** Taken out here, but still running. */
  ghost: boolean;
  runs: boolean;
}

export interface EndData extends Record<string, unknown> {
  target: string;
  place: Exclude<Place, "stage">;
  loose: boolean;
  runs: boolean;
}

export interface EdgeData extends Record<string, unknown> {
  edge: GraphEdge;
  key: string;
  full_target: string;
  mark: "added" | "removed" | undefined;
  runs: boolean;
}

export type FlowNode = Node<StageData, "stage"> | Node<EndData, "end">;
export type FlowEdgeShown = Edge<EdgeData, "flow">;

export const GHOST = "ghost:";

function handles(provider: boolean, outputs: OutputShown[]) {
  const size = { width: 12, height: 12 };
  return [
    ...(provider ? [] : [{ id: "in", type: "target" as const, position: Position.Left, x: -6, y: INPUT_Y - 6, ...size }]),
    ...outputs.map(({ name }, index) => ({ id: name, type: "source" as const, position: Position.Right, x: NODE_WIDTH - 6, y: outputY(index, outputs.length) - 6, ...size })),
  ];
}

export function nodesFor(editor: Editor, before: readonly FlowNode[], ghosts: boolean): FlowNode[] {
  const known = new Map(before.map((node) => [node.id, node]));
  const { doc, places, marks } = editor;
  // What was just added may be selected already.
  const selected = new Set([...editor.selection.stages, ...editor.selection.ends]);
  const stageNode = (name: string, stage: Readonly<Stage>, at: { x: number; y: number }, ghost: boolean): FlowNode => {
    const id = ghost ? GHOST + name : name;
    const plugin = editor.plugins.get(stage.plugin) ?? (ghost ? undefined : editor.plugin(name));
    const old = known.get(id) as Node<StageData, "stage"> | undefined;
    const mark = ghost ? "removed" : marks.get(name);
    const runs = !ghost && editor.isRunning(name);
    const routes = ghost ? [] : (editor.routes.get(name) ?? []).map(({ route }) => route.route);
    if (old && same(old.data.routes, routes) && old.data.stage === stage && old.data.plugin === plugin && old.data.mark === mark && old.data.runs === runs && old.position.x === at.x && old.position.y === at.y) return old;
    const outputs = outputsOf(stage, plugin);
    const provider = plugin?.kind === "provider";
    const height = nodeHeight(outputs.length);
    return {
      id, type: "stage", position: at, width: NODE_WIDTH, height, measured: { width: NODE_WIDTH, height }, handles: handles(provider, outputs), selected: old?.selected ?? (!ghost && selected.has(name)),
      draggable: !ghost, selectable: !ghost, connectable: !ghost, focusable: !ghost,
      ariaLabel: ghost ? `${name}, goes when this is applied` : `Stage ${name}, ${stage.plugin}${provider ? ", provider" : ""}${routes.length > 0 ? `, answers ${plural(routes.length, "route")} over HTTP` : ""}`,
      data: { name, address: `${doc.flow}/${name}`, stage, plugin, outputs, mark, routes, ghost, runs },
    };
  };
  const made: FlowNode[] = [];
  for (const [name, stage] of Object.entries(doc.stages)) made.push(stageNode(name, stage, places.stages.get(name) ?? { x: 0, y: 0 }, false));
  if (ghosts && editor.base) {
    for (const [name, stage] of Object.entries(editor.base.stages)) if (!(name in doc.stages) && stage.position) made.push(stageNode(name, stage, stage.position, true));
  }
  const ends = [...editor.graph.ends.map((end) => ({ ...end, loose: false })), ...editor.loose.map((end) => ({ ...end, loose: true }))];
  for (const { target, place, loose } of ends) {
    const at = places.ends.get(target) ?? { x: 0, y: 0 };
    const old = known.get(target) as Node<EndData, "end"> | undefined;
    if (old && old.data.place === place && old.data.loose === loose && old.data.runs === editor.runs && old.position.x === at.x && old.position.y === at.y) {
      made.push(old);
      continue;
    }
    made.push({
      id: target, type: "end", position: at, width: END_WIDTH, height: END_HEIGHT, measured: { width: END_WIDTH, height: END_HEIGHT }, selected: old?.selected ?? selected.has(target),
      handles: [{ id: "in", type: "target", position: Position.Left, x: -6, y: END_HEIGHT / 2 - 6, width: 12, height: 12 }],
      ariaLabel: `${place === "nowhere" ? "Unknown stage" : place} ${target}`, data: { target, place, loose, runs: editor.runs },
    });
  }
  return made.length === before.length && made.every((node, index) => node === before[index]) ? (before as FlowNode[]) : made;
}

export function edgesFor(editor: Editor, before: readonly FlowEdgeShown[], focusable: boolean): FlowEdgeShown[] {
  const known = new Map(before.map((edge) => [edge.id, edge]));
  const { doc, base } = editor;
  const running = new Set(base ? edgesOf(base).map(({ id }) => id) : []);
  const made = editor.graph.edges.map((edge): FlowEdgeShown => {
    const old = known.get(edge.id);
    const runs = running.has(edge.id);
    const mark = base && !runs ? "added" : undefined;
    if (old && same(old.data?.edge, edge) && old.data?.runs === runs && old.data.mark === mark && old.focusable === focusable) return old;
    return {
      id: edge.id, type: "flow", source: edge.stage, target: edge.target, sourceHandle: edge.output, targetHandle: "in", selected: old?.selected ?? editor.selection.edges.includes(edge.id), focusable,
      ariaLabel: `Edge from ${edge.stage}, output ${edge.output}, to ${edge.target}`,
      data: { edge, key: liveKey(doc.flow, edge), full_target: fullTarget(doc.flow, edge.target), mark, runs },
    };
  });
  return made.length === before.length && made.every((edge, index) => edge === before[index]) ? (before as FlowEdgeShown[]) : made;
}
