// A message that could not be handled, once the reason is gone.
import { apply, expect, node, picture, stop, test, type Doc } from "./studio";

const FLOW = "letters", RESULT = "letters-out";

function prices(to: string): Doc {
  return { flow: FLOW, stages: { price: { plugin: "map", parameters: { to }, outputs: { out: `queue:${RESULT}` } } } };
}
const waiting = async () => (await node<{ waiting: number }>("GET", `/api/v1/queues/${RESULT}`)).waiting;

test.afterAll(() => stop(FLOW));

test("a dead letter is replayed and gone", async ({ page, open }) => {
  await apply(prices("{'total': event.price * event.amount}"));
  await node("POST", `/api/v1/queues/${FLOW}.price/messages`, { messages: [{ body: JSON.stringify({ price: 3, count: 7 }) }] });
  await expect.poll(async () => (await node<{ letters: unknown[] }>("GET", "/api/v1/dead")).letters.length, { message: "nothing died", timeout: 30_000 }).toBe(1);

  await open("/broker?tab=dead");
  const letters = page.getByRole("table", { name: "Dead letters" });
  const row = letters.getByRole("row").filter({ hasText: "amount" });
  await expect(row).toHaveCount(1);
  await picture(page, "dead-letters");
  await row.click();
  const dialog = page.getByRole("dialog", { name: /^Dead letter/ });
  await expect(dialog.getByRole("link", { name: `See the stage ${FLOW}/price` })).toBeVisible();
  await expect(dialog).toContainText('"count"');

  // The reason goes, and then it can be handled.
  await apply(prices("{'total': event.price * event.count}"));
  await dialog.getByRole("button", { name: "Replay" }).click();
  await expect(dialog).toBeHidden();
  await expect(page.getByText("1 dead letter replayed")).toBeVisible();
  await expect(row).toHaveCount(0);
  await expect.poll(waiting, { message: "what was replayed was not handled" }).toBe(1);
  await page.getByRole("button", { name: /^(Reload|Show)/ }).click();
  await expect(page.getByText("No dead letters")).toBeVisible();
});
