import assert from "node:assert/strict";

import type { Page } from "playwright-core";

import { hasStatus, newPhone, openDirect, openRow, said, say, sees, signIn, test, world } from "./world.js";

const { server, device } = await world();

/** Ada and Bob, each on a device with their chat open. */
async function chatting() {
  const [adasPhone, bobsPhone] = [newPhone(), newPhone()];
  const [ada, bob] = [await device(), await device()];
  await signIn(ada.page, adasPhone, "Ada");
  await signIn(bob.page, bobsPhone, "Bob");
  await openDirect(ada.page, bobsPhone);
  await say(ada.page, "first");
  await openRow(bob.page, "Ada");
  await sees(bob.page, "first");
  return { ada, bob };
}

/** Deletes the page's database, like a user who frees disk space. */
async function forgetPage(page: Page): Promise<void> {
  await page.evaluate(
    () =>
      new Promise((resolve) => {
        indexedDB.deleteDatabase("tidings-page").onsuccess = resolve;
      }),
  );
}

test("what is written offline is sent once and in order when the network is back", async () => {
  const { ada, bob } = await chatting();
  await ada.context.setOffline(true);
  for (const text of ["one", "two", "three"]) await say(ada.page, text);
  await hasStatus(ada.page, "three", "queued");
  await say(bob.page, "meanwhile");
  await hasStatus(bob.page, "meanwhile", "sent");
  await ada.page.getByText("What you write is kept and sent later.").waitFor();

  await ada.context.setOffline(false);
  await sees(bob.page, "three");
  await sees(ada.page, "meanwhile");
  await hasStatus(ada.page, "three", "read");
  const expected = ["first", "meanwhile", "one", "two", "three"];
  assert.deepEqual(await said(bob.page), expected);
  assert.deepEqual(await said(ada.page), expected);
});

test("a page that is opened offline shows what it had, and sends later what is written then", async () => {
  const { ada, bob } = await chatting();
  await ada.page.evaluate(() => navigator.serviceWorker.ready);
  // The worker controls the page from its next load.
  await ada.page.reload();
  await sees(ada.page, "first");
  await ada.context.setOffline(true);
  await ada.page.reload();
  await sees(ada.page, "first");
  await say(ada.page, "from the tunnel");
  await hasStatus(ada.page, "from the tunnel", "queued");
  await ada.page.reload();
  await hasStatus(ada.page, "from the tunnel", "queued");

  await ada.context.setOffline(false);
  await sees(bob.page, "from the tunnel");
  await hasStatus(ada.page, "from the tunnel", "read");
  assert.deepEqual(await said(bob.page), ["first", "from the tunnel"]);
  assert.deepEqual(await said(ada.page), ["first", "from the tunnel"]);
});

test("the server is killed and comes back while both write: nothing is lost, doubled or reordered", async () => {
  const { ada, bob } = await chatting();
  for (const round of [1, 2, 3]) {
    await say(ada.page, `Ada ${round} before`);
    await say(bob.page, `Bob ${round} before`);
    await server.kill();
    await say(ada.page, `Ada ${round} after`);
    await say(bob.page, `Bob ${round} after`);
    await server.start();
    await hasStatus(ada.page, `Ada ${round} after`, "read");
    await hasStatus(bob.page, `Bob ${round} after`, "read");
  }
  const [adaSees, bobSees] = [await said(ada.page), await said(bob.page)];
  assert.deepEqual(adaSees, bobSees, "both see the same, in the same order");
  for (const name of ["Ada", "Bob"]) {
    const own = adaSees.filter((text) => text.startsWith(name));
    assert.deepEqual(
      own,
      [1, 2, 3].flatMap((round) => [`${name} ${round} before`, `${name} ${round} after`]),
    );
  }
});

test("a draft survives a reload and is gone once it is sent", async () => {
  const { ada } = await chatting();
  const input = (page: Page) => page.getByLabel("Message", { exact: true });
  await input(ada.page).pressSequentially("half a thou");
  await ada.page.reload();
  await input(ada.page).waitFor();
  assert.equal(await input(ada.page).inputValue(), "half a thou");
  await ada.page.goto(`${server.url}/#/`);
  await ada.page.locator(".row-preview", { hasText: "Draft: half a thou" }).waitFor();
  await openRow(ada.page, "Bob");
  await input(ada.page).pressSequentially("ght");
  await input(ada.page).press("Enter");
  await sees(ada.page, "half a thought");
  await ada.page.reload();
  await sees(ada.page, "half a thought");
  assert.equal(await input(ada.page).inputValue(), "");
});

test("a page whose database is deleted under it goes on, and keeps what comes from then on", async () => {
  const { ada, bob } = await chatting();
  await ada.page.evaluate(() => navigator.serviceWorker.ready);
  await forgetPage(ada.page);
  await say(bob.page, "after the flood");
  await sees(ada.page, "after the flood");
  await hasStatus(bob.page, "after the flood", "read");
  await ada.page.reload();
  await sees(ada.page, "after the flood");
  await ada.context.setOffline(true);
  await ada.page.reload();
  await sees(ada.page, "after the flood");
});

test("a second tab leaves the first alone, and takes over when it is told to", async () => {
  const { ada } = await chatting();
  const second = await ada.context.newPage();
  await second.goto(server.url);
  await second.getByRole("heading", { name: "Tidings is open in another tab" }).waitFor();
  await say(ada.page, "still here");
  await hasStatus(ada.page, "still here", "read");
  await second.getByRole("button", { name: "Use Tidings here" }).click();
  await openRow(second, "Bob");
  await sees(second, "still here");
  await ada.page.getByRole("heading", { name: "Tidings is open in another tab" }).waitFor();
});

test("a device that knows nothing waits for the server, and goes on when it is back", async () => {
  const { page } = await device();
  await signIn(page, newPhone(), "Ada");
  await page.evaluate(() => navigator.serviceWorker.ready);
  await page.reload();
  await page.getByRole("heading", { name: "Chats", exact: true }).waitFor();
  // From a page of the same origin without storage: the chat page would reopen its database.
  await page.goto(`${server.url}/docs`);
  await forgetPage(page);
  await server.kill();
  await page.goto(server.url);
  await page.getByRole("heading", { name: "The server cannot be reached" }).waitFor();
  await server.start();
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("heading", { name: "Chats", exact: true }).waitFor();
});
