// Light, dark, or as the system says. Colours follow the `color-scheme` of the page.
export type ThemeChoice = "system" | "light" | "dark";

const KEY = "hivewire.theme";

class Theme {
  choice = $state<ThemeChoice>("system");
  #dark = matchMedia("(prefers-color-scheme: dark)");
  #systemIsDark = $state(this.#dark.matches);

  begin(): void {
    const kept = localStorage.getItem(KEY);
    this.set(kept === "light" || kept === "dark" ? kept : "system");
    this.#dark.addEventListener("change", () => (this.#systemIsDark = this.#dark.matches));
  }

  get shown(): "light" | "dark" {
    return this.choice === "system" ? (this.#systemIsDark ? "dark" : "light") : this.choice;
  }

  set(choice: ThemeChoice): void {
    this.choice = choice;
    if (choice === "system") {
      delete document.documentElement.dataset["theme"];
      localStorage.removeItem(KEY);
    } else {
      document.documentElement.dataset["theme"] = choice;
      localStorage.setItem(KEY, choice);
    }
  }
}

export const theme = new Theme();
