import assert from "node:assert/strict";

import type { Page } from "playwright-core";

import { Person } from "./person.js";
import { hasStatus, newPhone, openRow, pick, said, say, sees, signIn, test, world } from "./world.js";

const { device, server } = await world();

async function startGroup(page: Page, name: string): Promise<void> {
  await page.getByRole("button", { name: "New chat" }).first().click();
  await page.getByRole("button", { name: "New group" }).click();
  await page.getByLabel("Name of the group").fill(name);
}

test("a wrong code is refused in the words of the server", async () => {
  const { page } = await device();
  const phone = newPhone();
  await page.getByLabel("Phone number").fill(phone);
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByLabel("Code").fill("111111");
  await page.getByText("The code is wrong or has expired.").waitFor();
  await page.getByLabel("Code").fill("000000");
  await page.getByLabel("Your name").waitFor();
});

test("a group names the people who cannot be added, and is created without them", async () => {
  const [ada, bob, cleo] = await Promise.all(
    ["Ada", "Bob", "Cleo"].map((name) => Person.signUp(server.url, newPhone(), name)),
  );
  assert.ok(ada && bob && cleo);
  await bob.block(ada);
  const { page } = await device();
  await signIn(page, ada.phone);
  await startGroup(page, "Book club");
  await pick(page, bob.phone);
  await pick(page, cleo.phone);
  await page.getByRole("button", { name: "Create group" }).click();
  await page.getByRole("alert").filter({ hasText: "You cannot add Bob." }).waitFor();
  await page.getByRole("button", { name: "Create the group without Bob" }).click();
  await page.locator(".chat-subtitle", { hasText: "2 members" }).waitFor();
});

test("a changed group is another request, and the same group again is the same request", async () => {
  const ada = await Person.signUp(server.url, newPhone(), "Ada");
  const { page } = await device();
  await signIn(page, ada.phone);
  await startGroup(page, "Book club");
  const keys: (string | undefined)[] = [];
  await page.route("**/api/v1/chats", async (route) => {
    if (route.request().method() !== "POST") return route.continue();
    keys.push(route.request().headers()["idempotency-key"]);
    // The server creates the first two groups, and their responses are lost.
    await route.fetch();
    return keys.length < 3 ? route.abort() : route.continue();
  });
  const create = page.getByRole("button", { name: "Create group" });
  await create.click();
  await page.getByText("The server cannot be reached right now.").waitFor();
  await page.getByLabel("Name of the group").fill("Night readers");
  await create.click();
  await page.getByText("The server cannot be reached right now.").nth(1).waitFor();
  await page.getByLabel("Name of the group").fill("Book club");
  await create.click();
  await page.locator(".chat-name", { hasText: "Book club" }).waitFor();
  assert.equal(keys[2], keys[0], "a retry of the first request");
  assert.notEqual(keys[1], keys[0], "another request");
  await page.locator("[data-row]", { hasText: "Night readers" }).waitFor();
  assert.equal(await page.locator("[data-row]", { hasText: "Book club" }).count(), 1);
});

test("a message over a dialog can be read and dismissed", async () => {
  const [ada, bob] = await Promise.all(["Ada", "Bob"].map((name) => Person.signUp(server.url, newPhone(), name)));
  assert.ok(ada && bob);
  const { page } = await device();
  await signIn(page, ada.phone);
  await startGroup(page, "Book club");
  await page.getByRole("button", { name: "Create group" }).click();
  await page.getByRole("button", { name: "Details", exact: true }).click();
  await bob.block(ada);
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await pick(page, bob.phone);
  const dialog = page.getByRole("dialog", { name: "Add members" });
  const message = page.locator(".toast", { hasText: "You cannot add Bob." });
  await message.waitFor();
  // A click reaches only what is on top and not inert.
  await message.getByRole("button", { name: "Dismiss" }).click();
  await message.waitFor({ state: "detached" });
  assert.equal(await dialog.isVisible(), true, "the dialog stays");
});

test("a blocked message says why, and the blocker sends it after unblocking", async () => {
  const [ada, bob] = await Promise.all(["Ada", "Bob"].map((name) => Person.signUp(server.url, newPhone(), name)));
  assert.ok(ada && bob);
  await ada.directChat(bob);
  await ada.block(bob);
  const { page: adas } = await device();
  const { page: bobs } = await device();
  await signIn(adas, ada.phone);
  await signIn(bobs, bob.phone);

  await openRow(bobs, "Ada");
  await say(bobs, "from Bob");
  await hasStatus(bobs, "from Bob", "failed");
  const refused = bobs.locator(".bubble-failure");
  await refused.getByText("You cannot write to Ada.").waitFor();
  assert.equal(await refused.getByRole("button", { name: "Try again" }).count(), 0, "another try fails again");
  await refused.getByRole("button", { name: "Discard" }).click();

  await openRow(adas, "Bob");
  await say(adas, "from Ada");
  await adas.getByText("You have blocked Bob.").waitFor();
  await adas.getByRole("button", { name: "Unblock and send" }).click();
  await sees(bobs, "from Ada");
  assert.deepEqual(await said(bobs), ["from Ada"]);
});

test("a new chat with a blocked user offers to unblock them", async () => {
  const [ada, bob] = await Promise.all(["Ada", "Bob"].map((name) => Person.signUp(server.url, newPhone(), name)));
  assert.ok(ada && bob);
  await ada.block(bob);
  const { page } = await device();
  await signIn(page, ada.phone);
  await page.getByRole("button", { name: "New chat" }).first().click();
  await pick(page, bob.phone);
  await page.locator(".toast", { hasText: "You have blocked Bob." }).getByRole("button", { name: "Unblock" }).click();
  await page.locator(".chat-name", { hasText: "Bob" }).waitFor();
});
