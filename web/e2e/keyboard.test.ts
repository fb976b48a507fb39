import assert from "node:assert/strict";

import type { Page } from "playwright-core";

import { newPhone, openDirect, said, say, sees, signIn, test, world } from "./world.js";

const { device } = await world();

/** Waits until a field has the focus: keys that are pressed before go elsewhere. */
async function focused(page: Page, label: string): Promise<void> {
  await page.getByLabel(label).and(page.locator(":focus")).waitFor();
}

test("signing in, finding somebody and writing needs no mouse", async () => {
  const [adasPhone, bobsPhone, cleosPhone] = [newPhone(), newPhone(), newPhone()];
  const { page: bob } = await device();
  await signIn(bob, bobsPhone, "Bob");
  const { page: cleo } = await device();
  await signIn(cleo, cleosPhone, "Cleo");
  await openDirect(cleo, bobsPhone);
  await say(cleo, "from Cleo");

  const { page } = await device();
  const { keyboard } = page;
  await focused(page, "Phone number");
  await keyboard.type(adasPhone);
  await keyboard.press("Enter");
  await page.locator("input.code-input:focus").waitFor();
  await keyboard.type("000000");
  await focused(page, "Your name");
  await keyboard.type("Ada");
  await keyboard.press("Enter");
  await page.getByRole("heading", { name: "Chats", exact: true }).waitFor();

  for (const phone of [cleosPhone, bobsPhone]) {
    await page.getByRole("button", { name: "New chat" }).first().focus();
    await keyboard.press("Enter");
    await page.locator("dialog[open] input:focus").waitFor();
    await keyboard.type(phone);
    await keyboard.press("Enter");
    await page.locator(".person").waitFor();
    await keyboard.press("Enter");
    await page.locator("textarea:focus").waitFor();
    await keyboard.type(`to ${phone}`);
    await keyboard.press("Shift+Enter");
    await keyboard.type("second line");
    await keyboard.press("Enter");
    await sees(page, `to ${phone}`);
  }
  assert.deepEqual(await said(page), [`to ${bobsPhone}\nsecond line`]);

  await keyboard.press("Control+k");
  await focused(page, "Find a chat by name");
  await keyboard.type("cle");
  await keyboard.press("Enter");
  await page.locator(".chat-name", { hasText: "Cleo" }).waitFor();
  await sees(page, `to ${cleosPhone}`);

  // Escape leads to the row, the arrows from row to row, Enter into the chat.
  await page.locator("textarea:focus").waitFor();
  await keyboard.press("Escape");
  await page.locator("[data-row]:focus", { hasText: "Cleo" }).waitFor();
  await keyboard.press("ArrowUp");
  await page.locator("[data-row]:focus", { hasText: "Bob" }).waitFor();
  await keyboard.press("Enter");
  await page.locator(".chat-name", { hasText: "Bob" }).waitFor();
});
