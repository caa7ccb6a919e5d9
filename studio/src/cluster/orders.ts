// What nodes are told to be. Each asks first and says what will happen.
import { api } from "../api/client";
import type { Node } from "../api/types";
import { href, router } from "../router/router.svelte";
import { confirm } from "../ui/confirm.svelte";
import type { MenuItem } from "../ui/Menu.svelte";
import { toast } from "../ui/toasts.svelte";
import { partsOf } from "./board";
import { plural } from "../format/numbers";

type Order = "pause" | "resume" | "drain" | "stop";

const questions: Record<Order, (name: string, parts: number) => { title: string; text: string; action: string; danger?: boolean }> = {
  pause: (name, parts) => ({ title: `Pause ${name}?`, text: `It keeps its ${plural(parts, "part")} but pulls no messages: what is for it waits until you resume it.`, action: "Pause it" }),
  resume: (name) => ({ title: `Resume ${name}?`, text: "It takes its share of all stages again; parts move to it, with their state.", action: "Resume it" }),
  drain: (name, parts) => ({ title: `Drain ${name}?`, text: `It gives its ${plural(parts, "part")} to the other nodes, keyed state included, and takes nothing until you resume it. Messages wait for milliseconds. The last node that can work keeps what it has.`, action: "Drain it" }),
  stop: (name, parts) => ({ title: `Stop ${name}?`, text: `It gives its ${plural(parts, "part")} to the others, and then its process ends. It must be started again on its machine.`, action: "Stop it", danger: true }),
};
const bodies = { pause: { state: "paused" }, resume: { state: "running" }, drain: { state: "draining" }, stop: { state: "draining", stop: true } } as const;
const done: Record<Order, string> = { pause: "is told to pause", resume: "is told to go on", drain: "is told to give everything away", stop: "is told to give everything away and end" };

export async function order(node: Node, what: Order, then: () => void): Promise<void> {
  if (!(await confirm(questions[what](node.name, partsOf(node))))) return;
  try {
    await api.post("/api/v1/nodes/{node}", { path: { node: node.name }, body: bodies[what] });
    toast.ok(`${node.name} ${done[what]}`, "It does so with its next heartbeat, within a second.");
    then();
  } catch (thrown) {
    toast.problem(thrown);
  }
}

export function nodeActions(node: Node, then: () => void, edit: () => void, page = false): MenuItem[] {
  const gone = node.state === "dead";
  const runs = node.state === "running";
  const act = (what: Order) => () => void order(node, what, then);
  return [
    ...(page ? [] : [{ label: "Open its page", icon: "right" as const, act: () => router.go(href("/cluster/:node", { node: node.name })) }]),
    { label: "Its log", icon: "logs", act: () => router.go(href("/logs", {}, { node: node.name })) },
    { label: "Labels and prefetch…", icon: "edit", disabled: gone, act: edit },
    { label: "Resume", icon: "play", begins: true, disabled: gone || runs, act: act("resume") },
    { label: "Pause", icon: "pause", disabled: gone || !runs, act: act("pause") },
    { label: "Drain", icon: "out", disabled: gone || node.state === "draining", act: act("drain") },
    { label: "Stop", icon: "stop", begins: true, danger: true, disabled: gone, act: act("stop") },
  ];
}
