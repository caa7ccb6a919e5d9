// A page that stays open: minutes' worth of live numbers do not stay in memory.
import { apply, expect, stop, test } from "./studio";
import { ticks } from "./ticks";

const FLOW = "memory";
/** Each frame of the node comes so many times, so that a second is worth many. */
const TIMES = 40;
const FRAMES = 2_400;
const GROWTH_BYTES_MAX = 3 * 1024 * 1024;

test.afterAll(() => stop(FLOW));

test("ten minutes of live numbers leave the heap as it was", async ({ page, open }) => {
  test.setTimeout(90_000);
  await apply(ticks(FLOW, 50));
  let frames = 0;
  await page.routeWebSocket(/\/api\/v1\/live/, (socket) => {
    const server = socket.connectToServer();
    server.onMessage((text) => {
      for (let time = 0; time < TIMES; time++) socket.send(text);
      frames += TIMES;
    });
  });
  const session = await page.context().newCDPSession(page);
  const heap = async () => {
    await session.send("HeapProfiler.collectGarbage");
    return (await session.send("Runtime.getHeapUsage")).usedSize;
  };
  await open(`/flows/${FLOW}?stage=double`);
  await expect(page.getByRole("heading", { level: 2, name: "double" })).toBeVisible();
  // What is fetched and compiled once is not counted.
  await expect.poll(() => frames, { timeout: 30_000 }).toBeGreaterThan(10 * TIMES);
  const before = await heap();
  const begun = frames;
  await expect.poll(() => frames - begun, { timeout: 60_000, intervals: [500] }).toBeGreaterThan(FRAMES);
  expect((await heap()) - before, "bytes that the heap grew").toBeLessThan(GROWTH_BYTES_MAX);
});
