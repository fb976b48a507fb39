import assert from "node:assert/strict";

import type { Page } from "playwright-core";

import { newPhone, openDirect, openRow, picture, say, sees, signIn, test, world } from "./world.js";

const { device } = await world();

/** Waits for the title of the window, which follows the list. */
async function hasTitle(page: Page, title: string): Promise<void> {
  await page.waitForFunction((expected) => document.title === expected, title);
}

test("what is read on one device is read on the other", async () => {
  const [adasPhone, bobsPhone] = [newPhone(), newPhone()];
  const { page: ada } = await device();
  const { page: laptop } = await device();
  const { page: phone } = await device({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  await signIn(ada, adasPhone, "Ada");
  await signIn(laptop, bobsPhone, "Bob");
  await signIn(phone, bobsPhone);
  await openDirect(ada, bobsPhone);
  for (const text of ["one", "two", "three"]) await say(ada, text);

  for (const page of [laptop, phone]) {
    await page.locator("[data-row] .badge", { hasText: "3 unread" }).waitFor();
    await hasTitle(page, "(3) Tidings");
  }
  await openRow(laptop, "Ada");
  await sees(laptop, "three");
  await phone.locator("[data-row] .badge").waitFor({ state: "detached" });
  await hasTitle(phone, "Tidings");
});

test("a device that is signed out from another one says so and keeps nothing", async () => {
  const phoneNumber = newPhone();
  const { page: first } = await device();
  const { page: second } = await device();
  await signIn(first, phoneNumber, "Cleo");
  await signIn(second, phoneNumber);
  await first.getByRole("button", { name: "Settings of Cleo" }).click();
  await first.getByRole("link", { name: "Devices" }).click();
  await first.getByText("Another device").waitFor();
  await picture(first, "devices");
  await first.getByRole("button", { name: "Sign out", exact: true }).last().click();
  await first.getByText("Another device").waitFor({ state: "detached" });
  await second.getByText("You were signed out on this device.").waitFor();
  const kept = await second.evaluate(() => Object.keys(localStorage).filter((key) => key !== "tidings.theme"));
  assert.deepEqual(kept, []);
});

test("an expiring message counts down and is gone at its second on both sides", async () => {
  const [adasPhone, bobsPhone] = [newPhone(), newPhone()];
  const { page: ada } = await device();
  const { page: bob } = await device();
  await signIn(ada, adasPhone, "Ada");
  await signIn(bob, bobsPhone, "Bob");
  await openDirect(ada, bobsPhone);
  await say(ada, "this stays");
  await openRow(bob, "Ada");
  await ada.getByRole("button", { name: "Details", exact: true }).click();
  await ada.getByLabel("Disappearing messages").selectOption("30");
  await bob.locator(".chat-ttl", { hasText: "30 seconds" }).waitFor();
  await say(ada, "this does not");
  await sees(bob, "this does not");
  await ada.locator(".bubble", { hasText: "this does not" }).locator(".countdown").waitFor();
  assert.equal(await ada.locator(".bubble", { hasText: "this stays" }).locator(".countdown").count(), 0);
  await picture(bob, "expiring");

  for (const page of [ada, bob]) {
    await page.locator(".bubble", { hasText: "this does not" }).waitFor({ state: "detached", timeout: 45_000 });
    await sees(page, "this stays");
    await page.locator(".row-preview", { hasText: "this stays" }).waitFor();
  }
});
