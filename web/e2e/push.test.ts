import assert from "node:assert/strict";
import { test } from "node:test";

import { newPhone, signIn, world } from "./world.js";

const { server, device } = await world();

test("what the server pushes while the page is closed is shown, one notification for each chat", async () => {
  const { page, context } = await device();
  await signIn(page, newPhone(), "Ada");
  await context.grantPermissions(["notifications"], { origin: server.url });
  await page.evaluate(() => navigator.serviceWorker.ready);

  const browser = await context.newCDPSession(page);
  const registered = new Promise<string>((resolve) => {
    browser.on("ServiceWorker.workerRegistrationUpdated", ({ registrations }) => {
      const ours = registrations.find(({ scopeURL }) => scopeURL === `${server.url}/`);
      if (ours) resolve(ours.registrationId);
    });
  });
  await browser.send("ServiceWorker.enable");
  const registrationId = await registered;
  const push = (notice: object) =>
    browser.send("ServiceWorker.deliverPushMessage", {
      origin: server.url,
      registrationId,
      data: JSON.stringify(notice),
    });
  const direct = { chat_id: "chat_1", chat_type: "direct", sender_name: "Bob", preview: "one", unread_count: 1 };
  const group = { ...direct, chat_id: "chat_2", chat_type: "group", chat_name: "Book club", preview: "hello" };
  const { preview: _, ...encrypted } = { ...direct, chat_id: "chat_3" };
  await push(direct);
  await push({ ...direct, preview: "two", unread_count: 2 });
  await push(group);
  await push(encrypted);

  const expected = ["chat_1 Bob: two", "chat_2 Book club: Bob: hello", "chat_3 Bob: New message"];
  const shown = await page.evaluate(async (count) => {
    const registration = await navigator.serviceWorker.ready;
    for (;;) {
      const notifications = await registration.getNotifications();
      if (notifications.length >= count) return notifications.map(({ title, body, tag }) => `${tag} ${title}: ${body}`);
      await new Promise(requestAnimationFrame);
    }
  }, expected.length);
  assert.deepEqual(shown.toSorted(), expected);
});
