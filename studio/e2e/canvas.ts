// The canvas as somebody with a mouse uses it.
import { expect, type Locator, type Page } from "@playwright/test";

export class Canvas {
  readonly box: Locator;

  constructor(readonly page: Page) {
    this.box = page.getByRole("application", { name: /^Canvas of / });
  }

  stage(name: string): Locator {
    return this.box.getByLabel(new RegExp(`^Stage ${name},`));
  }

  edge(from: string, output: string, to: string): Locator {
    return this.box.getByLabel(`Edge from ${from}, output ${output}, to ${to}`, { exact: true });
  }

  inspector(): Locator {
    return this.page.locator(".inspector");
  }

  /** Drags a plug-in from the palette to a place on the canvas. */
  async add(plugin: string, x: number, y: number): Promise<void> {
    const palette = this.page.getByRole("complementary", { name: "Plug-ins" });
    await palette.getByRole("textbox", { name: "Search plug-ins" }).fill(plugin);
    await palette.locator(`[data-plugin="${plugin}"]`).dragTo(this.box, { targetPosition: { x, y } });
    await expect(this.stage(plugin)).toBeVisible();
  }

  /** Draws an edge with the mouse. */
  async connect(from: string, output: string, to: string): Promise<void> {
    const start = await this.#middle(this.box.getByLabel(`Output ${output} of ${from}`, { exact: true }));
    const end = await this.#middle(this.box.getByLabel(`Input of ${to}`, { exact: true }));
    await this.page.mouse.move(start.x, start.y);
    await this.page.mouse.down();
    await this.page.mouse.move((start.x + end.x) / 2, (start.y + end.y) / 2, { steps: 3 });
    await this.page.mouse.move(end.x, end.y, { steps: 3 });
    await this.page.mouse.up();
    await expect(this.edge(from, output, to)).toBeAttached();
  }

  async select(name: string): Promise<void> {
    await this.stage(name).click({ position: { x: 90, y: 14 } });
    await expect(this.inspector().getByRole("heading", { level: 2, name })).toBeVisible();
  }

  async selectEdge(from: string, output: string, to: string): Promise<void> {
    await this.edge(from, output, to).focus();
    await this.page.keyboard.press("Enter");
    await expect(this.inspector().getByRole("heading", { level: 2, name: "Edge" })).toBeVisible();
  }

  async #middle(one: Locator): Promise<{ x: number; y: number }> {
    const box = await one.boundingBox();
    if (!box) throw new Error(`${String(one)} is not drawn`);
    return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
  }

  /** Shows what would be changed, and applies it. */
  async run(button: "Run" | "Review changes"): Promise<void> {
    const { page } = this;
    // The node looks at each change a moment later.
    await expect(page.getByRole("button", { name: /^\d* ?problems?$/ })).not.toHaveClass(/error/);
    await page.getByRole("toolbar", { name: "Edit" }).getByRole("button", { name: button }).click();
    const dialog = page.getByRole("dialog");
    await expect(dialog.getByRole("list").first()).toBeVisible();
    await dialog.getByRole("button", { name: button === "Run" ? "Run" : "Apply", exact: true }).click();
    await expect(dialog).toBeHidden({ timeout: 30_000 });
  }
}
