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
    minify: "terser",
    terserOptions: { ecma: 2020, module: true, compress: { passes: 2, keep_fargs: false, unsafe_arrows: true } },
    // The small parts of the design travel together, and so do the pages of those who operate nodes: many small
    // files compress badly.
    rollupOptions: {
      output: {
        manualChunks: (id) =>
          /\/src\/(ui|api|format|live|router|session|shell)\/(?!chart-library)|\/node_modules\/svelte\//i.test(id) ? "parts"
            : /\/src\/(cluster|crawl|alerts|logs|services|pages\/(Cluster|Crawl|Alerts|Logs|Services))/.test(id) ? "operate" : undefined,
      },
    },
  },
  preview: {
    host: "127.0.0.1",
    port: 5174,
    strictPort: true,
    headers: {
      "Content-Security-Policy":
        "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' data:; " +
        "font-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    },
  },
  server: { host: "127.0.0.1", port: 5173, strictPort: true },
  resolve: process.env["VITEST"] ? { conditions: ["browser"] } : {},
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});
