// Compiles sources and tests into build/ and runs one folder of tests: `npm test`, `npm run test:server`.

import { spawnSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");
const folder = process.argv[2];
const filters = process.argv.slice(3);

rmSync(new URL("../build", import.meta.url), { recursive: true, force: true });
run([tsc, "-p", "tsconfig.json"]);
const files = readdirSync(new URL(`../build/test/${folder}`, import.meta.url))
  .filter((name) => name.endsWith(".test.js"))
  .map((name) => `build/test/${folder}/${name}`);
// Node has a WebSocket of its own since 22.
const webSocket = typeof WebSocket === "function" ? [] : ["--experimental-websocket", "--no-warnings"];
run([...webSocket, "--test", ...filters, ...files]);

function run(args) {
  const { status } = spawnSync(process.execPath, args, { cwd: root, stdio: "inherit" });
  if (status !== 0) {
    process.exit(status ?? 1);
  }
}
