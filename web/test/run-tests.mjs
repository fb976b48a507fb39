import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

import { bundling } from "../build.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");

/** Bundles each `*.test.ts` of a directory and hands them to Node's test runner. Resolves to its exit code. */
export async function runTests(directory, names, flags) {
  const files = readdirSync(join(root, directory)).filter((name) => name.endsWith(".test.ts"));
  const chosen = files.filter((file) => names.length === 0 || names.some((name) => file.startsWith(name)));
  if (chosen.length === 0) throw new Error(`no test of ${directory} is called ${names.join(", ")}`);
  const outdir = mkdtempSync(join(root, "../node_modules", ".tidings-test-"));
  try {
    await build({
      ...bundling,
      minify: false,
      sourcemap: "inline",
      platform: "node",
      target: "node20",
      format: "esm",
      packages: "external",
      entryPoints: chosen.map((file) => join(root, directory, file)),
      outdir,
      outExtension: { ".js": ".mjs" },
    });
    const built = chosen.map((file) => join(outdir, file.replace(/\.ts$/, ".mjs")));
    const child = spawn(process.execPath, ["--enable-source-maps", "--test", ...flags, ...built], {
      cwd: root,
      stdio: "inherit",
    });
    return await new Promise((resolve) => child.once("exit", (code) => resolve(code ?? 1)));
  } finally {
    rmSync(outdir, { recursive: true, force: true });
  }
}
