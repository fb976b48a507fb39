import assert from "node:assert/strict";
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { pathToFileURL } from "node:url";

import type { Page } from "playwright-core";

import { foreign } from "./server.js";
import { browse, PATIENCE_MS, test } from "./world.js";

// The runner starts tests in `web`.
const ROOT = join(process.cwd(), "..");

/** A fenced block of the page: commands, or a file with its name. The name of commands is their directory. */
interface Block {
  language: string;
  name: string | undefined;
  text: string;
}

function blocks(markdown: string): Block[] {
  const fences = markdown.matchAll(/^```(\w+)(?: (\S+))?\n(.*?)^```$/gms);
  return [...fences].map(([, language = "", name, text = ""]) => ({ language, name, text }));
}

/** A free port that no other process takes before this test does: engines have those below, the system gives those above. */
async function freePort(): Promise<number> {
  for (;;) {
    const port = 30_000 + Math.floor(Math.random() * 2_000);
    const isFree = await new Promise<boolean>((resolve) => {
      const probe = createServer();
      probe.once("error", () => resolve(false));
      probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(true)));
    });
    if (isFree) return port;
  }
}

async function answers(url: string): Promise<void> {
  for (const until = Date.now() + PATIENCE_MS; ; ) {
    try {
      await fetch(url);
      return;
    } catch (error) {
      if (Date.now() > until) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

test("the shop of the getting-started page gives its users chat", async () => {
  const binary = process.env["TIDINGS_BIN"];
  assert.ok(binary, "TIDINGS_BIN is not set: give the path of the `tidings` binary to test");
  const directory = mkdtempSync(join(tmpdir(), "tidings-shop-"));
  const clone = mkdtempSync(join(tmpdir(), "tidings-clone-"));
  const children: ChildProcess[] = [];
  after(() => {
    children.forEach((child) => child.kill("SIGKILL"));
    rmSync(directory, { recursive: true, force: true });
    rmSync(clone, { recursive: true, force: true });
  });
  const start = (program: string, ...flags: string[]): ChildProcess => {
    const child = spawn(program, flags, { cwd: directory, stdio: ["ignore", "ignore", "inherit"], env: environment });
    children.push(child);
    return child;
  };
  const [tidings, shop] = [await freePort(), await freePort()];
  const environment = {
    ...foreign(process.env),
    TIDINGS_LISTEN: `127.0.0.1:${tidings}`,
    TIDINGS_ADMIN__LISTEN: "127.0.0.1:0",
  };

  // A newcomer has the committed files alone.
  execFileSync("git", ["clone", "--quiet", "--depth", "1", pathToFileURL(ROOT).href, clone], { stdio: "inherit" });
  const page = readFileSync(join(clone, "docs/getting-started.md"), "utf8");
  const commands: string[] = [];
  const inClone: string[] = [];
  for (const { language, name, text } of blocks(page)) {
    // The page uses the default addresses; a test uses free ones.
    const ours = text.replaceAll("127.0.0.1:8080", `127.0.0.1:${tidings}`).replaceAll(/\b3000\b/g, `${shop}`);
    if (language === "sh") (name === "clone" ? inClone : commands).push(...ours.trim().split("\n"));
    else if (name) writeFileSync(join(directory, name), ours);
  }
  assert.deepEqual(commands, [
    "npm install tidings-client-0.2.0.tgz",
    "node keys.mjs",
    "tidings serve --config tidings.toml",
    "node shop.mjs",
  ]);
  const run = (program: string, ...flags: string[]): void => {
    execFileSync(program, flags, { cwd: directory, stdio: ["ignore", "ignore", "inherit"] });
  };
  assert.equal(inClone.length, 2, inClone.join());
  // Packages come from the cache where it has them.
  const npm = { ...environment, npm_config_prefer_offline: "true", npm_config_audit: "false", npm_config_fund: "false" };
  for (const command of inClone) {
    execFileSync("sh", ["-c", command], { cwd: clone, stdio: ["ignore", "ignore", "inherit"], env: npm });
  }
  copyFileSync(join(clone, "tidings-client-0.2.0.tgz"), join(directory, "tidings-client-0.2.0.tgz"));
  run("npm", "install", "--silent", "--offline", "tidings-client-0.2.0.tgz");
  run("node", "keys.mjs");
  let service = start(binary, "serve", "--config", "tidings.toml");
  await answers(`http://127.0.0.1:${tidings}/healthz`);
  start("node", "shop.mjs");
  await answers(`http://127.0.0.1:${shop}/`);

  const browser = await browse();
  const open = async (user: string): Promise<Page> => {
    const page = await (await browser.newContext()).newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    await page.goto(`http://127.0.0.1:${shop}/?user=${user}`);
    await page.getByText("connected", { exact: true }).waitFor();
    return page;
  };
  const say = async (page: Page, text: string): Promise<void> => {
    await page.getByLabel("Message").fill(text);
    await page.getByRole("button", { name: "Send" }).click();
  };
  const [ann, bob] = [await open("ann"), await open("bob")];
  await say(ann, "Is the lamp still there?");
  await bob.getByText("Ann: Is the lamp still there?").waitFor();
  await say(bob, "The last one.");
  await ann.getByText("Bob: The last one.").waitFor();

  const gone = new Promise((resolve) => service.once("exit", resolve));
  service.kill("SIGKILL");
  await gone;
  await ann.getByText("offline; what you write is kept").waitFor();
  await say(ann, "I take it");
  await say(ann, "and the shade.");
  service = start(binary, "serve", "--config", "tidings.toml");
  await bob.getByText("Ann: and the shade.").waitFor();
  const said = ["Ann: Is the lamp still there?", "Bob: The last one.", "Ann: I take it", "Ann: and the shade."];
  assert.deepEqual(await bob.locator("li").allTextContents(), said);
  await ann.getByText("Ann: and the shade.").waitFor();
  assert.deepEqual(await ann.locator("li").allTextContents(), said);
  await ann.reload();
  await ann.getByText("Ann: and the shade.").waitFor();
  assert.deepEqual(await ann.locator("li").allTextContents(), said);
});
