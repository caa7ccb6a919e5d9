// What is wrong is named where it is, and every step can be undone and done again.
import { Canvas } from "./canvas";
import { apply, expect, exported, stop, test } from "./studio";
import { ticks } from "./ticks";

const FLOW = "problems";

test.beforeAll(() => apply(ticks(FLOW, 1)));
test.afterAll(() => stop(FLOW));

test("a broken connection and a wrong expression are named, undone and done again", async ({ page, open }) => {
  const canvas = new Canvas(page);
  await open(`/flows/${FLOW}`);
  await expect(canvas.stage("double")).toBeVisible();
  const states = [await exported(page)];

  await canvas.selectEdge("source", "out", "double");
  await page.keyboard.press("Delete");
  await expect(canvas.edge("source", "out", "double")).toHaveCount(0);
  await page.getByRole("button", { name: /problems?$/ }).click();
  const problems = page.getByRole("region", { name: "Problems" });
  await expect(problems.getByRole("button", { name: /source.*none of its outputs leads anywhere/ })).toBeVisible();
  await expect(problems.getByRole("button", { name: /double.*no stage leads here/ })).toBeVisible();
  for (const stage of ["source", "double"]) await expect(canvas.stage(stage).getByLabel("Look at this")).toBeVisible();
  states.push(await exported(page));

  await canvas.select("double");
  await canvas.inspector().getByRole("tab", { name: "Settings" }).click();
  await canvas.inspector().getByRole("textbox", { name: "to", exact: true }).fill("event.(");
  await expect(canvas.stage("double").getByLabel("1 wrong")).toBeVisible();
  const named = problems.getByRole("button", { name: /^error.*double/ });
  await expect(named).toBeVisible();
  states.push(await exported(page));
  // A click leads there.
  await page.getByRole("application").first().press("Escape");
  await named.click();
  await expect(canvas.inspector().getByRole("textbox", { name: "to", exact: true })).toBeVisible();

  // Back, step by step, and forth again; each state is exactly what it was.
  const tools = page.getByRole("toolbar", { name: "Edit" });
  expect(JSON.stringify(states[1])).not.toBe(JSON.stringify(states[0]));
  for (const at of [1, 0]) {
    await tools.getByRole("button", { name: /^Undo/ }).click();
    expect(await exported(page)).toEqual(states[at]);
  }
  await expect(tools.getByRole("button", { name: "Nothing to undo" })).toBeDisabled();
  await expect(canvas.edge("source", "out", "double")).toBeAttached();
  for (const at of [1, 2]) {
    await tools.getByRole("button", { name: /^Do again/ }).click();
    expect(await exported(page)).toEqual(states[at]);
  }
  await canvas.box.focus();
  await page.keyboard.press("Control+z");
  await page.keyboard.press("Control+z");
  expect(await exported(page)).toEqual(states[0]);
  await expect(problems.getByRole("heading", { name: "Nothing is wrong" })).toBeVisible();
});
