// A small flow without a mouse.
import { expect, node, stop, test } from "./studio";

const FLOW = "keys";

test.afterAll(() => stop(FLOW));

test("a flow is composed and run with the keyboard only", async ({ page, open }) => {
  const { keyboard } = page;
  await open("/flows");
  await expect(page.getByRole("heading", { level: 1, name: "Flows" })).toBeVisible();
  await keyboard.press("n");
  await expect(page.getByRole("textbox", { name: "Name" })).toBeFocused();
  await keyboard.type(FLOW);
  await keyboard.press("Enter");
  await expect(page.getByText("The canvas is empty")).toBeVisible();

  for (const plugin of ["timer", "to-file"]) {
    await keyboard.press("n");
    await expect(page.getByRole("textbox", { name: "Search plug-ins" })).toBeFocused();
    await keyboard.press("Control+a");
    await keyboard.type(plugin);
    await expect(page.getByRole("complementary", { name: "Plug-ins" }).getByRole("option", { selected: true })).toContainText(plugin);
    await keyboard.press("Enter");
    await expect(page.getByRole("heading", { level: 2, name: plugin })).toBeVisible();
    await expect(page.getByRole("textbox", { name: "Search plug-ins" })).not.toBeFocused();
  }
  // What is added behind a stage that is selected is connected with it.
  await expect(page.getByLabel("Edge from timer, output out, to to-file")).toBeAttached();
  // The last one is selected; fill in its form.
  await fill("file", "keys.txt");
  // To the first one with the command palette, and on from there.
  await keyboard.press("Control+k");
  await keyboard.type("Show timer");
  await keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 2, name: "timer" })).toBeVisible();
  // What is pressed while the palette still closes is not meant for the canvas.
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await keyboard.press("c");
  await expect(page.getByRole("dialog", { name: "Where does timer lead?" }).getByRole("combobox", { name: "To" })).toBeFocused();
  await keyboard.type("queue:keys-copy");
  await keyboard.press("Enter");
  await expect(page.getByLabel("Edge from timer, output out, to queue:keys-copy")).toBeAttached();
  await fill("every", "200ms");
  await expect(page.getByRole("button", { name: "problems", exact: true })).not.toHaveClass(/error/);
  await keyboard.press("Control+s");
  const dialog = page.getByRole("dialog", { name: `Run ${FLOW}` });
  await expect(dialog.getByRole("listitem").first()).toBeVisible();
  await expect(dialog.getByRole("button", { name: "Run" })).toBeFocused();
  await keyboard.press("Enter");
  await expect(dialog).toBeHidden({ timeout: 30_000 });
  const waiting = async () => (await node<{ waiting: number }>("GET", "/api/v1/queues/keys-copy").catch(() => ({ waiting: 0 }))).waiting;
  await expect.poll(waiting).toBeGreaterThan(2);

  /** Goes to a field of the stage that is selected, with the key for the inspector and then Tab. */
  async function fill(name: string, text: string): Promise<void> {
    await keyboard.press("i");
    const field = page.getByRole("textbox", { name, exact: true });
    for (let tries = 0; tries < 40 && !(await field.evaluate((input) => input === document.activeElement)); tries++) await keyboard.press("Tab");
    await expect(field).toBeFocused();
    await keyboard.type(text);
    await keyboard.press("Tab");
  }
});
