// Documents: older ones, and as files.
import { Canvas } from "./canvas";
import { apply, expect, exported, node, picture, stop, test, type Doc } from "./studio";
import { ticks } from "./ticks";

const FLOW = "versions";
const rate = async () => ((await node<Doc>("GET", `/api/v1/documents/${FLOW}`)).stages["source"]?.parameters as { per_second: number }).per_second;

test.afterAll(async () => {
  await stop(FLOW);
  await stop(`${FLOW}-copy`);
});

test("an older version is looked at, gone back to, and runs", async ({ page, open }) => {
  await apply(ticks(FLOW, 3));
  await apply(ticks(FLOW, 4));
  const canvas = new Canvas(page);
  await open(`/flows/${FLOW}`);
  await page.getByRole("button", { name: "Versions" }).click();
  const dialog = page.getByRole("dialog", { name: `Versions of ${FLOW}` });
  await dialog.getByRole("button", { name: /Version 1/ }).click();
  await expect(dialog.getByRole("deletion")).toHaveText("4");
  await expect(dialog.getByRole("insertion")).toHaveText("3");
  await picture(page, "flow-versions");
  await dialog.getByRole("button", { name: "Go back to this" }).click();
  await expect(dialog).toBeHidden();
  expect(await rate()).toBe(4);
  await canvas.run("Review changes");
  await expect.poll(rate).toBe(3);
});

test("what is exported can be imported, as JSON and as TOML", async ({ page, open }) => {
  await apply(ticks(FLOW, 3));
  await open(`/flows/${FLOW}`);
  await expect(new Canvas(page).stage("double")).toBeVisible();
  const document = await exported(page);
  await page.getByRole("button", { name: "More", exact: true }).click();
  const download = page.waitForEvent("download");
  await page.getByRole("menuitem", { name: "Export as TOML" }).click();
  const path = await (await download).path();

  await open(`/flows/${FLOW}-copy/edit`);
  await page.getByRole("button", { name: "Import a document" }).click();
  const dialog = page.getByRole("dialog", { name: "Import a flow document" });
  await dialog.locator("input[type=file]").setInputFiles(path);
  await expect(dialog.getByText(`${FLOW} with 3 stages`)).toBeVisible();
  await dialog.getByRole("button", { name: "Put it on the canvas" }).click();
  await expect(new Canvas(page).stage("double")).toBeVisible();
  expect(await exported(page)).toEqual({ ...document, flow: `${FLOW}-copy` });
});
