import assert from "node:assert/strict";
import { test } from "node:test";

import { logItems } from "../src/client/store/grouping.js";
import { ADA, BOB, CHAT, message } from "./fixtures.js";

/** The log in short: `Bob 1 2` is a group with two bubbles. */
function check(given: Partial<Parameters<typeof logItems>[0]>, expected: string[]): void {
  const items = logItems({ messages: [], sends: [], myUserId: ADA, unreadAbove: undefined, ...given });
  const lines = items.map((item) => {
    if (item.kind !== "group") return item.kind;
    const bubbles = item.bubbles.map((bubble) =>
      bubble.kind === "message" ? bubble.message.sequence : bubble.entry.content,
    );
    return `${item.senderId === BOB ? "Bob" : "Ada"} ${bubbles.join(" ")}`;
  });
  assert.deepEqual(lines, expected);
}

const at = (time: string) => ({ created_at: `2026-01-05T${time}:00.000Z` });

test("messages of one sender close together are one group", () => {
  const messages = [message(1, at("12:00")), message(2, at("12:04")), message(3, at("12:08")), message(4, at("12:30"))];
  check({ messages }, ["day", "Bob 1 2 3", "Bob 4"]);
});

test("another sender or another day begins a new group", () => {
  const tomorrow = { created_at: "2026-01-07T12:00:00.000Z" };
  const messages = [message(1, at("12:00")), message(2, { ...at("12:01"), sender_id: ADA }), message(3, tomorrow)];
  check({ messages }, ["day", "Bob 1", "Ada 2", "day", "Bob 3"]);
});

test("the divider stands once, before the first unread message of somebody else", () => {
  const messages = [
    message(1, at("12:00")),
    message(2, { ...at("12:01"), sender_id: ADA }),
    message(3, at("12:02")),
    message(4, at("12:03")),
  ];
  check({ messages, unreadAbove: 1 }, ["day", "Bob 1", "Ada 2", "unread", "Bob 3 4"]);
  check({ messages, unreadAbove: 4 }, ["day", "Bob 1", "Ada 2", "Bob 3 4"]);
});

test("sends stand behind all messages, together with one's own last ones", () => {
  const queuedAt = Date.parse("2026-01-05T12:03:00.000Z");
  const send = { clientMessageId: "x", chatId: CHAT, content: "on its way", queuedAt, state: "queued" } as const;
  const messages = [message(1, at("12:00")), message(2, { ...at("12:01"), sender_id: ADA })];
  check({ messages, sends: [send] }, ["day", "Bob 1", "Ada 2 on its way"]);
});

test("every item has a key of its own", () => {
  const messages = [1, 2, 3, 4].map((sequence) => message(sequence, sequence % 2 ? { sender_id: ADA } : {}));
  const items = logItems({ messages, sends: [], myUserId: ADA, unreadAbove: 2 });
  assert.equal(new Set(items.map((item) => item.key)).size, items.length);
});
