import assert from "node:assert/strict";
import { test } from "node:test";

import {
  acked,
  pending,
  refused,
  withEntry,
  withoutEntry,
  type Outbox,
  type OutboxEntry,
} from "../src/client/store/outbox.js";
import { EMPTY, withMessage, withoutSequences } from "../src/client/store/timeline.js";
import { CHAT, message } from "./fixtures.js";

function entry(clientMessageId: string, queuedAt: number): OutboxEntry {
  return { clientMessageId, chatId: CHAT, content: clientMessageId, queuedAt, state: "queued" };
}

const two: Outbox = withEntry(withEntry([], entry("b", 2)), entry("a", 1));

function shown(outbox: Outbox, messages = [message(1)]): string[] {
  const timeline = messages.reduce(withMessage, EMPTY);
  return pending(outbox, CHAT, timeline).map(({ clientMessageId, state }) => `${clientMessageId} ${state}`);
}

test("sends stand in the order they were written", () => {
  assert.deepEqual(shown(two), ["a queued", "b queued"]);
});

test("a send that is tried again keeps its place", () => {
  const failed = refused(two, "a", { text: "no", remedy: "none" });
  assert.deepEqual(shown(withEntry(failed, entry("a", 1))), ["a queued", "b queued"]);
});

test("a message shows once: as a send, until the timeline has it by id or by sequence", () => {
  const sent = acked(two, "a", 7);
  assert.deepEqual(shown(sent), ["a sent", "b queued"]);
  assert.deepEqual(shown(sent, [message(7)]), ["b queued"], "history has brought it");
  assert.deepEqual(
    shown(sent, [message(8, { client_message_id: "b" })]),
    ["a sent"],
    "its push has come before its ack",
  );
});

test("a refused send stays, with the reason, until it is thrown away", () => {
  const failed = refused(two, "b", { text: "too long" });
  assert.equal(failed[1]?.error, "too long");
  const blocked = refused(failed, "b", { text: "blocked", remedy: "unblock" });
  assert.deepEqual([blocked[1]?.error, blocked[1]?.remedy], ["blocked", "unblock"]);
  assert.equal(refused(blocked, "b", { text: "too long" })[1]?.remedy, undefined, "a remedy is for its refusal alone");
  assert.deepEqual(shown(withoutEntry(failed, "b")), ["a queued"]);
});

test("a send is over too if its message was deleted before it arrived", () => {
  const deleted = withoutSequences(withMessage(EMPTY, message(7)), [7]);
  assert.deepEqual(
    pending(acked(two, "a", 7), CHAT, deleted).map(({ clientMessageId }) => clientMessageId),
    ["b"],
  );
});

test("sends of other chats are theirs", () => {
  assert.deepEqual(pending(two, "chat_OTHER", EMPTY), []);
});
