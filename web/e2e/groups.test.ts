import assert from "node:assert/strict";

import type { Page } from "playwright-core";

import { hasStatus, newPhone, openRow, pick, picture, said, say, sees, signIn, test, world } from "./world.js";

const { device } = await world();

async function person(name: string) {
  const phone = newPhone();
  const { page } = await device();
  await signIn(page, phone, name);
  return { page, phone };
}

function act(page: Page, member: string, action: string): Promise<unknown> {
  return page.getByLabel(`Actions for ${member}`).selectOption({ label: action });
}

test("a group from its first message to its last member", async () => {
  const [ada, bob, cleo] = [await person("Ada"), await person("Bob"), await person("Cleo")];
  await ada.page.getByRole("button", { name: "New chat" }).first().click();
  await ada.page.getByRole("button", { name: "New group" }).click();
  await ada.page.getByLabel("Name of the group").fill("Book club");
  await pick(ada.page, bob.phone);
  await ada.page.getByRole("button", { name: "Remove Bob" }).waitFor();
  await ada.page.getByRole("button", { name: "Create group" }).click();
  await say(ada.page, "Welcome");

  await openRow(bob.page, "Book club");
  await sees(bob.page, "Welcome");
  assert.equal(await bob.page.locator(".author").first().textContent(), "Ada: ");
  await say(bob.page, "Thank you");
  await sees(ada.page, "Thank you");
  await hasStatus(ada.page, "Welcome", "read");
  await ada.page.getByTitle("Who has seen this").click();
  await ada.page.getByRole("list", { name: "Read by" }).getByText("Bob", { exact: true }).waitFor();
  assert.equal(await ada.page.getByRole("list", { name: "Not yet with" }).count(), 0);
  await ada.page.getByRole("button", { name: "Close", exact: true }).click();

  await ada.page.getByRole("button", { name: "Details", exact: true }).click();
  await ada.page.getByRole("button", { name: "Add", exact: true }).click();
  await pick(ada.page, cleo.phone);
  await ada.page.getByRole("button", { name: "Close", exact: true }).click();
  await ada.page.locator(".member", { hasText: "Cleo" }).waitFor();
  await openRow(cleo.page, "Book club");
  await sees(cleo.page, "Thank you");
  assert.deepEqual(await said(cleo.page), ["Welcome", "Thank you"], "new members read what was said before");

  await act(ada.page, "Bob", "Make an admin");
  await ada.page.locator(".member", { hasText: "Bob" }).locator(".role-admin").waitFor();
  await picture(ada.page, "group-details");
  await bob.page.getByRole("button", { name: "Details", exact: true }).click();
  await bob.page.getByRole("button", { name: "Rename the group" }).click();
  await bob.page.getByLabel("Name of the group").fill("Night readers");
  await bob.page.getByRole("button", { name: "Save" }).click();
  await ada.page.locator("[data-row]", { hasText: "Night readers" }).waitFor();

  const changes = (page: Page) => page.locator(".log-change").allTextContents();
  await ada.page.getByText("The group is now called “Night readers”").waitFor();
  assert.deepEqual(await changes(ada.page), [
    "Cleo joined",
    "Bob is now an admin",
    "The group is now called “Night readers”",
  ]);
  await bob.page.getByText("You are now an admin").waitFor();
  await act(bob.page, "Cleo", "Remove");
  await bob.page.getByRole("button", { name: "Remove", exact: true }).click();
  await cleo.page.locator("[data-row]").waitFor({ state: "detached" });
  await cleo.page.getByText("You are no longer a member of this chat.").waitFor();

  await act(ada.page, "Bob", "Make the owner");
  await ada.page.getByRole("button", { name: "Hand over" }).click();
  await ada.page.locator(".member", { hasText: "Bob" }).locator(".role-owner").waitFor();
  await ada.page.getByRole("button", { name: "Leave the group" }).click();
  await ada.page.getByRole("button", { name: "Leave", exact: true }).click();
  await ada.page.locator("[data-row]").waitFor({ state: "detached" });
  await bob.page.locator(".chat-subtitle", { hasText: "1 member" }).waitFor();
  await bob.page.getByText("Ada left").waitFor();
  await bob.page.reload();
  await bob.page.getByText("Ada left").waitFor();
  assert.deepEqual((await changes(bob.page)).slice(-3), ["You are now the owner", "Ada is now an admin", "Ada left"]);

  await bob.page.getByRole("button", { name: "Delete the group" }).click();
  await bob.page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
  await bob.page.locator("[data-row]").waitFor({ state: "detached" });
});

test("a user who wants to be asked is invited, and joins or declines", async () => {
  const [ada, bob, cleo] = [await person("Ada"), await person("Bob"), await person("Cleo")];
  for (const { page, name } of [
    { page: bob.page, name: "Bob" },
    { page: cleo.page, name: "Cleo" },
  ]) {
    await page.getByRole("button", { name: `Settings of ${name}` }).click();
    await page.getByRole("link", { name: "Privacy" }).click();
    const choices = page.getByRole("group", { name: "Who can add you to groups" });
    await choices.getByRole("radio", { name: "Contacts" }).check();
    await page.evaluate(() => (location.hash = "#/"));
  }
  await ada.page.getByRole("button", { name: "New chat" }).first().click();
  await ada.page.getByRole("button", { name: "New group" }).click();
  await ada.page.getByLabel("Name of the group").fill("Book club");
  await pick(ada.page, bob.phone);
  await pick(ada.page, cleo.phone);
  await ada.page.getByRole("button", { name: "Create group" }).click();
  await ada.page.getByText("2 people want to be asked first and got an invitation.").waitFor();
  await say(ada.page, "Welcome");
  await ada.page.locator(".chat-subtitle", { hasText: "1 member" }).waitFor();

  for (const { page } of [bob, cleo]) {
    await page.reload();
    await page.getByText("Ada invites you").waitFor();
    assert.equal(await page.locator("[data-row]").count(), 0, "an invited user is not a member");
  }
  await picture(bob.page, "invitation");
  await bob.page.getByRole("button", { name: "Join" }).click();
  await sees(bob.page, "Welcome");
  await ada.page.locator(".chat-subtitle", { hasText: "2 members" }).waitFor();
  await cleo.page.getByRole("button", { name: "Decline" }).click();
  await cleo.page.getByText("Ada invites you").waitFor({ state: "detached" });
  await cleo.page.reload();
  await cleo.page.getByRole("button", { name: "New chat" }).first().waitFor();
  assert.equal(await cleo.page.getByText("Ada invites you").count(), 0);
});

test("a muted chat is not counted in the title", async () => {
  const [ada, bob] = [await person("Ada"), await person("Bob")];
  await ada.page.getByRole("button", { name: "New chat" }).first().click();
  await pick(ada.page, bob.phone);
  await say(ada.page, "one");
  await openRow(bob.page, "Ada");
  await bob.page.getByRole("button", { name: "Details", exact: true }).click();
  await bob.page.getByLabel("Notifications").selectOption("ever");
  await bob.page.locator("[data-row] .row-muted").waitFor();
  await bob.page.evaluate(() => (location.hash = "#/"));
  await say(ada.page, "two");
  await bob.page.locator("[data-row] .badge-muted", { hasText: "1 unread" }).waitFor();
  assert.equal(await bob.page.title(), "Tidings");
});
