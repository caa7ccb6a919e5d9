// Measures the studio in a real browser, with a node that `hivewire-bench` starts, and prints one line of JSON:
// {"value": …, "note": "…"}. The environment says where: STUDIO is the address, TOKEN the token, FLOW the flow to look at,
// STAGE one of its stages, CHROMIUM the browser.
//   node dev/measure.mjs first-view | frames | updates | day HOURS
import { chromium } from "playwright-core";

const { STUDIO: address, TOKEN: token, FLOW: flow, STAGE: stage } = process.env;
const [what, amount] = process.argv.slice(2);
const VIEWPORT = { width: 1680, height: 1050 };
const WAIT_MS = 60_000;

const round = (value, digits = 1) => Number(value.toFixed(digits));
/** The value that this share of them does not exceed. */
function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

/** A page that is signed in, at this path, and shows its heading. */
async function signedIn(context, path) {
  const page = await context.newPage();
  await page.goto(`${address}/#token=${encodeURIComponent(token)}`);
  await page.waitForSelector("main h1");
  if (path) await page.goto(`${address}/#${path}`);
  return page;
}

/** The page of the flow, so near to one of its stages that it can be read, as soon as its numbers move. */
async function flowPage(context) {
  const page = await signedIn(context, `/flows/${flow}?stage=${stage}`);
  await page.waitForSelector(".svelte-flow__node");
  await page.waitForFunction(() => /[1-9][\d.,]*(k|M)?\/s/.test(document.querySelector(".svelte-flow")?.textContent ?? ""), null, { timeout: WAIT_MS });
  return page;
}

const measures = {
  /** From the first request, with nothing cached, until everything that the first page shows is there. */
  async "first-view"(browser) {
    const context = await browser.newContext({ viewport: VIEWPORT });
    const page = await context.newPage();
    let bytes = 0, files = 0;
    const session = await context.newCDPSession(page);
    await session.send("Network.enable");
    session.on("Network.loadingFinished", ({ encodedDataLength }) => ((bytes += encodedDataLength), files++));
    await page.addInitScript(() => {
      const whole = () => document.querySelector("#examples ~ * h3, #examples ~ * h2, .gallery > *") && /Connected/.test(document.querySelector("header [role=status]")?.textContent ?? "");
      const look = () => (whole() ? requestAnimationFrame(() => (globalThis.shown_ms = performance.now())) : requestAnimationFrame(look));
      look();
    });
    await page.goto(`${address}/#token=${encodeURIComponent(token)}`);
    const shown = await page.waitForFunction(() => globalThis.shown_ms, null, { timeout: WAIT_MS });
    const value = await shown.jsonValue();
    const painted = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0);
    return { value, note: `first paint after ${Math.round(painted)} ms; ${files} files and answers, ${round(bytes / 1024, 0)} KiB` };
  },

  /** How long the frames of the screen take while somebody drags the canvas about, first near enough to read and then with all of it in view. */
  async frames(browser) {
    const context = await browser.newContext({ viewport: VIEWPORT });
    const page = await flowPage(context);
    const box = await page.locator(".svelte-flow__pane").boundingBox();
    const drag = async () => {
      const place = () => page.locator(".svelte-flow__viewport").evaluate((viewport) => viewport.style.transform);
      const before = await place();
      await page.evaluate(() => {
        globalThis.frames_ms = [];
        let last = performance.now();
        globalThis.frames_end = false;
        const frame = (now) => {
          globalThis.frames_ms.push(now - last);
          last = now;
          if (!globalThis.frames_end) requestAnimationFrame(frame);
        };
        requestAnimationFrame(frame);
      });
      // A place without stages: the drag must move the canvas and no stage.
      const free = await page.evaluate(({ left, top, width, height }) => {
        for (let across = 100; across < width - 100; across += 10)
          for (let down = 40; down < height - 40; down += 10)
            if (document.elementFromPoint(left + across, top + down)?.matches(".svelte-flow__pane")) return [left + across, top + down];
        return null;
      }, { left: box.x, top: box.y, width: box.width, height: box.height });
      if (!free) throw new Error("there is no place without a stage");
      const [x, y] = free;
      const begun = Date.now();
      let moved = false;
      await page.mouse.move(x, y);
      await page.mouse.down();
      for (let step = 0; Date.now() - begun < 5_000; step++) {
        await page.mouse.move(x + 400 * Math.sin(step / 12), y + 200 * (1 - Math.cos(step / 12)));
        if (step % 20 === 10 && (await place()) !== before) moved = true;
      }
      await page.mouse.up();
      if (!moved) throw new Error("the canvas did not move");
      return page.evaluate(() => ((globalThis.frames_end = true), globalThis.frames_ms.slice(1)));
    };
    const near = await drag();
    await page.keyboard.press("f");
    await page.waitForFunction((most) => document.querySelectorAll(".svelte-flow__node").length >= most, Number(amount), { timeout: WAIT_MS });
    const all = await drag();
    const said = (name, frames) => `${name}: ${round(quantile(frames, 0.5))} ms, 95 of 100 at most ${round(quantile(frames, 0.95))} ms, the longest ${round(Math.max(...frames))} ms`;
    return { value: Math.max(quantile(near, 0.95), quantile(all, 0.95)), note: `${said("near", near)}; ${said("all in view", all)}` };
  },

  /** How many frames of live numbers come in any one second. */
  async updates(browser) {
    const context = await browser.newContext({ viewport: VIEWPORT });
    const at = [];
    let bytes = 0;
    context.on("page", (page) => page.on("websocket", (socket) => {
      if (!new URL(socket.url()).pathname.endsWith("/live")) return;
      socket.on("framereceived", ({ payload }) => (at.push(performance.now()), (bytes += payload.length)));
    }));
    const page = await flowPage(context);
    at.length = bytes = 0;
    await page.waitForTimeout(10_000);
    if (at.length === 0) throw new Error("no numbers came");
    const most = Math.max(...at.map((begin) => at.filter((time) => time >= begin && time < begin + 1_000).length));
    return { value: most, note: `${round(at.length / 10)} a second on average, ${round(bytes / at.length / 1024)} KiB each` };
  },

  /** By how much the heap grows over so many hours, whose clock runs faster than ours: timers, frames of numbers and frames of the screen are all there. */
  async day(browser) {
    const hours = Number(amount);
    const context = await browser.newContext({ viewport: VIEWPORT });
    const page = await context.newPage();
    await page.clock.install();
    await page.addInitScript(() => {
      // What the node sent last comes again, four times a second of the faster clock.
      const Real = WebSocket;
      globalThis.WebSocket = class extends Real {
        constructor(url, protocols) {
          super(url, protocols);
          if (!new URL(url).pathname.endsWith("/live")) return;
          const recent = [];
          let next = 0;
          this.addEventListener("message", ({ data, isTrusted }) => isTrusted && recent.length < 40 && recent.push(data));
          const timer = setInterval(() => {
            if (recent.length < 2) return;
            next = (next % (recent.length - 1)) + 1;
            globalThis.frames_told = (globalThis.frames_told ?? 0) + 1;
            this.dispatchEvent(new MessageEvent("message", { data: recent[next] }));
          }, 250);
          this.addEventListener("close", () => clearInterval(timer));
        }
      };
    });
    await page.goto(`${address}/#token=${encodeURIComponent(token)}`);
    await page.waitForSelector("main h1");
    await page.goto(`${address}/#/flows/${flow}?stage=${stage}`);
    await page.waitForSelector(".svelte-flow__node");
    await page.waitForTimeout(12_000);
    const session = await context.newCDPSession(page);
    const heap = async () => {
      await session.send("HeapProfiler.collectGarbage");
      return (await session.send("Runtime.getHeapUsage")).usedSize;
    };
    const nodes = () => page.evaluate(() => document.querySelectorAll("*").length);
    // Charts fill up in five minutes; ten is as it stays.
    await page.clock.runFor(10 * 60_000);
    const [bytes, elements, told] = [await heap(), await nodes(), await page.evaluate(() => globalThis.frames_told ?? 0)];
    for (let minute = 0; minute < hours * 60; minute += 10) await page.clock.runFor(10 * 60_000);
    const grown = (await heap()) - bytes;
    const frames = (await page.evaluate(() => globalThis.frames_told)) - told;
    if (frames < hours * 3_600 * 3) throw new Error(`only ${frames} frames in ${hours} hours`);
    return { value: Math.max(0, grown) / 1_048_576, note: `${round(bytes / 1_048_576)} MiB after ten minutes, ${round((bytes + grown) / 1_048_576)} MiB after ${hours} h and ${frames} frames; ${(await nodes()) - elements} elements more` };
  },
};

const measure = measures[what];
if (!measure) throw new Error(`what? ${Object.keys(measures).join(", ")}`);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-quic", "--no-first-run", "--disable-component-update", "--disable-sync", "--enable-precise-memory-info"],
});
try {
  console.log(JSON.stringify(await measure(browser)));
} finally {
  await browser.close();
}
