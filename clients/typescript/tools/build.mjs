// Compiles the package into dist/: `npm run build`.

import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const tsc = compiler();

rmSync(new URL("../dist", import.meta.url), { recursive: true, force: true });
process.exitCode = spawnSync(process.execPath, [tsc, "-p", "tsconfig.build.json"], {
  cwd: root,
  stdio: "inherit",
}).status;

function compiler() {
  try {
    return createRequire(import.meta.url).resolve("typescript/bin/tsc");
  } catch {
    console.error("the compiler is not installed; run `npm ci --workspace clients/typescript` in the repository first");
    process.exit(1);
  }
}
