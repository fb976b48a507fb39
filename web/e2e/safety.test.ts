import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

import { barriers } from "./barriers.js";
import { Person } from "./person.js";
import { newPhone, openDirect, openRow, picture, say, sees, signIn, test, world } from "./world.js";

const { device, server } = await world();

test("two new people see each other online on a server for development", async () => {
  const [adasPhone, bobsPhone] = [newPhone(), newPhone()];
  const { page: ada } = await device();
  const { page: bob } = await device();
  await signIn(ada, adasPhone, "Ada");
  await signIn(bob, bobsPhone, "Bob");
  await openDirect(ada, bobsPhone);
  await ada.locator(".chat-subtitle", { hasText: "Online" }).waitFor();
  await bob.context().close();
  await ada.locator(".chat-subtitle", { hasText: "Last seen just now" }).waitFor();
});

test("a user is blocked, found among the blocked people, and unblocked", async () => {
  const bob = await Person.signUp(server.url, newPhone(), "Bob");
  const { page } = await device();
  await signIn(page, newPhone(), "Ada");
  await openDirect(page, bob.phone);
  await say(page, "hello");
  await page.getByRole("button", { name: "Details", exact: true }).click();
  await page.getByRole("button", { name: "Block", exact: true }).click();
  assert.deepEqual(await barriers(page), []);
  await page.getByRole("dialog").getByRole("button", { name: "Block", exact: true }).click();
  await page.getByRole("button", { name: "Unblock", exact: true }).waitFor();
  await say(page, "are you there?");
  await page.getByText("You have blocked Bob.").waitFor();

  await page.evaluate(() => (location.hash = "#/settings/privacy"));
  await page.getByRole("button", { name: "Unblock Bob" }).click();
  await page.getByText("You have blocked nobody.").waitFor();
});

test("a message and a person are reported", async () => {
  const [ada, bob] = await Promise.all(["Ada", "Bob"].map((name) => Person.signUp(server.url, newPhone(), name)));
  assert.ok(ada && bob);
  const chatId = await bob.directChat(ada);
  const messageId = await bob.send(chatId, "buy this");
  const { page } = await device();
  await signIn(page, ada.phone);
  await openRow(page, "Bob");
  await sees(page, "buy this");
  const reports: unknown[] = [];
  page.on("request", (request) => {
    if (request.url().endsWith("/api/v1/reports")) reports.push(request.postDataJSON());
  });
  await page.locator(".bubble", { hasText: "buy this" }).hover();
  await page.getByRole("button", { name: "Message actions" }).click();
  await page.getByRole("menuitem", { name: "Report this message" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Comment (optional)").fill("every day");
  assert.deepEqual(await barriers(page), []);
  await picture(page, "report");
  await dialog.getByRole("button", { name: "Report" }).click();
  await page.getByText("The operators of this service have your report.").waitFor();

  await page.getByRole("button", { name: "Details", exact: true }).click();
  await page.getByRole("button", { name: "Report", exact: true }).click();
  await dialog.getByLabel("Reason").selectOption("abuse");
  await dialog.getByRole("button", { name: "Report" }).click();
  await page.getByText("The operators of this service have your report.").nth(1).waitFor();
  assert.deepEqual(reports, [
    { message_id: messageId, reason: "spam", comment: "every day" },
    { user_id: bob.userId, reason: "abuse" },
  ]);
});

test("an account is exported and deleted", async () => {
  const [ada, bob] = await Promise.all(["Ada", "Bob"].map((name) => Person.signUp(server.url, newPhone(), name)));
  assert.ok(ada && bob);
  await ada.send(await ada.directChat(bob), "of mine");
  const { page } = await device();
  await signIn(page, ada.phone);
  await page.getByRole("button", { name: "Settings of Ada" }).click();
  await page.getByRole("link", { name: "Account" }).click();
  assert.deepEqual(await barriers(page), []);
  const downloading = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export my data" }).click();
  const file = await (await downloading).path();
  const { user, chats } = JSON.parse(readFileSync(file, "utf8")) as {
    user: { user_id: string };
    chats: { messages: { content: string }[] }[];
  };
  assert.deepEqual([user.user_id, chats[0]?.messages[0]?.content], [ada.userId, "of mine"]);

  await page.getByRole("button", { name: "Delete my account" }).click();
  const confirm = page.getByRole("button", { name: "Delete for good" });
  assert.equal(await confirm.isEnabled(), false, "the name confirms it");
  await page.getByLabel("Your name, to confirm").fill("Ada");
  await page.getByLabel("Erase my messages too").check();
  await picture(page, "delete-account");
  await confirm.click();
  await page.getByText("Your account is deleted.").waitFor();
  assert.equal(await ada.isSignedIn(), false);
  const seen = (await bob.call("GET", `/users/${ada.userId}`)) as { display_name: string };
  assert.equal(seen.display_name, "Deleted account");
  const kept = await page.evaluate(() => Object.keys(localStorage).filter((key) => key !== "tidings.theme"));
  assert.deepEqual(kept, []);
});
