// Pictures of pages: `npm run dev` in one terminal, then `npm run shots -- /gallery /flows`. They go to shots/.
// CHROMIUM names the browser, STUDIO the address, TOKEN the token.
import { mkdirSync } from "node:fs";
import { chromium } from "playwright-core";

const address = process.env.STUDIO ?? "http://127.0.0.1:5173";
const token = process.env.TOKEN ?? "mock";
const paths = process.argv.slice(2);
const folder = new URL("../shots/", import.meta.url).pathname;
const looks = [
  { name: "light", width: 1280, height: 800, colorScheme: "light" },
  { name: "dark", width: 1280, height: 800, colorScheme: "dark" },
  { name: "tablet", width: 820, height: 1180, colorScheme: "light" },
];

mkdirSync(folder, { recursive: true });
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-quic", "--no-first-run", "--disable-component-update", "--disable-sync"],
});
let failures = 0;
for (const { name, width, height, colorScheme } of looks) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme });
  const page = await context.newPage();
  page.on("console", (message) => message.type() === "error" && (failures++, console.error(`${name}: ${message.text()}`)));
  page.on("pageerror", (error) => (failures++, console.error(`${name}: ${error.stack}`)));
  await page.goto(`${address}/#token=${encodeURIComponent(token)}`);
  await page.waitForSelector("main h1");
  for (const path of paths.length > 0 ? paths : ["/"]) {
    await page.goto(`${address}/#${path}`);
    await page.waitForTimeout(Number(process.env.WAIT_MS ?? 1_500));
    const file = `${folder}${path.replace(/[^a-z0-9]+/gi, "-").replace(/^-|-$/g, "") || "home"}-${name}.png`;
    await page.screenshot({ path: file, fullPage: false });
    console.log(file);
  }
  await context.close();
}
await browser.close();
process.exit(failures > 0 ? 1 : 0);
