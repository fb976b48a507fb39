import assert from "node:assert/strict";
import { test } from "node:test";

import {
  badge,
  chatName,
  matching,
  newestFirst,
  withChats,
  withPush,
  withRead,
  withUpdate,
  type Inbox,
} from "../src/client/store/inbox.js";
import { ADA, BOB, CHAT, chat, message } from "./fixtures.js";

function inboxOf(...chats: ReturnType<typeof chat>[]): Inbox {
  return withChats(new Map(), chats);
}

test("a push counts once and shows as the last message", () => {
  const before = inboxOf(chat({ head_sequence: 4, my_read_sequence: 4 }));
  const once = withPush(before, message(5), ADA);
  const twice = withPush(once, message(5), ADA);
  assert.equal(twice.get(CHAT)?.unread_count, 1);
  assert.equal(twice.get(CHAT)?.last_message?.preview, "message 5");
  assert.equal(twice, once, "nothing has changed");
});

test("a push that the server has counted already is not counted again", () => {
  const told = inboxOf(chat({ head_sequence: 5, my_read_sequence: 4, unread_count: 1 }));
  assert.equal(withPush(told, message(5), ADA).get(CHAT)?.unread_count, 1);
});

/** An update with sequence 6, of the message with sequence 5. */
const update = {
  chat_id: CHAT,
  sequence: 6,
  target_sequence: 5,
  user_id: BOB,
  kind: "edited",
  created_at: "2026-01-05T13:00:00.000Z",
} as const;

test("an update moves the head, counts as no message, and its edit changes the preview of the last one", () => {
  const before = withPush(inboxOf(chat({ head_sequence: 4, my_read_sequence: 4 })), message(5), ADA);
  const edited = withUpdate(before, { update, message: message(5, { content: "better" }) }, message(5));
  const { head_sequence, unread_count, last_message } = edited.get(CHAT) ?? chat();
  assert.deepEqual([head_sequence, unread_count, last_message?.preview], [6, 1, "better"]);
  const older = { update: { ...update, target_sequence: 3 }, message: message(3, { content: "better" }) };
  assert.equal(withUpdate(before, older).get(CHAT)?.last_message?.preview, "message 5");
});

test("the preview of a deleted message is cleared at once", () => {
  const before = withPush(inboxOf(chat({ head_sequence: 4 })), message(5), ADA);
  const deleted = { update: { ...update, kind: "deleted" } as const };
  assert.equal(withUpdate(before, deleted).get(CHAT)?.last_message, null);
  assert.equal(withUpdate(before, deleted, message(4)).get(CHAT)?.last_message?.preview, "message 4");
});

test("an update that the server's state contains already changes nothing", () => {
  const told = inboxOf(chat({ head_sequence: 6 }));
  assert.equal(withUpdate(told, { update, message: message(5) }), told);
  assert.equal(withUpdate(new Map(), { update, message: message(5) }).size, 0);
});

test("one's own messages, and what was read elsewhere, are not unread", () => {
  const before = inboxOf(chat({ head_sequence: 4, my_read_sequence: 6 }));
  assert.equal(withPush(before, message(5), ADA).get(CHAT)?.unread_count, 0);
  assert.equal(withPush(before, message(7, { sender_id: ADA }), ADA).get(CHAT)?.unread_count, 0);
});

test("an older word of the server does not undo a push", () => {
  const pushed = withPush(inboxOf(chat({ head_sequence: 4 })), message(5), ADA);
  const merged = withChats(pushed, [chat({ head_sequence: 4, name: "new name" })]).get(CHAT);
  assert.equal(merged?.head_sequence, 5);
  assert.equal(merged?.unread_count, 1);
  assert.equal(merged?.last_message?.sequence, 5);
  assert.equal(merged?.name, "new name", "the rest is taken over");
});

test("reading takes the count down to what is left, and never back up", () => {
  const before = inboxOf(chat({ head_sequence: 9, my_read_sequence: 4, unread_count: 5 }));
  const half = withRead(before, CHAT, 7, 2);
  assert.equal(half.get(CHAT)?.unread_count, 2);
  assert.equal(withRead(half, CHAT, 5, 4).get(CHAT)?.unread_count, 2);
  assert.equal(withRead(half, CHAT, 9, undefined).get(CHAT)?.unread_count, 0);
  const stale = withChats(withRead(half, CHAT, 9, undefined), [
    chat({ head_sequence: 9, my_read_sequence: 4, unread_count: 5 }),
  ]);
  assert.equal(stale.get(CHAT)?.unread_count, 0, "the server has not heard of it yet");
});

test("where this device cannot count, the old count stands", () => {
  const before = inboxOf(chat({ head_sequence: 9, my_read_sequence: 4, unread_count: 5 }));
  assert.equal(withRead(before, CHAT, 7, undefined).get(CHAT)?.unread_count, 5);
});

test("the newest chat is first, and an empty one stands where it was made", () => {
  const inbox = inboxOf(
    chat({ chat_id: "chat_A", last_message_at: "2026-01-05T12:00:00.000Z" }),
    chat({ chat_id: "chat_B", created_at: "2026-01-06T12:00:00.000Z" }),
    chat({ chat_id: "chat_C", last_message_at: "2026-01-07T12:00:00.000Z" }),
    chat({ chat_id: "chat_D", last_message_at: "2026-01-05T12:00:00.000Z" }),
  );
  assert.deepEqual(
    newestFirst(inbox).map((one) => one.chat_id),
    ["chat_C", "chat_B", "chat_D", "chat_A"],
  );
});

test("a search finds every word, without case and accents", () => {
  const jose = { user_id: BOB, display_name: "José Martí", created_at: "" };
  const chats = [chat({ other_participants: [jose] }), chat({ chat_id: "chat_TWO", type: "group", name: "Book club" })];
  assert.deepEqual(
    matching(chats, "MARTI jose").map((one) => one.chat_id),
    [CHAT],
  );
  assert.deepEqual(
    matching(chats, "book").map((one) => one.chat_id),
    ["chat_TWO"],
  );
  assert.deepEqual(matching(chats, "nobody"), []);
});

test("a group without a name is called after those in it", () => {
  const participants = ["Bob", "Cleo"].map((name) => ({ user_id: name, display_name: name, created_at: "" }));
  assert.equal(chatName(chat({ type: "group", other_participants: participants, member_count: 3 })), "Bob, Cleo");
  assert.equal(
    chatName(chat({ type: "group", other_participants: participants, member_count: 6 })),
    "Bob, Cleo and 3 more",
  );
  assert.equal(chatName(chat({ type: "group", other_participants: [], member_count: 1 })), "Just you");
});

test("a badge stays short, and says if there are more", () => {
  const badges = [1, 999, 1000].map((unread_count) => badge({ unread_count }));
  assert.deepEqual(badges, ["1", "999", "999+"]);
  const more = [7, 1000].map((unread_count) => badge({ unread_count, unread_count_exact: false }));
  assert.deepEqual(more, ["7+", "999+"]);
});

test("a count that is not exact stays so until this device can count", () => {
  const before = inboxOf(chat({ head_sequence: 1200, my_read_sequence: 0, unread_count: 1000, unread_count_exact: false }));
  const pushed = withPush(before, message(1201), ADA);
  assert.equal(pushed.get(CHAT)?.unread_count_exact, false);
  assert.equal(withRead(pushed, CHAT, 50, undefined).get(CHAT)?.unread_count_exact, false);
  const counted = withRead(pushed, CHAT, 1199, 2).get(CHAT);
  assert.deepEqual([counted?.unread_count, counted?.unread_count_exact], [2, true]);
  assert.equal(withRead(pushed, CHAT, 1201, undefined).get(CHAT)?.unread_count_exact, true);
});
