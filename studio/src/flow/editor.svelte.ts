// One flow as it is being looked at and changed: the document with its history, what runs, what is selected, and
// what is wrong. All edits go through `perform`, which says what was done.
import { getContext, setContext } from "svelte";
import type { DocumentProblem, PalettePlugin } from "../api/types";
import { plural } from "../format/numbers";
import { arrange, type Arrangement, type Box } from "./model/arrange";
import { checkLocally, joinProblems } from "./model/check";
import { copyStages, pasteStages } from "./model/clipboard";
import * as commands from "./model/commands";
import { differenceOf, isSame, marksOf, type Mark } from "./model/diff";
import { emptyDocument, placeOf, pluginId, type Doc, type HttpRoute, type Position, type Stage } from "./model/document";
import { heightOf, layoutAll, placesOf } from "./model/ends";
import { END_HEIGHT, END_WIDTH, NODE_WIDTH } from "./model/geometry";
import { edgeId, edgesOf, graphOf, type GraphEdge, type GraphEnd } from "./model/graph";
import * as http from "./model/http";
import { historyOf, perform, redo, undo, type History } from "./model/history";
import { leadsTo, likelyOutput, outputsOf, pluginOf, whyNot, type Plugins } from "./model/plugins";
import { endPlaces } from "./drafts";
import { startOf } from "../forms/values";
import type { Schema } from "../forms/schema";

export interface Selection {
  stages: readonly string[];
  ends: readonly string[];
  /** Ids of edges. */
  edges: readonly string[];
}

/** What the canvas does for others while it is shown. */
export interface View {
  select(selection: Selection): void;
  reveal(ids: readonly string[]): void;
  centre(): Position;
  fit(): void;
  focus(): void;
}

const NOTHING: Selection = { stages: [], ends: [], edges: [] };
const GRID = 20;

export class Editor {
  readonly flow: string;
  #history = $state.raw<History>(historyOf(emptyDocument("")));
  /** What runs, as far as the studio knows; null for a flow that is new. */
  base = $state.raw<Doc | null>(null);
  etag = $state<string | null>(null);
  plugins = $state.raw<Plugins>(new Map<string, PalettePlugin>());
  selection = $state.raw<Selection>(NOTHING);
  /** What the node says is wrong with the document. */
  said = $state.raw<readonly DocumentProblem[]>([]);
  /** What happened, for those who listen. */
  message = $state("");
  /** Where ends stand, if somebody put them there. */
  #ends = $state.raw<ReadonlyMap<string, Position>>(new Map());
  /** Ends that were dropped on the canvas and that nothing leads to yet. */
  #loose = $state.raw<readonly string[]>([]);
  view: View | null = null;
  /** Grows with each wish to see a field of the stage that is selected. */
  wanted = $state.raw<{ field: string; times: number } | null>(null);

  readonly doc = $derived(this.#history.doc);
  readonly marks = $derived<ReadonlyMap<string, Mark>>(this.base ? marksOf(this.base, this.doc) : new Map<string, Mark>());
  readonly dirty = $derived(this.base ? !isSame(differenceOf(this.base, this.doc)) : Object.keys(this.doc.stages).length > 0 || Boolean(this.doc.description));
  readonly graph = $derived(graphOf(this.doc));
  readonly loose = $derived(this.#loose.filter((target) => !this.graph.ends.some((end) => end.target === target)).map((target): GraphEnd => ({ target, place: placeOf(this.doc, target) as GraphEnd["place"], from: [] })));
  readonly places = $derived(placesOf(this.doc, this.plugins, this.#ends, this.loose));
  readonly problems = $derived(http.named(this.doc, joinProblems(checkLocally(this.doc, this.plugins), this.said)));
  readonly errors = $derived(this.problems.filter(({ severity }) => severity === "error"));
  readonly problemsByStage = $derived.by(() => {
    const found = new Map<string, DocumentProblem[]>();
    for (const one of this.problems) if (one.stage) found.set(one.stage, [...(found.get(one.stage) ?? []), one]);
    return found;
  });
  /** Routes by the stage that gets their requests. */
  readonly routes = $derived.by(() => {
    const found = new Map<string, http.Placed[]>();
    for (const [index, route] of (this.doc.http ?? []).entries()) found.set(route.stage, [...(found.get(route.stage) ?? []), { index, route }]);
    return found;
  });
  readonly selectedStage = $derived(this.selection.stages.length === 1 && this.selection.edges.length + this.selection.ends.length === 0 ? (this.selection.stages[0] ?? null) : null);
  readonly selectedEdge = $derived.by((): GraphEdge | null => {
    const { stages, ends, edges } = this.selection;
    return edges.length === 1 && stages.length + ends.length === 0 ? (this.graph.edges.find(({ id }) => id === edges[0]) ?? null) : null;
  });
  readonly undoLabel = $derived(this.#history.done.at(-1)?.label ?? null);
  readonly redoLabel = $derived(this.#history.undone.at(-1)?.label ?? null);
  /** Whether something of it runs. */
  readonly runs = $derived(this.base !== null);

  constructor(flow: string) {
    this.flow = flow;
    this.#ends = endPlaces.get(flow);
    this.#history = historyOf(emptyDocument(flow));
  }

  /** Begins with this document, with nothing to undo. */
  open(doc: Doc, base: Doc | null, etag: string | null): void {
    this.#history = historyOf(doc);
    this.base = base;
    this.etag = etag;
    this.said = [];
    this.#tidySelection();
  }

  /** What runs is this now; what was changed stays changed. */
  rebase(base: Doc | null, etag: string | null): void {
    this.base = base;
    this.etag = etag;
  }

  say(message: string): void {
    // The same words twice are said twice.
    this.message = this.message === message ? `${message}\u00a0` : message;
  }

  perform(label: string, after: Doc, merge: string | null = null): boolean {
    if (after === this.doc) return false;
    this.#history = perform(this.#history, label, this.#drawn(after), merge, Date.now());
    this.#tidySelection();
    if (merge === null) this.say(label);
    return true;
  }

  /** A flow that was never drawn gets its places with the first edit, so that nothing jumps. */
  #drawn(after: Doc): Doc {
    const places = this.places.stages;
    const lacking = Object.entries(after.stages).filter(([name, { position }]) => !position && places.has(name));
    return commands.moveStages(after, new Map(lacking.map(([name]) => [name, places.get(name) as Position])));
  }

  undo(): void {
    const label = this.undoLabel;
    if (label === null) return this.say("There is nothing to undo");
    this.#history = undo(this.#history);
    this.#tidySelection();
    this.say(`Undone: ${label}`);
  }

  redo(): void {
    const label = this.redoLabel;
    if (label === null) return this.say("There is nothing to do again");
    this.#history = redo(this.#history);
    this.#tidySelection();
    this.say(`Done again: ${label}`);
  }

  #tidySelection(): void {
    const ids = new Set(this.graph.edges.map(({ id }) => id));
    const { stages, ends, edges } = this.selection;
    const next = {
      stages: stages.filter((name) => name in this.doc.stages),
      ends: ends.filter((target) => this.places.ends.has(target)),
      edges: edges.filter((id) => ids.has(id)),
    };
    if (next.stages.length + next.ends.length + next.edges.length !== stages.length + ends.length + edges.length) this.selection = next;
  }

  /** Selects on the canvas, too, if it is shown. */
  select(given: Partial<Selection>): void {
    const selection = { ...NOTHING, ...given };
    this.selection = selection;
    this.view?.select(selection);
  }

  /** Selects what a problem or a search names, and brings it into sight. */
  goTo(stage: string, field?: string): void {
    if (!(stage in this.doc.stages)) return;
    this.select({ stages: [stage] });
    this.view?.reveal([stage]);
    if (field) this.wanted = { field, times: (this.wanted?.times ?? 0) + 1 };
  }

  selectAll(): void {
    this.select({ stages: Object.keys(this.doc.stages), ends: [...this.places.ends.keys()] });
    this.say(`${plural(Object.keys(this.doc.stages).length, "stage")} selected`);
  }

  /** Adds a stage: at this place, or behind the one that is selected, or in the middle. Gives its name. */
  add(plugin: PalettePlugin, at: Position | null = null, from: { stage: string; output: string } | null = null, into: GraphEdge | null = null): string {
    const reference = plugin.repository && plugin.repository !== "built-in" && plugin.newest && plugin.versions?.length ? `${plugin.id}@${plugin.newest}` : plugin.id;
    const schema = plugin.parameters as Schema | null | undefined;
    const start = schema ? startOf(schema, schema) : undefined;
    const parameters = start && typeof start === "object" && Object.keys(start).length > 0 ? start : undefined;
    let behind = from;
    const selected = this.selectedStage;
    if (!behind && !into && !at && selected && plugin.kind !== "provider") {
      const output = likelyOutput(this.doc.stages[selected] as Stage, pluginOf(this.plugins, this.doc.stages[selected]));
      if (output) behind = { stage: selected, output };
    }
    const position = this.#room(at ?? this.#placeBehind(behind));
    const { doc, name } = commands.addStage(this.#drawn(this.doc), plugin.id.split("/").at(-1) ?? plugin.id, { plugin: reference, ...(parameters ? { parameters } : {}), position });
    let after = doc;
    let label = `${name} added`;
    if (behind && plugin.kind !== "provider" && whyNot(after, this.plugins, behind.stage, behind.output, name) === null) {
      after = commands.connect(after, { ...behind, target: name });
      label = `${name} added behind ${behind.stage}`;
    } else if (into && plugin.kind !== "provider") {
      const output = likelyOutput(after.stages[name] as Stage, plugin);
      if (output) {
        after = commands.insertInto(after, into, name, output);
        label = `${name} put between ${into.stage} and ${into.target}`;
      }
    }
    this.perform(label, after);
    this.select({ stages: [name] });
    this.view?.reveal([name]);
    return name;
  }

  #placeBehind(from: { stage: string } | null): Position {
    const place = from ? this.places.stages.get(from.stage) : undefined;
    if (place) return { x: place.x + NODE_WIDTH + 100, y: place.y };
    const centre = this.view?.centre();
    return centre ? { x: centre.x - NODE_WIDTH / 2, y: centre.y - 40 } : { x: 0, y: 0 };
  }

  /** The nearest free place below, on the grid. */
  #room(wish: Position): Position {
    const at = { x: Math.round(wish.x / GRID) * GRID, y: Math.round(wish.y / GRID) * GRID };
    const others = [...this.places.stages].map(([name, place]) => ({ ...place, height: heightOf(this.doc, this.plugins, name) }));
    for (let tried = 0; tried < 100; tried++) {
      const hit = others.find(({ x, y, height }) => Math.abs(x - at.x) < NODE_WIDTH && at.y < y + height + GRID && y < at.y + 100);
      if (!hit) break;
      at.y = Math.ceil((hit.y + hit.height + GRID) / GRID) * GRID;
    }
    return at;
  }

  /** An end that nothing leads to yet; or, with a stage selected, an edge to it. */
  addEnd(target: string, at: Position | null = null): void {
    const selected = this.selectedStage;
    const stage = selected ? this.doc.stages[selected] : undefined;
    const output = !at && stage ? likelyOutput(stage, pluginOf(this.plugins, stage)) : null;
    if (selected && output) {
      this.connect(selected, output, target);
      return;
    }
    this.#ends = new Map([...this.#ends, [target, at ?? this.view?.centre() ?? { x: 0, y: 0 }]]);
    this.#loose = [...this.#loose.filter((one) => one !== target), target];
    this.select({ ends: [target] });
    this.say(`${target} is on the canvas: lead an edge there`);
  }

  /** Null if it was done, otherwise why not. */
  connect(stage: string, output: string, target: string): string | null {
    const reason = whyNot(this.doc, this.plugins, stage, output, target);
    if (reason !== null) {
      this.say(reason);
      return reason;
    }
    const closes = target in this.doc.stages && leadsTo(this.doc, target, stage);
    this.perform(`${stage} leads to ${target}${closes ? ", which closes a cycle" : ""}`, commands.connect(this.doc, { stage, output, target }));
    return null;
  }

  reconnect(before: GraphEdge, after: commands.EdgeEnds): string | null {
    if (edgeId(after.stage, after.output, after.target) === before.id) return null;
    const reason = whyNot(commands.disconnect(this.doc, [before]), this.plugins, after.stage, after.output, after.target);
    if (reason !== null) this.say(reason);
    else if (this.perform(`${after.stage} leads to ${after.target} instead`, commands.reconnect(this.doc, before, after))) this.select({ edges: [edgeId(after.stage, after.output, after.target)] });
    return reason;
  }

  disconnect(edge: GraphEdge): void {
    this.perform(`${edge.stage} leads to ${edge.target} no more`, commands.disconnect(this.doc, [edge]));
  }

  removeSelected(): void {
    const { stages, ends, edges } = this.selection;
    const gone = this.graph.edges.filter(({ id }) => edges.includes(id));
    let after = commands.disconnect(this.doc, gone);
    for (const end of ends) after = commands.removeTarget(after, end);
    after = commands.removeStages(after, stages);
    this.#loose = this.#loose.filter((target) => !ends.includes(target));
    const what = [
      stages.length === 1 ? stages[0] : stages.length > 1 ? plural(stages.length, "stage") : null,
      ends.length === 1 ? ends[0] : ends.length > 1 ? plural(ends.length, "end") : null,
      gone.length === 1 && stages.length + ends.length === 0 ? `edge from ${gone[0]?.stage} to ${gone[0]?.target}` : gone.length > 0 && stages.length + ends.length === 0 ? plural(gone.length, "edge") : null,
    ].filter(Boolean);
    if (what.length === 0) return this.say("Nothing is selected");
    this.perform(`${what.join(" and ")} removed`, after);
    this.select({});
  }

  rename(from: string, to: string): void {
    if (!this.perform(`${from} is called ${to}`, commands.renameStage(this.doc, from, to))) return;
    this.select({ stages: [to] });
  }

  renameEnd(from: string, to: string): void {
    const place = this.places.ends.get(from);
    if (place) this.#keepEnds(new Map([...this.#ends, [to, place]]));
    this.#loose = this.#loose.map((target) => (target === from ? to : target));
    this.perform(`${from} is ${to} now`, commands.renameTarget(this.doc, from, to));
    this.select({ ends: [to] });
  }

  set<K extends keyof Stage>(stage: string, field: K, value: Stage[K] | undefined, what: string): void {
    this.perform(`${what} of ${stage} changed`, commands.setField(this.doc, stage, field, value), `${stage}.${field}`);
  }

  withPlugin(stage: string, plugin: string): Doc {
    return commands.setField(this.doc, stage, "plugin", plugin);
  }

  setWhole(stage: string, value: Stage, label: string): void {
    this.perform(label, commands.setStage(this.doc, stage, value));
  }

  addRoute(stage: string): void {
    this.perform(`${stage} answers requests`, http.addRoute(this.doc, stage));
  }

  setRoute(index: number, route: HttpRoute, what: string): void {
    this.perform(`${what} of a route of ${route.stage} changed`, http.setRoute(this.doc, index, route), `http.${index}.${what}`);
  }

  removeRoute({ index, route }: http.Placed): void {
    this.perform(`${route.stage} answers ${route.route} no more`, http.removeRoute(this.doc, index));
  }

  move(positions: ReadonlyMap<string, Position>, what = ""): void {
    const rounded = new Map([...positions].map(([id, { x, y }]) => [id, { x: Math.round(x), y: Math.round(y) }]));
    const ends = [...rounded].filter(([id]) => !(id in this.doc.stages));
    if (ends.length > 0) this.#keepEnds(new Map([...this.#ends, ...ends]));
    const stages = [...rounded].filter(([id]) => id in this.doc.stages);
    const label = what || (stages.length === 1 ? `${stages[0]?.[0]} moved` : `${plural(stages.length, "stage")} moved`);
    this.perform(label, commands.moveStages(this.doc, new Map(stages)), what ? null : `move ${stages.map(([id]) => id).join()}`);
  }

  #keepEnds(places: ReadonlyMap<string, Position>): void {
    this.#ends = places;
    endPlaces.keep(this.flow, places);
  }

  nudge(x: number, y: number): void {
    const { stages, ends } = this.selection;
    const moved = new Map<string, Position>();
    for (const id of [...stages, ...ends]) {
      const at = this.places.stages.get(id) ?? this.places.ends.get(id);
      if (at) moved.set(id, { x: at.x + x * GRID, y: at.y + y * GRID });
    }
    if (moved.size > 0) this.move(moved);
  }

  arrange(how: Arrangement): void {
    const { stages, ends } = this.selection;
    const boxes = new Map<string, Box>();
    for (const name of stages) boxes.set(name, { ...(this.places.stages.get(name) as Position), width: NODE_WIDTH, height: heightOf(this.doc, this.plugins, name) });
    for (const target of ends) boxes.set(target, { ...(this.places.ends.get(target) as Position), width: END_WIDTH, height: END_HEIGHT });
    if (boxes.size < 2) return this.say("Select two stages or more first");
    this.move(arrange(boxes, how), "Stages lined up");
  }

  layout(): void {
    const placed = layoutAll(this.doc, this.plugins);
    this.#keepEnds(placed.ends);
    this.perform("Stages laid out", commands.moveStages(this.doc, placed.stages));
    this.view?.fit();
  }

  copied(): string | null {
    return this.selection.stages.length > 0 ? copyStages(this.#drawn(this.doc), this.selection.stages) : null;
  }

  paste(copied: Doc, at: Position | null): void {
    const { doc, names } = pasteStages(this.#drawn(this.doc), copied, at);
    this.perform(names.length === 1 ? `${names[0]} put in` : `${plural(names.length, "stage")} put in`, doc);
    this.select({ stages: names });
  }

  /** Follows an edge from the stage that is selected. */
  walk(forwards: boolean): void {
    const from = this.selectedStage;
    if (!from) {
      const first = Object.keys(this.doc.stages)[0];
      return first ? this.goTo(first) : undefined;
    }
    const next = forwards ? edgesOf(this.doc).find(({ stage, target }) => stage === from && target in this.doc.stages)?.target : edgesOf(this.doc).find(({ target }) => target === from)?.stage;
    if (next) {
      this.goTo(next);
      this.say(`${next}, ${this.doc.stages[next]?.plugin}`);
    } else this.say(forwards ? `${from} leads to no stage` : this.routes.has(from) ? `Only requests over HTTP lead to ${from}` : `Nothing leads to ${from}`);
  }

  /** Why there can be no such edge; null if there can. */
  whyNot(stage: string, output: string, target: string): string | null {
    return whyNot(this.doc, this.plugins, stage, output, target);
  }

  likely(name: string): string | null {
    const stage = this.doc.stages[name];
    return stage ? likelyOutput(stage, pluginOf(this.plugins, stage)) : null;
  }

  outputs(name: string) {
    const stage = this.doc.stages[name];
    return stage ? outputsOf(stage, pluginOf(this.plugins, stage)) : [];
  }

  plugin(name: string): PalettePlugin | undefined {
    const stage = this.doc.stages[name];
    return stage ? this.plugins.get(pluginId(stage.plugin)) : undefined;
  }

  /** Whether the stage runs: it is in what was applied. */
  isRunning(name: string): boolean {
    return this.base !== null && name in this.base.stages;
  }
}

const KEY = Symbol("editor");

export function provideEditor(editor: Editor): Editor {
  return setContext(KEY, editor);
}

export function useEditor(): Editor {
  return getContext<Editor>(KEY);
}
