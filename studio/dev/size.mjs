// How large the built studio is as browsers fetch it: fails beyond the budget.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const BYTES_MAX = 300 * 1024;
const dist = new URL("../dist/", import.meta.url).pathname;

function files(folder) {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? files(path) : [path];
  });
}

const sizes = files(dist).map((path) => ({
  path: path.slice(dist.length),
  bytes: gzipSync(readFileSync(path), { level: 9 }).length,
}));
const total = sizes.reduce((sum, { bytes }) => sum + bytes, 0);
for (const { path, bytes } of sizes.sort((a, b) => b.bytes - a.bytes).slice(0, 12)) {
  console.log(`${(bytes / 1024).toFixed(1).padStart(8)} KiB  ${path}`);
}
console.log(`${(total / 1024).toFixed(1).padStart(8)} KiB  in all, gzipped, of ${BYTES_MAX / 1024}`);

const index = readFileSync(join(dist, "index.html"), "utf8");
if (/<style|<script(?![^>]*\ssrc=)|\sstyle=|\son[a-z]+=/i.test(index)) {
  console.error("index.html has inline code or styles, which the node does not allow");
  process.exit(1);
}
if (total > BYTES_MAX) {
  console.error("The studio is larger than its budget");
  process.exit(1);
}
