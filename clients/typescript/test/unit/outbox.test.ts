import assert from "node:assert/strict";
import { test } from "node:test";

import type { SendError } from "../../src/errors.js";
import { Outbox } from "../../src/outbox.js";
import { memoryStorage } from "../../src/storage/memory.js";
import type { UpdateAction } from "../../src/storage/storage.js";
import type { SendMessageAck } from "../../src/wire.js";
import { send, TIME } from "./world.js";

function ackOf(clientMessageId: string): SendMessageAck {
  return {
    client_message_id: clientMessageId,
    message_id: "m",
    chat_id: "c",
    sequence: 1,
    created_at: TIME,
    deduplicated: false,
  };
}

/** An outbox, with its stored and refused sends. */
function outbox(storage = memoryStorage()) {
  const box = new Outbox(storage);
  const kept: string[] = [];
  const failed: string[] = [];
  const add = (content: string, clientMessageId: string = crypto.randomUUID()) =>
    box.add(
      { ...send(content), clientMessageId },
      () => kept.push(content),
      (error) => failed.push(error.code),
    );
  return { box, storage, kept, failed, add };
}

/** The contents of the queue, and the actions of its updates. */
async function queued(box: Outbox): Promise<string[]> {
  return (await box.queued()).map((entry) => ("action" in entry ? entry.action : entry.content));
}

test("a send is kept before anybody tries to send it", async () => {
  const storage = memoryStorage();
  const order: string[] = [];
  const { box } = outbox({
    ...storage,
    addSend: async (send) => {
      await storage.addSend(send);
      order.push("kept");
    },
  });
  box.add(
    send("a"),
    () => order.push("sent"),
    () => undefined,
  );
  await box.queued();
  assert.deepEqual(order, ["kept", "sent"]);
});

test("sends are kept in the order of the calls, however slow the storage is", async () => {
  const storage = memoryStorage();
  const delays = [3, 1, 2];
  const { box, add, kept } = outbox({
    ...storage,
    addSend: async (send) => {
      for (let turns = (delays.shift() ?? 0) * 10; turns > 0; turns -= 1) {
        await null;
      }
      await storage.addSend(send);
    },
  });
  ["a", "b", "c"].forEach((content) => add(content));
  assert.deepEqual(await queued(box), ["a", "b", "c"]);
  assert.deepEqual(kept, ["a", "b", "c"]);
});

test("a queue outlives the page, and comes before what is added to the next one", async () => {
  const first = outbox();
  first.add("a");
  const { clientMessageId } = first.add("b");
  await first.box.queued();
  const second = outbox(first.storage);
  const loaded: string[] = [];
  const loading = second.box.load((entries) => entries.forEach((entry) => loaded.push(entry.clientMessageId)));
  second.add("c");
  await loading;
  assert.equal(loaded.length, 2);
  assert.equal(loaded[1], clientMessageId, "the id is kept until it is acked");
  await second.box.acked(ackOf(clientMessageId));
  assert.deepEqual(await queued(second.box), ["a", "c"]);
});

test("an ack resolves its send and a refusal rejects it", async () => {
  const { box, add } = outbox();
  const [a, b] = [add("a"), add("b")];
  await box.queued();
  await box.acked(ackOf(a.clientMessageId));
  assert.equal((await a.acked).client_message_id, a.clientMessageId);
  const refusal = Object.assign(new Error("no"), { code: "NOT_A_MEMBER" }) as unknown as SendError;
  await box.refused({ clientMessageId: b.clientMessageId, error: refusal });
  await assert.rejects(b.acked, refusal);
  assert.deepEqual(await box.queued(), []);
});

test("of two sends with one id each gets its own outcome", async () => {
  const { box, add } = outbox();
  const [a, b] = [add("a", "id"), add("a", "id")];
  await box.queued();
  await box.acked(ackOf("id"));
  await a.acked;
  await box.acked({ ...ackOf("id"), deduplicated: true });
  assert.equal((await b.acked).deduplicated, true);
});

test("a close rejects who waits, and keeps what is queued", async () => {
  const { box, add } = outbox();
  const { acked } = add("a");
  await box.queued();
  box.close();
  await assert.rejects(acked, { name: "SendError", code: "CLOSED" });
  assert.equal((await box.queued()).length, 1);
});

test("what the server would refuse without naming it is not queued", async () => {
  const { box, add, failed } = outbox();
  add("");
  add("a\0b");
  add("half \ud83d");
  add("x".repeat(4097));
  add("ä".repeat(2048));
  add("\u{1f600}");
  assert.equal((await box.queued()).length, 2);
  assert.deepEqual(failed, ["INVALID_MESSAGE", "INVALID_MESSAGE", "INVALID_MESSAGE", "MESSAGE_TOO_LARGE"]);
});

test("JSON that is none is not queued", async () => {
  const { box, failed } = outbox();
  const json = (content: string) =>
    box.add(
      { ...send(content), contentType: "application/json" },
      () => undefined,
      ({ code }) => failed.push(code),
    );
  ["{", "", "{} {}", "text", "NaN"].forEach(json);
  ['{"a":[1,null]}', '"text"', "7", " null "].forEach(json);
  assert.equal((await box.queued()).length, 4);
  assert.deepEqual(failed, Array.from({ length: 5 }, () => "INVALID_MESSAGE"));
});

test("updates wait among the sends, and one that the server would refuse without naming it is not queued", async () => {
  const { box, failed, add } = outbox();
  const update = (action: UpdateAction) =>
    box.add(
      { clientMessageId: crypto.randomUUID(), chatId: "c", sequence: 1, queuedAt: 0, ...action },
      () => undefined,
      ({ code }) => failed.push(code),
    );
  add("a");
  update({ action: "edit", content: "b" });
  update({ action: "edit", content: "" });
  update({ action: "edit", content: "{", contentType: "application/json" });
  update({ action: "delete" });
  ["👍", "e\u0301", ":party:", "x".repeat(64)].forEach((reaction) => update({ action: "react", reaction }));
  ["", "a b", "\u00a0", "\u0007", "x".repeat(65), "\ud83d", "ok\u200b"].forEach((reaction) => update({ action: "unreact", reaction }));
  assert.deepEqual(await queued(box), ["a", "edit", "delete", "react", "react", "react", "react"]);
  assert.deepEqual(failed, Array.from({ length: 9 }, () => "INVALID_MESSAGE"));
});

test("a thousand sends may wait, and one more when one is acked", async () => {
  const { box, add, failed } = outbox();
  const first = add("first");
  for (let n = 1; n <= 1000; n += 1) {
    add(`m${n}`);
  }
  await box.queued();
  assert.deepEqual(failed, ["QUEUE_FULL"]);
  await box.acked(ackOf(first.clientMessageId));
  add("room");
  assert.equal((await box.queued()).length, 1000);
});

test("a send that is refused here leaves another with its id alone", async () => {
  const { box, add } = outbox();
  const [kept, tooLong] = [add("a", "id"), add("x".repeat(5000), "id")];
  await assert.rejects(tooLong.acked, { code: "MESSAGE_TOO_LARGE" });
  assert.equal((await box.queued()).length, 1);
  await box.acked(ackOf("id"));
  assert.equal((await kept.acked).client_message_id, "id");
});

test("a storage that takes nothing fails the send", async () => {
  const { box, add, kept, failed } = outbox({
    ...memoryStorage(),
    addSend: () => Promise.reject(new Error("the disk is full")),
  });
  add("a");
  await box.queued();
  assert.deepEqual([kept, failed], [[], ["NOT_KEPT"]]);
});
