import assert from "node:assert/strict";

import type { BrowserContextOptions, Page } from "playwright-core";

import { barriers } from "./barriers.js";
import { Person } from "./person.js";
import { hasStatus, newPhone, openDirect, openRow, picture, said, say, sees, signIn, test, world } from "./world.js";

const { server, device } = await world();

/** Ada and Bob, each on a device with their chat open, and two messages. */
async function chatting(options: BrowserContextOptions = {}) {
  const [adasPhone, bobsPhone] = [newPhone(), newPhone()];
  const [ada, bob] = [await device(options), await device(options)];
  await signIn(ada.page, adasPhone, "Ada");
  await signIn(bob.page, bobsPhone, "Bob");
  await openDirect(ada.page, bobsPhone);
  await say(ada.page, "first");
  await openRow(bob.page, "Ada");
  await sees(bob.page, "first");
  await say(bob.page, "second");
  await sees(ada.page, "second");
  return { ada, bob };
}

function bubble(page: Page, text: string) {
  return page.locator(".bubble", { hasText: text });
}

/** Chooses an item of the menu of a message. */
async function choose(page: Page, text: string, item: string): Promise<void> {
  await bubble(page, text).hover();
  await bubble(page, text).getByRole("button", { name: "Message actions" }).click();
  await page.getByRole("menu").getByRole("menuitem", { name: item }).click();
}

/** Reacts by the menu of a message. */
async function react(page: Page, text: string, reaction: string): Promise<void> {
  await bubble(page, text).hover();
  await bubble(page, text).getByRole("button", { name: "Message actions" }).click();
  await page.getByRole("menuitemcheckbox", { name: `React with ${reaction}` }).click();
}

/** Edits a message in the composer. */
async function edit(page: Page, text: string, next: string): Promise<void> {
  await choose(page, text, "Edit");
  await page.getByLabel("Edited message").fill(next);
  await page.getByRole("button", { name: "Save the edit" }).click();
}

/** Deletes a message for everyone. */
async function remove(page: Page, text: string): Promise<void> {
  await choose(page, text, "Delete for everyone");
  await page.getByRole("dialog").getByRole("button", { name: "Delete for everyone" }).click();
}

/** Waits until a message has a reaction with a count. */
async function hasReaction(page: Page, text: string, reaction: string, isMine: boolean): Promise<void> {
  await bubble(page, text).getByRole("button", { name: reaction, pressed: isMine }).waitFor();
}

/** Waits until a text is nowhere in the chat. */
async function misses(page: Page, text: string): Promise<void> {
  await page.locator(".bubble .text", { hasText: text }).waitFor({ state: "detached" });
}

/** Everything that the browser stores for the page, as text. */
function stored(page: Page): Promise<string> {
  return page.evaluate(async () => {
    const values: unknown[] = [JSON.stringify(localStorage)];
    for (const { name } of await indexedDB.databases()) {
      const opening = indexedDB.open(name ?? "");
      await new Promise((resolve) => (opening.onsuccess = resolve));
      const database = opening.result;
      for (const store of database.objectStoreNames) {
        const all = database.transaction(store).objectStore(store).getAll();
        await new Promise((resolve) => (all.onsuccess = resolve));
        values.push(all.result);
      }
      database.close();
    }
    return JSON.stringify(values);
  });
}

test("an edit reaches both, and the next message follows it without a request", async () => {
  const { ada, bob } = await chatting();
  const histories: string[] = [];
  bob.page.on("request", (request) => {
    if (/\/messages(\/around\/\d+)?\?/.test(request.url())) histories.push(request.url());
  });
  await edit(ada.page, "first", "better");
  await sees(bob.page, "better");
  await bubble(bob.page, "better").locator(".edited").waitFor();
  await bubble(ada.page, "better").locator(".edited").waitFor();
  await say(ada.page, "third");
  await sees(bob.page, "third");
  const expected = ["better", "second", "third"];
  assert.deepEqual(await said(bob.page), expected);
  assert.deepEqual(await said(ada.page), expected);
  assert.deepEqual(histories, [], "an update leaves no gap to load");

  await edit(ada.page, "third", "third and last");
  await bob.page.locator(".row-preview", { hasText: "third and last" }).waitFor();
  await ada.page.locator(".row-preview", { hasText: "You: third and last" }).waitFor();
  await bob.page.reload();
  await sees(bob.page, "third and last");
  assert.deepEqual(await said(bob.page), ["better", "second", "third and last"]);
});

test("a deleted message disappears everywhere, from the preview and from the browser's storage too", async () => {
  const { ada, bob } = await chatting();
  await say(ada.page, "a secret");
  await sees(bob.page, "a secret");
  await hasStatus(ada.page, "a secret", "read");
  assert.match(await stored(bob.page), /a secret/);
  await remove(ada.page, "a secret");
  for (const { page } of [ada, bob]) {
    await misses(page, "a secret");
    await page.locator(".row-preview", { hasText: "second" }).waitFor();
    assert.deepEqual(await said(page), ["first", "second"]);
    assert.doesNotMatch(await stored(page), /a secret/);
  }
  await say(bob.page, "after it");
  await sees(ada.page, "after it");
  await ada.page.reload();
  await sees(ada.page, "after it");
  assert.deepEqual(await said(ada.page), ["first", "second", "after it"]);
});

test("a member who was away finds messages edited and deleted", async () => {
  const { ada, bob } = await chatting();
  await say(ada.page, "a secret");
  await sees(bob.page, "a secret");
  await bob.context.setOffline(true);
  await bob.page.getByText("What you write is kept and sent later.").waitFor();
  await edit(ada.page, "first", "better");
  await react(ada.page, "second", "👍");
  await remove(ada.page, "a secret");
  await hasReaction(ada.page, "second", "👍 1", true);
  await misses(ada.page, "a secret");
  assert.deepEqual(await said(bob.page), ["first", "second", "a secret"]);
  await bob.context.setOffline(false);
  await sees(bob.page, "better");
  await misses(bob.page, "a secret");
  await hasReaction(bob.page, "second", "👍 1", false);
  await bob.page.locator(".row-preview", { hasText: "second" }).waitFor();
  assert.doesNotMatch(await stored(bob.page), /a secret/);
});

test("reactions are counted, one's own are marked, and a click takes them back", async () => {
  const { ada, bob } = await chatting();
  await react(ada.page, "second", "👍");
  await hasReaction(ada.page, "second", "👍 1", true);
  await hasReaction(bob.page, "second", "👍 1", false);
  await bubble(bob.page, "second").getByRole("button", { name: "👍 1" }).click();
  await hasReaction(bob.page, "second", "👍 2", true);
  await hasReaction(ada.page, "second", "👍 2", true);

  await choose(ada.page, "second", "More reactions");
  const other = ada.page.getByLabel("Another emoji or a short word");
  await other.fill("well done");
  await ada.page.getByText("A reaction has no spaces.").waitFor();
  await other.fill("well-done");
  await other.press("Enter");
  await hasReaction(bob.page, "second", "well-done 1", false);
  await choose(bob.page, "second", "Who reacted");
  const who = (reaction: string) => bob.page.getByRole("list", { name: reaction }).locator("li").allTextContents();
  await bob.page.getByRole("list", { name: "well-done" }).waitFor();
  assert.deepEqual((await who("👍")).map((name) => name.slice(1)).sort(), ["Ada", "Bob"]);
  assert.deepEqual(
    (await who("well-done")).map((name) => name.slice(1)),
    ["Ada"],
  );
  await bob.page.keyboard.press("Escape");

  await bubble(ada.page, "second").getByRole("button", { name: "👍 2" }).click();
  await hasReaction(bob.page, "second", "👍 1", true);
  await bob.page.reload();
  await hasReaction(bob.page, "second", "👍 1", true);
  await hasReaction(bob.page, "second", "well-done 1", false);
});

test("editing, reacting and deleting need no mouse", async () => {
  const { ada, bob } = await chatting();
  const { page } = ada;
  const { keyboard } = page;
  await page.locator("textarea:focus").waitFor();
  await keyboard.press("ArrowUp");
  await page.getByLabel("Edited message").waitFor();
  assert.equal(await page.getByLabel("Edited message").inputValue(), "first", "the last own message");
  await keyboard.type(" and foremost");
  await keyboard.press("Escape");
  await page.getByLabel("Message", { exact: true }).waitFor();
  assert.deepEqual(await said(page), ["first", "second"]);
  await keyboard.press("ArrowUp");
  await keyboard.type(" and foremost");
  await keyboard.press("Enter");
  await sees(bob.page, "first and foremost");

  await page.getByRole("log").focus();
  await keyboard.press("ArrowUp");
  await page.locator(".bubble:focus", { hasText: "second" }).waitFor();
  await keyboard.press("Enter");
  await page.locator('[role="menuitemcheckbox"]:focus').waitFor();
  await keyboard.press("ArrowRight");
  await keyboard.press("Enter");
  await hasReaction(bob.page, "second", "❤️ 1", false);
  await page.locator(".bubble:focus", { hasText: "second" }).waitFor();
  await keyboard.press("ArrowUp");
  await page.locator(".bubble:focus", { hasText: "first" }).waitFor();
  await keyboard.press("Enter");
  await page.locator('[role="menuitemcheckbox"]:focus').waitFor();
  await keyboard.press("End");
  await keyboard.press("Enter");
  const confirm = page.getByRole("dialog").getByRole("button", { name: "Delete for everyone" });
  await confirm.focus();
  await keyboard.press("Enter");
  await misses(bob.page, "first");
  await page.locator("textarea:focus").waitFor();
});

test("what is changed offline shows at once, survives a reload, and arrives with the connection", async () => {
  const { ada, bob } = await chatting();
  const { page, context } = ada;
  await say(page, "to delete");
  await sees(bob.page, "to delete");
  // Only the connection is cut: the page itself can be loaded again.
  let isCut = true;
  await context.routeWebSocket(/.*/, (socket) => (isCut ? void socket.close() : void socket.connectToServer()));
  await page.reload();
  await sees(page, "to delete");
  await edit(page, "first", "better");
  await react(page, "second", "👍");
  await remove(page, "to delete");
  const isShown = async () => {
    await sees(page, "better");
    await bubble(page, "better").getByText("Waiting to be saved").waitFor();
    await hasReaction(page, "second", "👍 1", true);
    await misses(page, "to delete");
    await page.locator(".row-preview", { hasText: "Deleting a message…" }).waitFor();
  };
  await isShown();
  await page.reload();
  await isShown();
  assert.deepEqual(await said(bob.page), ["first", "second", "to delete"]);

  isCut = false;
  await sees(bob.page, "better");
  await hasReaction(bob.page, "second", "👍 1", false);
  await misses(bob.page, "to delete");
  await page.locator(".bubble-waiting").first().waitFor({ state: "detached" });
  assert.deepEqual(await said(page), ["better", "second"]);
  await page.locator(".row-preview", { hasText: "second" }).waitFor();
  const kept = await page.evaluate(() => Object.keys(localStorage).filter((key) => key.startsWith("tidings.update.")));
  assert.deepEqual(kept, []);
});

test("a refused edit is taken back with the reason, and its text is not lost", async () => {
  const [ada, bob] = await Promise.all(["Ada", "Bob"].map((name) => Person.signUp(server.url, newPhone(), name)));
  assert.ok(ada && bob);
  await ada.send(await ada.directChat(bob), "as it was");
  const { page } = await device();
  await signIn(page, ada.phone);
  await openRow(page, "Bob");
  await sees(page, "as it was");
  await bob.block(ada);
  await edit(page, "as it was", "as it should be");
  await page.getByText("Your edit was not saved. You cannot write to Bob. Its text is in the message field.").waitFor();
  await sees(page, "as it was");
  assert.deepEqual(await said(page), ["as it was"]);
  assert.equal(await page.getByLabel("Message", { exact: true }).inputValue(), "as it should be");
});

test("an edit ends if another device has deleted its message during an absence", async () => {
  const [ada, bob] = await Promise.all(["Ada", "Bob"].map((name) => Person.signUp(server.url, newPhone(), name)));
  assert.ok(ada && bob);
  const chatId = await ada.directChat(bob);
  await ada.send(chatId, "a secret");
  const { page, context } = await device();
  await signIn(page, ada.phone);
  await openRow(page, "Bob");
  await choose(page, "a secret", "Edit");
  await page.getByLabel("Edited message").fill("a secret for me");
  await context.setOffline(true);
  await page.getByText("What you write is kept and sent later.").waitFor();
  await ada.call("DELETE", `/chats/${chatId}/messages/1`);
  await context.setOffline(false);
  await page.getByText("The message that you were editing was deleted or has expired.").waitFor();
  assert.equal(await page.getByLabel("Message", { exact: true }).inputValue(), "");
  await page.locator(".row-preview", { hasText: "No messages yet" }).waitFor();
  assert.doesNotMatch(await stored(page), /a secret/);
});

test("members delete their own messages, admins those of others too, and nobody edits those", async () => {
  const [ada, bob] = await Promise.all(["Ada", "Bob"].map((name) => Person.signUp(server.url, newPhone(), name)));
  assert.ok(ada && bob);
  const group = { type: "group", name: "Engines", member_ids: [bob.userId] };
  const { chat_id: chatId } = (await ada.call("POST", "/chats", group)) as { chat_id: string };
  await ada.send(chatId, "of the owner");
  await bob.send(chatId, "of a member");
  const items = async (page: Page, text: string) => {
    await bubble(page, text).hover();
    await bubble(page, text).getByRole("button", { name: "Message actions" }).click();
    const names = await page.getByRole("menu").locator(".menu-item").allTextContents();
    await page.keyboard.press("Escape");
    await page.getByRole("menu").waitFor({ state: "detached" });
    return names;
  };
  const [adas, bobs] = [await device(), await device()];
  await signIn(adas.page, ada.phone);
  await signIn(bobs.page, bob.phone);
  for (const { page } of [adas, bobs]) {
    await openRow(page, "Engines");
    await sees(page, "of a member");
  }
  assert.deepEqual(await items(bobs.page, "of a member"), ["Edit", "Copy text", "Delete for everyone"]);
  assert.deepEqual(await items(bobs.page, "of the owner"), ["Copy text", "Report this message"]);
  assert.deepEqual(await items(adas.page, "of a member"), ["Copy text", "Report this message", "Delete for everyone"]);
  await remove(adas.page, "of a member");
  await misses(bobs.page, "of a member");
  await sees(bobs.page, "of the owner");
});

test("a long press opens the menu on a phone, and nothing is wider than the screen", async () => {
  const { bob } = await chatting();
  const options = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };
  const { page, context } = await device(options);
  const cleosPhone = newPhone();
  await signIn(page, cleosPhone, "Cleo");
  await openDirect(bob.page, cleosPhone);
  await bob.page.locator(".chat-name", { hasText: "Cleo" }).waitFor();
  await say(bob.page, "press me");
  await openRow(page, "Bob");
  await sees(page, "press me");
  const box = await bubble(page, "press me").boundingBox();
  assert.ok(box);
  const cdp = await context.newCDPSession(page);
  const touchPoints = [{ x: box.x + 20, y: box.y + 12 }];
  await cdp.send("Input.dispatchTouchEvent", { type: "touchStart", touchPoints });
  await page.getByRole("menu").waitFor();
  await cdp.send("Input.dispatchTouchEvent", { type: "touchEnd", touchPoints: [] });
  await page.getByRole("menu").waitFor();
  assert.deepEqual(await barriers(page), []);
  await picture(page, "phone-message-menu");
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
  await page.getByRole("menuitem", { name: "More reactions" }).tap();
  await page.getByLabel("Another emoji or a short word").waitFor();
  assert.deepEqual(await barriers(page), []);
  await picture(page, "phone-reactions");
  const dialog = await page
    .locator("dialog[open]")
    .evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth);
  assert.equal(dialog, 0);
  await page.getByRole("button", { name: "React with 🎉" }).tap();
  await hasReaction(bob.page, "press me", "🎉 1", false);
});

for (const colorScheme of ["light", "dark"] as const) {
  test(`messages with reactions, their menu and their dialogs have no barrier in the ${colorScheme} theme`, async () => {
    const { ada, bob } = await chatting({ colorScheme });
    const { page } = ada;
    const check = async (name: string) => {
      assert.deepEqual(await barriers(page), [], name);
      await picture(page, `updates-${name}-${colorScheme}`);
    };
    await say(bob.page, "يصل المحرك الجديد يوم الاثنين");
    await sees(page, "يصل");
    await react(bob.page, "first", "❤️");
    await react(page, "first", "👍");
    await react(page, "يصل", "🙏");
    await edit(bob.page, "يصل", "يصل المحرك الجديد يوم الثلاثاء");
    await edit(page, "first", "first, and better");
    await sees(page, "الثلاثاء");
    await hasReaction(page, "better", "❤️ 1", false);
    await page.locator(".bubble-waiting").first().waitFor({ state: "detached" });
    await check("log");
    await bubble(page, "better").click({ button: "right" });
    await page.getByRole("menu").waitFor();
    await check("menu");
    await page.getByRole("menuitem", { name: "Who reacted" }).click();
    await page.getByRole("list", { name: "👍" }).waitFor();
    await check("who-reacted");
    await page.keyboard.press("Escape");
    await choose(page, "better", "More reactions");
    await page.getByLabel("Another emoji or a short word").waitFor();
    await check("picker");
    await page.keyboard.press("Escape");
    await choose(page, "better", "Edit");
    await page.getByLabel("Edited message").waitFor();
    await check("edit");
    await choose(page, "better", "Delete for everyone");
    await page.getByRole("dialog").waitFor();
    await check("deletion");
  });
}
