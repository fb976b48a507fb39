// Builds the package and packs it: `npm run pack`, or `node tools/pack.mjs DIRECTORY` to write the archive elsewhere.
//
// The package is staged in a directory of its own, with the version of the repository. The manifest of the sources has
// no version, so `npm pack` refuses to pack the sources, which have no dist.

import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const destination = resolve(process.argv[2] ?? process.env.INIT_CWD ?? process.cwd());

run(process.execPath, [join(root, "tools/build.mjs")]);
const stage = mkdtempSync(join(tmpdir(), "tidings-client-"));
try {
  for (const name of ["dist", "README.md", "LICENSE"]) cpSync(join(root, name), join(stage, name), { recursive: true });
  const { version } = read(join(root, "../../package.json"));
  const { scripts: _, devDependencies: __, ...manifest } = read(join(root, "package.json"));
  writeFileSync(join(stage, "package.json"), `${JSON.stringify({ ...manifest, version }, null, 2)}\n`);
  run("npm", ["pack", "--loglevel=error", "--pack-destination", destination], stage);
} finally {
  rmSync(stage, { recursive: true, force: true });
}

function read(file) {
  return JSON.parse(readFileSync(file, "utf8"));
}

function run(command, args, cwd = root) {
  const { status } = spawnSync(command, args, { cwd, stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}
