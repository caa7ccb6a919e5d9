import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";
import { mock } from "./dev/mock";

// The node serves the page under a policy that allows no inline script and no inline style element, so
// nothing may be inlined: neither small assets nor the preload helper of other browsers.
export default defineConfig({
  plugins: [svelte({ configFile: "./svelte.config.js" }), mock()],
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 400,
  },
  server: { host: "127.0.0.1", port: 5173, strictPort: true },
  resolve: process.env["VITEST"] ? { conditions: ["browser"] } : {},
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});
