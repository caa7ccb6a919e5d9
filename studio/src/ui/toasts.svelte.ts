// Short notes on what was done. Errors stay until they are closed.
import { ApiProblem } from "../api/problem";

export interface Toast {
  id: number;
  tone: "ok" | "error" | "info";
  title: string;
  detail: string;
  action?: { label: string; act: () => void } | undefined;
}

const SHOWN_MS = 5_000;
const TOASTS_MAX = 4;

class Toasts {
  all = $state.raw<Toast[]>([]);
  #next = 1;

  #add(tone: Toast["tone"], title: string, detail = "", action?: Toast["action"]): void {
    const id = this.#next++;
    this.all = [...this.all, { id, tone, title, detail, action }].slice(-TOASTS_MAX);
    if (tone !== "error") setTimeout(() => this.close(id), action ? SHOWN_MS * 2 : SHOWN_MS);
  }

  ok(title: string, detail?: string, action?: Toast["action"]): void {
    this.#add("ok", title, detail, action);
  }

  info(title: string, detail?: string, action?: Toast["action"]): void {
    this.#add("info", title, detail, action);
  }

  error(title: string, detail?: string): void {
    this.#add("error", title, detail);
  }

  /** For `catch`. */
  problem(thrown: unknown): void {
    const problem = ApiProblem.of(thrown);
    this.#add("error", problem.title, problem.detail);
  }

  close(id: number): void {
    this.all = this.all.filter((one) => one.id !== id);
  }
}

export const toast = new Toasts();
