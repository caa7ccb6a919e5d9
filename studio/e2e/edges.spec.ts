// What passes over an edge, what became of it, and a stage that stands still for a while.
import { Canvas } from "./canvas";
import { apply, expect, picture, stop, test } from "./studio";
import { ticks } from "./ticks";

const FLOW = "edges";

test.beforeAll(() => apply(ticks(FLOW)));
test.afterAll(() => stop(FLOW));

test("an edge shows its last events, and a book that balances", async ({ page, open }) => {
  const canvas = new Canvas(page);
  await open(`/flows/${FLOW}`);
  await canvas.selectEdge("double", "out", "last");
  const inspector = canvas.inspector();
  const event = inspector.getByRole("button", { name: /"twice":/ }).first();
  await expect(event).toBeVisible();
  await event.click();
  await expect(event).toHaveAttribute("aria-expanded", "true");
  await picture(page, "flow-edge");

  // Both sides of the book are the same number, again and again, and it grows.
  const book = inspector.getByRole("table", { name: "What came in and what became of it" });
  const numbers = async () => (await book.getByRole("row").last().getByRole("cell").allTextContents()).map((text) => text.replace(/\D/g, "")).filter(Boolean).map(Number);
  await expect(book.getByLabel("It balances")).toBeVisible();
  const [first = 0] = await numbers();
  await expect.poll(async () => (await numbers())[0], { message: "the book does not go on" }).toBeGreaterThan(first);
  const [came, became] = await numbers();
  expect(became).toBe(came);
});

test("a stage is paused and goes on", async ({ page, open }) => {
  const canvas = new Canvas(page);
  await open(`/flows/${FLOW}`);
  await canvas.select("double");
  const inspector = canvas.inspector();
  await inspector.getByRole("button", { name: "Pause" }).click();
  await expect(inspector.getByText("It is paused.")).toBeVisible();
  await expect(canvas.stage("double").getByLabel("Paused")).toBeVisible();
  await expect(page.getByText("1 paused")).toBeVisible();
  // What comes waits.
  const queued = inspector.getByRole("row").filter({ hasText: "queued" }).getByRole("cell").last();
  await expect.poll(async () => Number((await queued.textContent())?.replace(/\D/g, ""))).toBeGreaterThan(20);
  await inspector.getByRole("button", { name: "Resume" }).click();
  await expect(inspector.getByText("It is paused.")).toBeHidden();
  await expect(inspector.getByRole("button", { name: "Pause" })).toBeVisible();
  await expect.poll(async () => Number((await queued.textContent())?.replace(/\D/g, ""))).toBeLessThan(5);
});
