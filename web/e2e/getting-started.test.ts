import assert from "node:assert/strict";
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";

import type { Page } from "playwright-core";

import { foreign } from "./server.js";
import { browse, PATIENCE_MS, test } from "./world.js";

// The runner starts tests in `web`.
const ROOT = join(process.cwd(), "..");

/** A fenced block of the page: a file if it has a name, otherwise commands. */
interface Block {
  language: string;
  file: string | undefined;
  text: string;
}

function blocks(markdown: string): Block[] {
  const fences = markdown.matchAll(/^```(\w+)(?: (\S+))?\n(.*?)^```$/gms);
  return [...fences].map(([, language = "", file, text = ""]) => ({ language, file, text }));
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
  const children: ChildProcess[] = [];
  after(() => {
    children.forEach((child) => child.kill("SIGKILL"));
    rmSync(directory, { recursive: true, force: true });
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

  const page = readFileSync(join(ROOT, "docs/getting-started.md"), "utf8");
  const commands: string[] = [];
  for (const { language, file, text } of blocks(page)) {
    // The page uses the default addresses; a test uses free ones.
    const ours = text.replaceAll("127.0.0.1:8080", `127.0.0.1:${tidings}`).replaceAll(/\b3000\b/g, `${shop}`);
    if (file) writeFileSync(join(directory, file), ours);
    else if (language === "sh") commands.push(ours.trim());
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
  run("npm", "pack", "--silent", "--prefix", ROOT, "--workspace", "clients/typescript", "--pack-destination", directory);
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
