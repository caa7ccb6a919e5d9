// Every page and the main dialogs, light and dark: nothing that axe finds wrong, and a picture of each.
import AxeBuilder from "@axe-core/playwright";
import type { Page } from "@playwright/test";
import { Canvas } from "./canvas";
import { apply, expect, node, picture, place, stop, test } from "./studio";
import { ticks } from "./ticks";

const FLOW = "shop";
const PAGES: [name: string, path: string][] = [
  ["home", "/"], ["flows", "/flows"], ["flow", `/flows/${FLOW}`], ["flow-crawler", "/flows/crawler"], ["flow-list", `/flows/${FLOW}?view=list`], ["flow-stage", `/flows/${FLOW}?stage=double`],
  ["cluster-board", "/cluster"], ["cluster-table", "/cluster?view=matrix"], ["node", `/cluster/${place.node}`],
  ["broker", "/broker"], ["queue", "/broker?queue=shop-orders"], ["topics", "/broker?tab=topics"], ["dead", "/broker?tab=dead"], ["clients", "/broker?tab=clients"],
  ["plugins", "/plugins"], ["plugin", "/plugins?plugin=window"], ["crawls", "/crawls"], ["crawl-pages", "/crawls/crawler"], ["services", "/services"], ["alerts", "/alerts"], ["logs", "/logs"],
];
type Dialog = [name: string, path: string, open: (page: Page) => Promise<void>];
const DIALOGS: Dialog[] = [
  ["dialog-new-flow", "/flows", (page) => page.keyboard.press("n")],
  ["dialog-jump", "/flows", (page) => page.keyboard.press("Control+k")],
  ["dialog-keys", "/flows", (page) => page.keyboard.press("?")],
  ["dialog-versions", `/flows/${FLOW}`, (page) => page.getByRole("button", { name: "Versions" }).click()],
  ["dialog-connect", `/flows/${FLOW}?stage=double`, async (page) => {
    await expect(page.getByRole("heading", { level: 2, name: "double" })).toBeVisible();
    await page.keyboard.press("c");
  }],
  ["dialog-import", `/flows/${FLOW}`, async (page) => {
    await page.getByRole("button", { name: "More", exact: true }).click();
    await page.getByRole("menuitem", { name: "Import…" }).click();
  }],
  ["dialog-message", "/broker", (page) => page.getByRole("button", { name: "Send a message" }).first().click()],
  ["dialog-plugin", "/plugins", (page) => page.getByRole("button", { name: "Add a plug-in" }).first().click()],
  ["dialog-crawl", "/crawls", (page) => page.getByRole("button", { name: "New crawl" }).first().click()],
];

test.use({ viewport: { width: 1280, height: 800 } });
test.beforeAll(async () => {
  await apply({ ...ticks(FLOW, 20), http: [{ route: "POST /numbers", stage: "double", reply: false }] });
  await node("POST", "/api/v1/queues/shop-orders/messages", { messages: [{ body: "one coffee" }] });
});
test.afterAll(() => stop(FLOW));

/** What axe finds wrong, in a few words each. */
async function wrong(page: Page, look: string): Promise<string[]> {
  const axe = new AxeBuilder({ page });
  // In the dark only colours are other ones.
  const { violations } = await (look === "light" ? axe.withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]) : axe.withRules(["color-contrast"])).analyze();
  return violations.flatMap(({ id, help, nodes }) => nodes.slice(0, 3).map(({ target, failureSummary }) => `${id} (${help}) at ${target.join(" ")}: ${failureSummary?.split("\n")[1]?.trim() ?? ""}`));
}

/** Waits until nothing is being fetched any more. */
async function settled(page: Page): Promise<void> {
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  await expect(page.getByRole("progressbar", { name: /fetched|asked/ })).toHaveCount(0);
}

for (const look of ["light", "dark"] as const) {
  test.describe(look, () => {
    test.use({ colorScheme: look });

    test(`pages, ${look}`, async ({ page, open, watch }) => {
      test.setTimeout(180_000);
      for (const [name, path] of PAGES) {
        await test.step(name, async () => {
          await open(path);
          await settled(page);
          if (name === "flow-stage") await expect(new Canvas(page).inspector().getByRole("heading", { level: 2, name: "double" })).toBeVisible();
          expect.soft(await wrong(page, look), name).toEqual([]);
          expect.soft(watch.taken(), name).toEqual([]);
          await picture(page, look === "light" ? name : `${name}-dark`);
        });
      }
    });

    test(`dialogs, ${look}`, async ({ page, open, watch }) => {
      test.setTimeout(120_000);
      for (const [name, path, show] of DIALOGS) {
        await test.step(name, async () => {
          await open(path);
          await settled(page);
          // What a page shows at first may still be exchanged for what was fetched, and a click with it.
          await expect(async () => {
            await show(page);
            await expect(page.getByRole("dialog")).toBeVisible({ timeout: 4_000 });
          }).toPass({ timeout: 30_000 });
          expect.soft(await wrong(page, look), name).toEqual([]);
          expect.soft(watch.taken(), name).toEqual([]);
          if (look === "light") await picture(page, name);
          await page.keyboard.press("Escape");
          await expect(page.getByRole("dialog")).toHaveCount(0);
        });
      }
    });
  });
}
