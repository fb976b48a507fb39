import assert from "node:assert/strict";
import { test } from "node:test";

import { logItems } from "../src/client/store/grouping.js";
import { changeInWords, withNote, type Note } from "../src/client/store/notes.js";
import { ADA, message } from "./fixtures.js";

const note = (key: string, after: number): Note => ({ key, at: 0, after, text: key });

/** The log in short: sequences of bubbles, and notes by their text. */
function shown(notes: readonly Note[], isCut = { above: false, below: false }, messages = [3, 4, 5].map((n) => message(n))) {
  const items = logItems({ messages, sends: [], notes, isCut, myUserId: ADA, unreadAbove: undefined });
  return items.flatMap((item): (string | number)[] => {
    if (item.kind === "note") return [item.text];
    if (item.kind !== "group") return [];
    return item.bubbles.map((bubble) => (bubble.kind === "message" ? bubble.message.sequence : "send"));
  });
}

test("a change stands behind the last message before it", () => {
  assert.deepEqual(shown([note("a", 3), note("b", 4), note("c", 4), note("d", 5)]), [3, "a", 4, "b", "c", 5, "d"]);
  assert.deepEqual(shown([note("a", 0)]), ["a", 3, 4, 5]);
  assert.deepEqual(shown([note("a", 0)], undefined, []), ["a"], "a chat without messages shows its changes");
});

test("a change of messages that are not on the page is not on it either", () => {
  const notes = [note("older", 2), note("in", 4), note("edge", 5), note("newer", 9)];
  assert.deepEqual(shown(notes, { above: true, below: true }), [3, 4, "in", 5]);
  assert.deepEqual(shown(notes, { above: true, below: false }), [3, 4, "in", 5, "edge", "newer"]);
  assert.deepEqual(shown(notes), ["older", 3, 4, "in", 5, "edge", "newer"]);
});

test("old changes make room", () => {
  let notes: readonly Note[] = [];
  for (let n = 0; n < 60; n += 1) notes = withNote(notes, note(`n${n}`, n));
  assert.deepEqual([notes.length, notes[0]?.key, notes.at(-1)?.key], [50, "n10", "n59"]);
});

test("changes are told in words, and unknown ones are not told", () => {
  const facts = { who: "Ada", isMe: false, role: "owner", chatName: "Club", lifetime: undefined };
  assert.equal(changeInWords("role_changed", facts), "Ada is now the owner");
  assert.equal(changeInWords("role_changed", { ...facts, who: "You", isMe: true, role: "admin" }), "You are now an admin");
  assert.equal(changeInWords("role_changed", { ...facts, role: undefined }), undefined);
  assert.equal(changeInWords("message_ttl_changed", { ...facts, lifetime: "1 hour" }), "New messages disappear after 1 hour");
  assert.equal(changeInWords("created", facts), undefined);
  assert.equal(changeInWords("painted" as "created", facts), undefined);
});
