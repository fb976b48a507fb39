// Prints the size of the SDK in a page, minified and compressed, and fails above the limit: `npm run size`.

import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import { build } from "esbuild";

const BYTES_MAX = 15 * 1024;

const { outputFiles } = await build({
  entryPoints: [fileURLToPath(new URL("../src/index.ts", import.meta.url))],
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  write: false,
});
const minified = outputFiles[0].contents;
const compressed = gzipSync(minified, { level: 9 }).length;
console.log(`${minified.length} bytes minified, ${compressed} with gzip, limit is ${BYTES_MAX}`);
process.exitCode = compressed > BYTES_MAX ? 1 : 0;
