import "fake-indexeddb/auto";

import assert from "node:assert/strict";
import { test } from "node:test";

import { indexedDbStorage } from "../../src/storage/indexed-db.js";
import { memoryStorage } from "../../src/storage/memory.js";
import type { QueuedSend, Storage } from "../../src/storage/storage.js";

let databases = 0;
const kinds: [string, () => Storage][] = [
  ["memory", memoryStorage],
  ["IndexedDB", () => indexedDbStorage(`test ${(databases += 1)}`)],
];

function send(clientMessageId: string): QueuedSend {
  return { clientMessageId, chatId: "c", content: clientMessageId, queuedAt: 1 };
}

for (const [kind, open] of kinds) {
  test(`${kind}: a device is kept whole`, async () => {
    const storage = open();
    assert.equal(await storage.device(), undefined);
    const device = { deviceId: "d", userId: "u", tokens: { accessToken: "a", refreshToken: "r", renewAt: 5 } };
    await storage.keepDevice(device);
    assert.deepEqual(await storage.device(), device);
    await storage.keepDevice({ deviceId: "d" });
    assert.deepEqual(await storage.device(), { deviceId: "d" });
  });

  test(`${kind}: sends are kept in the order they were added, each once`, async () => {
    const storage = open();
    const whole: QueuedSend = { ...send("b"), contentType: "text/markdown", ttlSeconds: 5 };
    await Promise.all([storage.addSend(send("z")), storage.addSend(whole), storage.addSend(send("a"))]);
    await storage.addSend(send("z"));
    assert.deepEqual(await storage.sends(), [send("z"), whole, send("a")]);
    await storage.removeSend("z");
    await storage.removeSend("unknown");
    await storage.addSend(send("z"));
    assert.deepEqual(await storage.sends(), [whole, send("a"), send("z")]);
  });

  test(`${kind}: a chat has one position`, async () => {
    const storage = open();
    await storage.keepPosition({ chatId: "a", sequence: 1 });
    await storage.keepPosition({ chatId: "b", sequence: 7 });
    await storage.keepPosition({ chatId: "a", sequence: 2 });
    assert.deepEqual(await storage.positions(), [
      { chatId: "a", sequence: 2 },
      { chatId: "b", sequence: 7 },
    ]);
    await storage.forgetPosition("a");
    assert.deepEqual(await storage.positions(), [{ chatId: "b", sequence: 7 }]);
  });

  test(`${kind}: clear forgets sends and positions, and no device`, async () => {
    const storage = open();
    await storage.keepDevice({ deviceId: "d" });
    await storage.addSend(send("a"));
    await storage.keepPosition({ chatId: "a", sequence: 1 });
    await storage.clear();
    assert.deepEqual([await storage.sends(), await storage.positions()], [[], []]);
    assert.deepEqual(await storage.device(), { deviceId: "d" });
  });
}

test("what one page keeps in IndexedDB the next one finds", async () => {
  const first = indexedDbStorage("pages");
  await first.addSend(send("a"));
  await first.keepPosition({ chatId: "a", sequence: 3 });
  const second = indexedDbStorage("pages");
  assert.deepEqual(await second.sends(), [send("a")]);
  assert.deepEqual(await second.positions(), [{ chatId: "a", sequence: 3 }]);
});
