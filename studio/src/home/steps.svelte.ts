// The first steps: which of them were done. What the node itself shows counts; the rest is remembered here.
const KEY = "hivewire.steps";

class Steps {
  #done = $state.raw<readonly string[]>(read());

  has(step: string): boolean {
    return this.#done.includes(step);
  }

  did(step: string): void {
    if (this.has(step)) return;
    this.#done = [...this.#done, step];
    localStorage.setItem(KEY, this.#done.join(","));
  }
}

function read(): string[] {
  return (localStorage.getItem(KEY) ?? "").split(",").filter(Boolean);
}

export const steps = new Steps();
