import assert from "node:assert/strict";

import { barriers } from "./barriers.js";
import { newPhone, openDirect, openRow, picture, say, sees, signIn, test, world } from "./world.js";

const { device } = await world();

for (const colorScheme of ["light", "dark"] as const) {
  test(`no page has a barrier in the ${colorScheme} theme`, async () => {
    const [adasPhone, bobsPhone] = [newPhone(), newPhone()];
    const options = { colorScheme, viewport: { width: 1440, height: 900 } };
    const { page: bob } = await device(options);
    await signIn(bob, bobsPhone, "Bob Noyce");
    const { page } = await device(options);
    const check = async (name: string) => {
      assert.deepEqual(await barriers(page), [], name);
      await picture(page, `${name}-${colorScheme}`);
    };

    await page.getByLabel("Phone number").waitFor();
    await check("sign-in");
    await signIn(page, adasPhone, "Ada Lovelace");
    await check("inbox-empty");
    await openDirect(page, bobsPhone);
    await say(page, "Have you seen https://example.org?");
    await openRow(bob, "Ada Lovelace");
    await sees(bob, "Have you seen");
    await say(bob, "Not yet");
    await sees(page, "Not yet");
    await page.getByLabel("Message", { exact: true }).fill("Then look");
    await check("chat");
    await page.getByRole("button", { name: "Details", exact: true }).click();
    await page.getByRole("button", { name: "Add to contacts" }).waitFor();
    await check("details");
    await page.keyboard.press("Control+k");
    await page.getByLabel("Find a chat by name").waitFor();
    await check("finder");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "New chat" }).first().click();
    await page.getByLabel("Name or phone number").waitFor();
    await check("new-chat");
    await page.keyboard.press("Escape");
    for (const section of ["Profile", "Privacy", "Notifications", "Devices", "Passkeys", "Appearance", "Account"]) {
      await page.evaluate(() => (location.hash = "#/settings"));
      await page.getByRole("link", { name: section }).click();
      await page.getByRole("heading", { name: section, exact: true }).waitFor();
      await page.getByText("Asking the server…").waitFor({ state: "detached" });
      await check(`settings-${section.toLowerCase()}`);
    }
  });
}

test("on a phone one pane is on the screen, and back leads to the list", async () => {
  const [adasPhone, bobsPhone] = [newPhone(), newPhone()];
  const phone = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };
  const { page: bob } = await device();
  await signIn(bob, bobsPhone, "Bob Noyce");
  const { page } = await device(phone);
  await signIn(page, adasPhone, "Ada Lovelace");
  await openDirect(page, bobsPhone);
  assert.equal(await page.locator(".sidebar").isVisible(), false);
  await say(page, "From the phone");
  await openRow(bob, "Ada Lovelace");
  await sees(bob, "From the phone");
  assert.deepEqual(await barriers(page), []);
  await picture(page, "phone-chat");

  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.equal(width, 390, "nothing is wider than the screen");
  await page.goBack();
  await page.getByRole("heading", { name: "Chats", exact: true }).waitFor();
  assert.equal(await page.locator(".main").isVisible(), false);
  await picture(page, "phone-inbox");
  await openRow(page, "Bob Noyce");
  await page.getByRole("button", { name: "Back to chats" }).tap();
  await page.getByRole("heading", { name: "Chats", exact: true }).waitFor();
});

test("the theme that was chosen is there at the next visit, whatever the system says", async () => {
  const { page } = await device({ colorScheme: "light" });
  await signIn(page, newPhone(), "Ada");
  const hasTheme = (theme: string) => page.locator(`html[data-theme="${theme}"]`).waitFor();
  await hasTheme("light");
  await page.getByRole("button", { name: "Settings of Ada" }).click();
  await page.getByRole("link", { name: "Appearance" }).click();
  await page.getByLabel("Dark").check();
  await hasTheme("dark");
  await page.reload();
  await page.getByRole("heading", { name: "Appearance" }).waitFor();
  await hasTheme("dark");
});
