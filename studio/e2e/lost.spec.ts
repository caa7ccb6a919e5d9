// The node goes away and comes back while somebody looks.
import { Canvas } from "./canvas";
import { apply, expect, node, stop, test, wish } from "./studio";
import { ticks } from "./ticks";

const FLOW = "lost";

// Whatever happens, the others need it.
test.afterAll(() => wish("up"));

test("a lost connection is shown, and heals by itself", async ({ page, open, watch }) => {
  test.setTimeout(120_000);
  await apply(ticks(FLOW, 5));
  const canvas = new Canvas(page);
  await open(`/flows/${FLOW}`);
  const status = page.getByRole("banner").getByRole("status");
  await expect(status).toHaveText("Connected");
  await canvas.select("double");
  const turns = canvas.inspector().locator("dl.facts div").filter({ hasText: /^Turns/ }).locator("dd");
  await expect(turns).toHaveText(/\d/);

  // Of a node that is away the browser itself writes to the console.
  watch.allowed.push(/WebSocket connection to .* failed/, /net::ERR_(CONNECTION|EMPTY|INCOMPLETE|SOCKET|FAILED|NETWORK)/, /50[234] \(/);
  await wish("down");
  await expect(status).toHaveText(/Reconnecting|Lost \d+\ss ago/);
  await expect(status).toHaveText(/Lost \d+\ss ago/);
  await wish("up");
  await expect(status).toHaveText("Connected", { timeout: 40_000 });
  // It is the same flow, and its numbers move again.
  const before = await turns.textContent();
  await expect(turns).not.toHaveText(before ?? "", { timeout: 30_000 });
  expect(await node("GET", "/api/v1/node")).toBeTruthy();
  await stop(FLOW);
});
