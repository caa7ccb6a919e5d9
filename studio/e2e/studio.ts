// What all specs share: a page that is signed in and watched, the node behind it, and wishes to whoever started it.
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test as plain, type Page } from "@playwright/test";
import { place } from "./place";

export { expect, place };

/** What a page did that it must not do. */
export class Watch {
  readonly wrong: string[] = [];
  /** Console messages that are expected: that there is no flow of a name yet, or, in some tests, no node. */
  allowed: RegExp[] = [/404 \(Not Found\) \(\S+\/api\/v1\/(documents|flows|crawls)\/[\w-]+\)$/];

  constructor(page: Page) {
    page.on("console", (message) => {
      const text = `${message.text()} (${message.location().url.split("?")[0]})`;
      if (message.type() === "error" && !this.allowed.some((pattern) => pattern.test(text))) this.wrong.push(`console: ${text}`);
    });
    page.on("pageerror", (error) => this.wrong.push(`error: ${error.stack ?? error.message}`));
    const seen = (address: string) => {
      const { host, protocol } = new URL(address);
      if (!["data:", "blob:"].includes(protocol) && host !== new URL(place.url).host) this.wrong.push(`left the node: ${address}`);
    };
    page.on("request", (request) => seen(request.url()));
    page.on("websocket", (socket) => seen(socket.url()));
  }

  /** What was wrong so far, which then is no more. */
  taken(): string[] {
    return this.wrong.splice(0);
  }
}

interface Fixtures {
  watch: Watch;
  /** Signs in and goes to a page. */
  open: (path: string) => Promise<void>;
}

export const test = plain.extend<Fixtures>({
  watch: [
    async ({ page }, use) => {
      const watch = new Watch(page);
      await page.addInitScript(() => {
        document.addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
      });
      await use(watch);
      expect(watch.wrong, "what the page must not do").toEqual([]);
    },
    { auto: true },
  ],
  open: async ({ page }, use) => {
    let isSignedIn = false;
    await use(async (path) => {
      if (!isSignedIn) {
        await page.goto(`/#token=${encodeURIComponent(place.token)}`);
        await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
        isSignedIn = true;
      }
      await page.goto(`/#${path}`);
    });
  },
});

/** Asks the node something; fails if it does not do it. */
export async function node<T = unknown>(method: string, path: string, body?: unknown): Promise<T> {
  const answer = await fetch(`${place.url}${path}`, {
    method,
    headers: { Authorization: `Bearer ${place.token}`, ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
    body: body === undefined ? null : JSON.stringify(body),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  return (text === "" ? undefined : JSON.parse(text)) as T;
}

export interface Doc {
  flow: string;
  stages: Record<string, { plugin: string; parameters?: unknown; outputs?: Record<string, string | string[]> }>;
  http?: { route: string; stage: string; reply?: boolean; timeout?: string; headers?: string[] }[];
}

/** Makes a flow what a document says. */
export async function apply(document: Doc): Promise<void> {
  await node("PUT", `/api/v1/documents/${document.flow}`, document);
}

/** Stops a flow, whether or not it runs. */
export async function stop(flow: string): Promise<void> {
  await node("DELETE", `/api/v1/flows/${flow}`).catch(() => {});
}

/** Asks whoever started the tests to do something, and waits until it is done. */
export async function wish(what: "applied" | "down" | "up" | "join"): Promise<void> {
  const done = join(place.folder, `done-${what}`);
  rmSync(done, { force: true });
  writeFileSync(join(place.folder, `wish-${what}`), "");
  await expect.poll(() => existsSync(done), { message: `nobody did: ${what}`, timeout: 30_000 }).toBe(true);
}

/** A picture of what is shown. */
export async function picture(page: Page, name: string): Promise<void> {
  const folder = join(place.folder, "pictures");
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`), animations: "disabled", caret: "hide" });
}

/** What is exported through the menu of the page of a flow, as JSON. */
export async function exported(page: Page): Promise<Doc> {
  await page.getByRole("button", { name: "More", exact: true }).click();
  const download = page.waitForEvent("download");
  await page.getByRole("menuitem", { name: "Export as JSON" }).click();
  const stream = await (await download).createReadStream();
  let text = "";
  for await (const chunk of stream) text += String(chunk);
  return JSON.parse(text) as Doc;
}
