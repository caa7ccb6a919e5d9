// Called by the build: node componentize.mjs TOOL ENTRY WIT OUT

import { writeFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";

const [tool, sourcePath, witPath, out] = process.argv.slice(2);
const { componentize } = await import(pathToFileURL(tool));
// Without these the component needs nothing but the world of a worker.
const disableFeatures = ["stdio", "random", "clocks", "http", "fetch-event"];
const { component } = await componentize({ sourcePath, witPath, worldName: "worker", disableFeatures });
await writeFile(out, component);
