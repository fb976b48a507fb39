import assert from "node:assert/strict";

import { newPhone, PATIENCE_MS, signIn, test, world } from "./world.js";

/** The globals of the service worker that the test uses. */
interface WorkerScope {
  readonly registration: ServiceWorkerRegistration;
  /** The shown notifications: tag, title and body. */
  readonly shown: string[];
}

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
  // The test records calls instead of reading the shown notifications: reading them was flaky, because some
  // disappeared.
  const [worker = await context.waitForEvent("serviceworker")] = context.serviceWorkers();
  await worker.evaluate(() => {
    const { registration, shown } = Object.assign(globalThis as unknown as WorkerScope, { shown: [] as string[] });
    const show = registration.showNotification.bind(registration);
    registration.showNotification = async (title, options) => {
      await show(title, options);
      shown.push(`${options?.tag} ${title}: ${options?.body}`);
    };
  });
  await push(direct);
  await push({ ...direct, preview: "two", unread_count: 2 });
  await push(group);
  await push(encrypted);

  const expected = [
    "chat_1 Bob: one",
    "chat_1 Bob: two",
    "chat_2 Book club: Bob: hello",
    "chat_3 Bob: New message",
  ];
  const deadline = Date.now() + PATIENCE_MS;
  let shown: string[] = [];
  while (shown.length < expected.length && Date.now() < deadline) {
    shown = await worker.evaluate(() => (globalThis as unknown as WorkerScope).shown);
  }
  // A notification replaces the previous one with its tag.
  assert.deepEqual(shown.toSorted(), expected);
});
