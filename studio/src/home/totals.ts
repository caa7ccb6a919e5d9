// What runs, in a few numbers: live ones where there are any, otherwise those of the last list.
import type { Flow } from "../api/types";
import type { LiveStage } from "../live/frames";

export interface FlowSummary {
  flow: string;
  stages: number;
  state: "running" | "paused" | "failed" | "stopping";
  rate: number;
  queued: number;
  failures: number;
  dead: number;
  /** Why a stage stands still. */
  stands: string | null;
}

interface Lives {
  get(address: string): LiveStage | undefined;
}

export function summaryOf({ flow, stages }: Flow, live: Lives): FlowSummary {
  const summary: FlowSummary = { flow, stages: stages.length, state: "running", rate: 0, queued: 0, failures: 0, dead: 0, stands: null };
  let paused = 0, failed = false, stopping = 0;
  for (const stage of stages) {
    const now = live.get(stage.spec.address);
    summary.rate += now?.rate ?? stage.turns_per_second;
    summary.queued += now?.input?.queued ?? stage.waiting;
    summary.failures += now?.failures ?? stage.failures;
    summary.dead += now?.dead ?? stage.dead;
    summary.stands ??= now?.stands ?? null;
    const state = now?.state ?? stage.state;
    if (state === "failed") failed = true;
    if (state === "stopping") stopping++;
    if (now?.paused ?? stage.paused) paused++;
  }
  summary.state = failed ? "failed" : paused > 0 ? "paused" : stopping > 0 ? "stopping" : "running";
  return summary;
}

export interface Total {
  rate: number;
  queued: number;
  dead: number;
}

export function totalOf(flows: readonly FlowSummary[]): Total {
  return flows.reduce((sum, { rate, queued, dead }) => ({ rate: sum.rate + rate, queued: sum.queued + queued, dead: sum.dead + dead }), { rate: 0, queued: 0, dead: 0 });
}
