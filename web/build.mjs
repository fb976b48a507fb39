// Builds the pages that the binary serves: `web/src/{client,console,docs}` to `web/dist`, byte for byte the same on
// every machine.
//
//   node build.mjs           writes web/dist
//   node build.mjs --check   exits 1 and names the file if web/dist is not what the sources give
//
// A page is `src/PAGE/main.tsx` (which imports its style sheets) and `src/PAGE/index.html`. They become `PAGE.js`,
// `PAGE.css` and `PAGE.html`, but for the client's page, which is `index.html`. The server has `PAGE.js`, `PAGE.css`,
// `theme.js` and the pictures of `src/static` under `/assets/`, and `sw.js` and the manifest at the root. An HTML
// file that names anything else under `/assets/` is refused here.

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const source = join(here, "src");
const dist = join(here, "dist");

/** Settings that every bundle shares. */
export const bundling = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  legalComments: "none",
  charset: "utf8",
  target: ["chrome111", "firefox113", "safari16.4"],
  jsx: "automatic",
  jsxImportSource: "preact",
  alias: { "@tidings/client": join(here, "../clients/typescript/src/index.ts") },
  define: { "process.env.NODE_ENV": '"production"' },
  logLevel: "warning",
};

/** Everything that belongs into `web/dist`, by name. */
export async function outputs() {
  const files = new Map();
  const pages = ["client", "console", "docs"].filter((page) => existsSync(join(source, page, "main.tsx")));
  const entryPoints = pages.map((page) => ({ in: join(source, page, "main.tsx"), out: page }));
  // Pages share nothing at run time: each loads two files, whatever the others grow to.
  await bundle(files, { entryPoints, format: "esm" });
  await bundle(files, { entryPoints: [{ in: join(source, "shared/theme.ts"), out: "theme" }], format: "iife" });
  for (const page of pages) {
    files.set(page === "client" ? "index.html" : `${page}.html`, readFileSync(join(source, page, "index.html")));
  }
  for (const name of readdirSync(join(source, "static"))) {
    files.set(name, readFileSync(join(source, "static", name)));
  }
  checkReferences(files);
  // The service worker keeps the client's files under the digest of all of them, so a new build is a new shell.
  const digest = createHash("sha256");
  for (const name of ["index.html", "client.js", "client.css", "theme.js"]) digest.update(files.get(name) ?? "");
  const define = { ...bundling.define, SHELL_VERSION: JSON.stringify(digest.digest("hex").slice(0, 16)) };
  await bundle(files, { entryPoints: [{ in: join(source, "client/sw.ts"), out: "sw" }], format: "iife", define });
  return new Map([...files].sort(([a], [b]) => (a < b ? -1 : 1)));
}

async function bundle(files, options) {
  const { outputFiles } = await build({ ...bundling, ...options, write: false, outdir: dist });
  for (const { path, contents } of outputFiles) files.set(path.slice(dist.length + 1), Buffer.from(contents));
}

function checkReferences(files) {
  for (const [name, bytes] of files) {
    if (!name.endsWith(".html")) continue;
    for (const [, asset] of bytes.toString().matchAll(/"\/assets\/([^"]+)"/g)) {
      if (!files.has(asset)) throw new Error(`${name} names /assets/${asset}, which no source gives`);
    }
  }
}

function write(files) {
  mkdirSync(dist, { recursive: true });
  for (const name of differences(files)) {
    const bytes = files.get(name);
    if (bytes) writeFileSync(join(dist, name), bytes);
    else rmSync(join(dist, name));
  }
  for (const [name, bytes] of files)
    console.log(`${name.padEnd(24)} ${(bytes.length / 1024).toFixed(1).padStart(8)} kB`);
}

/** The names of the files in which `web/dist` differs from its sources. */
function differences(files) {
  const present = existsSync(dist) ? readdirSync(dist) : [];
  const stale = [...files].filter(
    ([name, bytes]) => !present.includes(name) || !readFileSync(join(dist, name)).equals(bytes),
  );
  return [...stale.map(([name]) => name), ...present.filter((name) => !files.has(name))];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const files = await outputs();
  if (process.argv.includes("--check")) {
    const different = differences(files);
    for (const name of different)
      console.error(`web/dist/${name} is not what web/src gives; run \`npm run build -w web\``);
    process.exitCode = different.length > 0 ? 1 : 0;
  } else {
    write(files);
  }
}
