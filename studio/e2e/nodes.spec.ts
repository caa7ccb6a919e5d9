// A second node joins, and a stage goes from one to the other and back.
import { apply, expect, node, picture, place, stop, test, wish } from "./studio";
import { ticks } from "./ticks";

const FLOW = "moves", STAGE = `${FLOW}/double`;

test.beforeAll(() => apply(ticks(FLOW, 5)));
test.afterAll(() => stop(FLOW));

/** How many parts of the stage each node has. */
async function parts(): Promise<Record<string, number>> {
  const { nodes } = await node<{ nodes: { name: string; stages: Record<string, { parts: number }> }[] }>("GET", "/api/v1/nodes");
  return Object.fromEntries(nodes.map(({ name, stages }) => [name, stages[STAGE]?.parts ?? 0]));
}

test("a node joins, and a stage is moved to it by drag and back by keyboard", async ({ page, open }) => {
  test.setTimeout(120_000);
  await open("/cluster");
  await expect(page.getByRole("region", { name: `Node ${place.node}` })).toBeVisible();
  await wish("join");
  const there = page.getByRole("region", { name: `Node ${place.other}` });
  const here = page.getByRole("region", { name: `Node ${place.node}` });
  await expect(there).toBeVisible();
  // Both share it now, or the first still has it.
  const chip = (node: typeof here) => node.getByRole("button", { name: new RegExp(`^${STAGE}:`) });
  await expect(chip(here)).toBeVisible({ timeout: 30_000 });
  await picture(page, "cluster");

  await chip(here).dragTo(there);
  const dialog = page.getByRole("dialog", { name: new RegExp(`^Move ${STAGE} to ${place.other}`) });
  await dialog.getByRole("button", { name: "Move it" }).click();
  await expect(dialog.getByText(/^done in/)).toBeVisible({ timeout: 60_000 });
  await dialog.getByRole("button", { name: "Close" }).last().click();
  await expect(chip(here)).toBeHidden();
  expect(await parts()).toMatchObject({ [place.node]: 0 });

  await chip(there).focus();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("menu", { name: `${STAGE}: show or move` })).toBeVisible();
  for (let tries = 0; tries < 6 && !(await page.getByRole("menuitem", { name: `Move to ${place.node}…` }).evaluate((item) => item === document.activeElement)); tries++) await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  const back = page.getByRole("dialog", { name: new RegExp(`^Move ${STAGE} to ${place.node}`) });
  await expect(back.getByRole("button", { name: "Move it" })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(back.getByText(/^done in/)).toBeVisible({ timeout: 60_000 });
  await expect(back.getByRole("button", { name: "Close" }).last()).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(chip(there)).toBeHidden();
  await expect(chip(here)).toBeVisible();
  expect(await parts()).toMatchObject({ [place.other]: 0 });
});
