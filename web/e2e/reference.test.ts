import assert from "node:assert/strict";

import type { Page } from "playwright-core";

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
  assert.match(command, new RegExp(`^curl -X POST "${server.url}/api/v1/chats/chat_`));
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
