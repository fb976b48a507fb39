import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { Server } from "./server.js";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const require = createRequire(import.meta.url);
const app = mkdtempSync(join(tmpdir(), "tidings-app-"));
let packed: string[] = [];

/** Packs the SDK and installs it in a separate application, as a user would. */
before(() => {
  // A clone has no dist: packing builds it.
  rmSync(join(root, "dist"), { recursive: true, force: true });
  const tarball = run(root, process.execPath, "tools/pack.mjs", app).trim();
  packed = run(app, "tar", "-tzf", tarball).trim().split("\n").map((path) => path.replace(/^package\//, ""));
  writeFileSync(join(app, "package.json"), JSON.stringify({ name: "app", type: "module", private: true }));
  run(app, "npm", "install", "--offline", "--no-audit", "--no-fund", `./${tarball}`);
});

after(() => rmSync(app, { recursive: true, force: true }));

test("the package holds what is compiled, its words and its licence", () => {
  const others = packed.filter((path) => !/^dist\/[\w/-]+\.(js|d\.ts)$/.test(path));
  assert.deepEqual(others.sort(), ["LICENSE", "README.md", "package.json"]);
  assert.ok(packed.includes("dist/index.js") && packed.includes("dist/index.d.ts"), packed.join(" "));
});

test("the sources cannot be packed by mistake: they have no dist", () => {
  const { status, stderr } = spawnSync("npm", ["pack", "--dry-run"], { cwd: root, encoding: "utf8" });
  assert.notEqual(status, 0);
  assert.match(stderr, /must have name and version/);
});

test("the package can be imported, and nothing else comes with it", () => {
  const script = 'import * as sdk from "@tidings/client"; console.log(Object.keys(sdk).sort().join(" "))';
  const names = run(app, process.execPath, "--input-type=module", "--eval", script).trim();
  const functions = "indexedDbStorage memoryStorage newer revisionOf supportsPasskeys withQueued withUpdated";
  assert.equal(names, `Api ApiError Client SendError ${functions}`);
  assert.deepEqual(
    JSON.parse(run(app, "npm", "ls", "--json", "--all")).dependencies["@tidings/client"].dependencies,
    undefined,
  );
});

test("every snippet of the README fits the types of the package", () => {
  const { story, others } = snippets();
  const files = [story, ...others].map((text, n) => {
    const file = `snippet-${n}.ts`;
    writeFileSync(join(app, file), text);
    return file;
  });
  const options = ["--noEmit", "--strict", "--target", "ES2022", "--module", "NodeNext", "--lib", "ES2022,DOM"];
  run(app, process.execPath, require.resolve("typescript/bin/tsc"), ...options, ...files);
});

test("the story of the README runs against the real server", async () => {
  const server = await Server.run();
  try {
    const file = join(app, "story.ts");
    writeFileSync(file, snippets().story.replaceAll("http://127.0.0.1:8080", server.baseUrl));
    const compiler = ["--target", "ES2022", "--module", "NodeNext", "--lib", "ES2022,DOM", "--strict"];
    run(app, process.execPath, require.resolve("typescript/bin/tsc"), ...compiler, file);
    const told = run(app, process.execPath, ...process.execArgv.filter(isForSockets), "story.js");
    assert.deepEqual(told.trim().split("\n"), [
      "durable as message 1",
      "Bob heard Hello, Bob",
      "Bob has read up to 2",
      "[ [ '👋' ] ]",
      "Hello",
      "waiting: 1",
      "waiting: 0",
      "[ 'Written offline', 'Hello' ]",
      "no such chat",
    ]);
  } finally {
    await server.remove();
  }
});

/** The snippets that run as one program, and the standalone ones, which need a browser or another server. */
function snippets(): { story: string; others: string[] } {
  const readme = readFileSync(join(root, "README.md"), "utf8");
  const blocks = [...readme.matchAll(/^```ts( \w+)?\n([^]*?)^```$/gm)];
  const story = blocks.filter(([, tag]) => tag === undefined).map(([, , code]) => code);
  const others = blocks.filter(([, tag]) => tag !== undefined).map(([, , code = ""]) => code);
  assert.ok(story.length >= 5 && others.length >= 2, "the README has lost its snippets");
  return { story: story.join("\n"), others };
}

function isForSockets(argument: string): boolean {
  return argument === "--experimental-websocket" || argument === "--no-warnings";
}

function run(cwd: string, command: string, ...args: string[]): string {
  try {
    return execFileSync(command, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], timeout: 120_000 });
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    throw new Error(`${command} ${args.join(" ")}\n${stdout}\n${stderr}`, { cause: error });
  }
}
