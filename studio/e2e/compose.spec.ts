// The usual crawler, composed from nothing with the mouse, run, and changed while it runs.
import { Canvas } from "./canvas";
import { expect, node, place, test, wish } from "./studio";

const FLOW = "crawler";
/** Columns and rows on the canvas, so that nothing covers anything. */
const STAGES: [string, number, number][] = [
  ["seed", 0, 0], ["url-normaliser", 1, 0], ["seen-urls", 2, 0], ["frontier", 3, 0],
  ["domain-filter", 0, 1], ["robots", 1, 1], ["downloader", 2, 1], ["content-filter", 3, 1],
  ["charset-decoder", 0, 2], ["link-extractor", 1, 2], ["text-extractor", 2, 2], ["page-store", 3, 2],
];
const EDGES: [string, string, string][] = [
  ["seed", "out", "url-normaliser"], ["url-normaliser", "out", "seen-urls"], ["seen-urls", "out", "frontier"], ["frontier", "out", "domain-filter"],
  ["domain-filter", "out", "robots"], ["robots", "out", "downloader"], ["downloader", "out", "content-filter"], ["downloader", "redirects", "url-normaliser"],
  ["content-filter", "out", "charset-decoder"], ["charset-decoder", "out", "link-extractor"], ["link-extractor", "out", "text-extractor"], ["link-extractor", "links", "url-normaliser"],
  ["text-extractor", "out", "page-store"],
  ["url-normaliser", "refused", "page-store"], ["frontier", "refused", "page-store"], ["domain-filter", "refused", "page-store"], ["robots", "refused", "page-store"], ["downloader", "refused", "page-store"], ["content-filter", "refused", "page-store"],
];

interface Crawl {
  over: boolean;
  results: { pages: number; refused: Record<string, number> } | null;
}
const crawl = () => node<Crawl>("GET", `/api/v1/crawls/${FLOW}?results=true`);
const pages = async () => (await crawl()).results?.pages ?? 0;

test.use({ viewport: { width: 1920, height: 1200 } });

test("a crawler is drawn, filled in, run, and its filter made tighter while it crawls", async ({ page, open }) => {
  test.setTimeout(150_000);
  const canvas = new Canvas(page);
  const [kept, ...others] = place.hosts as [string, ...string[]];

  await test.step("draw it", async () => {
    await open("/flows");
    await page.getByRole("button", { name: "New flow" }).first().click();
    await page.getByRole("textbox", { name: "Name" }).fill(FLOW);
    await page.getByRole("button", { name: "Open the canvas" }).click();
    await expect(page.getByText("The canvas is empty")).toBeVisible();
    for (const [plugin, column, row] of STAGES) await canvas.add(plugin, 130 + column * 262, 60 + row * 250);
    for (const [from, output, to] of EDGES) await canvas.connect(from, output, to);
  });

  const inspector = canvas.inspector();
  const parameters = (stage: string) => inspector.getByRole("group", { name: `Parameters of ${stage}` });

  await test.step("fill in its forms", async () => {
    await page.keyboard.press("Escape");
    await inspector.getByLabel("What is promised about events").selectOption({ label: "At most once" });
    const list = (stage: string, name: string) => parameters(stage).getByRole("group", { name, exact: true });
    await canvas.select("seed");
    await list("seed", "urls").getByRole("button", { name: "Set" }).click();
    await list("seed", "urls").getByRole("button", { name: "Add one" }).click();
    await parameters("seed").getByRole("textbox", { name: "urls 1" }).fill(`http://${kept}/`);
    await canvas.select("domain-filter");
    await list("domain-filter", "domains").getByRole("button", { name: "Set" }).click();
    for (const [index, host] of place.hosts.entries()) {
      await list("domain-filter", "domains").getByRole("button", { name: "Add one" }).click();
      await parameters("domain-filter").getByRole("textbox", { name: `domains ${index + 1}` }).fill(host);
    }
    await canvas.select("frontier");
    await list("frontier", "pace").getByRole("button", { name: "Set" }).click();
    await parameters("frontier").getByRole("textbox", { name: "delay", exact: true }).fill("40ms");
    for (const stage of ["robots", "downloader"]) {
      await canvas.select(stage);
      await list(stage, "fetch").getByRole("button", { name: "Set" }).click();
      await parameters(stage).getByRole("switch", { name: "allow private" }).check();
    }
    await canvas.select("page-store");
    await parameters("page-store").getByRole("textbox", { name: "to", exact: true }).fill("crawls/studio");
  });

  await test.step("run it, and see it live", async () => {
    await canvas.run("Run");
    await expect(page.getByText("runs", { exact: true })).toBeVisible();
    await canvas.select("downloader");
    const turns = inspector.locator("dl.facts div").filter({ hasText: /^Turns/ }).locator("dd");
    const number = async () => Number((await turns.textContent())?.replace(/\D/g, ""));
    await expect.poll(number).toBeGreaterThan(10);
    const before = await number();
    await expect.poll(number, { message: "the number does not move" }).toBeGreaterThan(before);
    await expect.poll(pages, { message: "no pages arrive" }).toBeGreaterThan(60);
  });

  await test.step("make the filter tighter", async () => {
    await canvas.select("domain-filter");
    await inspector.getByRole("tab", { name: "Settings" }).click();
    for (const index of others.map((_, at) => at + 2).reverse()) await parameters("domain-filter").getByRole("button", { name: `Remove domains ${index}` }).click();
    await page.getByRole("button", { name: "Review changes" }).click();
    const dialog = page.getByRole("dialog", { name: `Apply changes of ${FLOW}` });
    // The steps of the node, and what is other in the document.
    await expect(dialog.getByRole("listitem")).toHaveText([/domain-filter/]);
    await expect(dialog.getByRole("deletion")).toContainText(others[0] as string);
    await expect(dialog.getByRole("insertion")).not.toContainText(others[0] as string);
    await dialog.getByRole("button", { name: "Apply" }).click();
    await expect(dialog).toBeHidden();
    await wish("applied");
  });

  await test.step("see the effect", async () => {
    await canvas.selectEdge("domain-filter", "refused", "page-store");
    const sent = inspector.locator("dt", { hasText: "Sent over this edge" }).locator("+ dd");
    await expect(sent).not.toHaveText(/^[0–]?$/);
    const before = await pages();
    await expect.poll(pages, { message: "the rest does not go on" }).toBeGreaterThan(before);
    await open(`/crawls/${FLOW}?tab=refused`);
    await expect(page.getByRole("tabpanel")).toContainText("domain");
    await open(`/crawls/${FLOW}`);
    await expect(page.getByRole("link", { name: `http://${kept}/`, exact: false }).or(page.getByText(`http://${kept}/`)).first()).toBeVisible();
    await expect.poll(async () => (await crawl()).over, { message: "what still belongs to it is not all fetched", timeout: 60_000 }).toBe(true);
  });
});
