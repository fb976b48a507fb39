import assert from "node:assert/strict";

import { execFile } from "node:child_process";
import { promisify } from "node:util";

import type { Page } from "playwright-core";

import { curl, prelude } from "../src/docs/curl";
import { answers, examplesOf, restGroups } from "../src/docs/reference";
import type { OpenApi } from "../src/docs/spec";
import { barriers } from "./barriers.js";
import { picture, test, world } from "./world.js";

const { device, server } = await world();

/** Opens the reference at a place in it. */
async function open(page: Page, place: string): Promise<void> {
  await page.goto(`${server.url}/docs${place}`);
  await page.getByRole("heading", { level: 1 }).waitFor();
}

test("somebody looks for an operation, reads it and copies its command", async () => {
  const { page, context } = await device();
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await open(page, "");
  await page.getByRole("searchbox").fill("send message");
  await page.getByRole("link", { name: "POST send message" }).click();
  const section = page.locator("#rest-send_message");
  await section.getByRole("button", { name: "Copy: curl" }).click();
  const command = await page.evaluate(() => navigator.clipboard.readText());
  assert.ok(command.startsWith(`curl -X POST "${server.url}/api/v1/chats/$CHAT/messages"`), command);
  await page.locator("#commands").getByRole("button", { name: "Copy: First commands" }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), prelude(server.url));
  await section.getByLabel("Example").selectOption("repeated");
  await section.getByText("Answer 200", { exact: true }).first().waitFor();
  await section.getByRole("link", { name: "NOT_A_MEMBER" }).click();
  assert.equal(new URL(page.url()).hash, "#error-NOT_A_MEMBER");
});

for (const [name, width, height, colorScheme, place] of [
  ["reference", 1440, 900, "light", "#rest-history"],
  ["reference-dark", 1440, 900, "dark", "#frame-sync_response"],
  ["reference-phone", 390, 844, "light", "#rest-create_chat"],
] as const) {
  test(`${name} fits its screen and keeps nobody out`, async () => {
    const { page } = await device({ viewport: { width, height }, colorScheme });
    await open(page, place);
    // The page scrolls after its sections are there.
    await page.waitForFunction((selector) => {
      const section = document.querySelector(selector);
      return section !== null && section.getBoundingClientRect().top < innerHeight / 2;
    }, place);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), 0);
    assert.deepEqual(await barriers(page), []);
    await picture(page, name);
  });
}

test("every command of the reference works as it is, after the first commands", async () => {
  const openapi = (await (await fetch(`${server.url}/openapi.json`)).json()) as OpenApi;
  const entries = restGroups(openapi).flatMap((group) => group.entries);
  const without: string[] = [];
  const examples = entries.flatMap((entry) => {
    const successes = answers(openapi, entry.operation).filter(([status]) => status.startsWith("2"));
    const names = examplesOf(entry.operation, successes);
    return (names.length === 0 ? ["example"] : names).map((example) => ({ entry, example, successes }));
  });
  const failed: string[] = [];
  for (const { entry, example, successes } of examples) {
    const { operationId } = entry.operation;
    const command = curl(server.url, entry, example);
    if (command === undefined) {
      without.push(operationId);
      continue;
    }
    // Each command follows the first commands, so that no example depends on the ones before it.
    const shell = ["-uc", `${prelude(server.url)}\n${command}`];
    const { stdout, stderr } = await promisify(execFile)("bash", shell, { timeout: 60_000 });
    const hasBody = successes.some(([, answer]) => answer.content !== undefined);
    const works = stdout === "" ? !hasBody : Object.keys(JSON.parse(stdout) as object).every((key) => key !== "error");
    if (!works) failed.push(`${operationId} ${example}:\n${command}\n${stdout}${stderr}`);
  }
  assert.deepEqual(failed, []);
  assert.deepEqual(without.sort(), ["add_passkey", "remove_passkey", "sign_in_with_passkey"]);
});
