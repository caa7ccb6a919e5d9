// Tests in the browser against a real node, which `tests/tests/studio.rs` starts; see e2e/README.md.
import { join } from "node:path";
import { defineConfig } from "@playwright/test";
import { place } from "./e2e/place";

export default defineConfig({
  testDir: "e2e",
  outputDir: join(place.folder, "results"),
  // One node, one after the other: they share its flows.
  workers: 1,
  fullyParallel: false,
  retries: 0,
  forbidOnly: true,
  timeout: 60_000,
  expect: { timeout: 15_000 },
  reporter: "list",
  use: {
    baseURL: place.url,
    viewport: { width: 1680, height: 1050 },
    actionTimeout: 15_000,
    acceptDownloads: true,
    screenshot: "only-on-failure",
    trace: process.env["STUDIO_TRACE"] ? "retain-on-failure" : "off",
    launchOptions: {
      executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
      args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-quic", "--no-first-run", "--disable-component-update", "--disable-sync", "--enable-precise-memory-info"],
    },
  },
});
