import assert from "node:assert/strict";
import { test } from "node:test";

import type { MessageUpdated, MessageWithStatus, QueuedUpdate, UpdateAction } from "@tidings/client";

import {
  EMPTY,
  segmentAt,
  withMessage,
  withPiece,
  withUpdate,
  withoutSequences,
} from "../src/client/store/timeline.js";
import {
  ackedUpdate,
  byReaction,
  canDelete,
  canEdit,
  isWaiting,
  lastEditable,
  pendingIn,
  previewAfter,
  QUICK_REACTIONS,
  reactionProblem,
  REACTIONS,
  toggleOf,
  withPending,
  withoutPending,
  withPendingUpdates,
  type Rules,
} from "../src/client/store/updates.js";
import { ADA, BOB, CHAT, message, sequences } from "./fixtures.js";

/** An update of message 1 by Bob, with the message in its new state, or without one if it was deleted. */
function updated(
  sequence: number,
  given: Partial<MessageUpdated["update"]>,
  changed?: Partial<MessageWithStatus>,
): MessageUpdated {
  const update = {
    chat_id: CHAT,
    sequence,
    target_sequence: 1,
    user_id: BOB,
    kind: "edited",
    created_at: "2026-01-05T13:00:00.000Z",
    ...given,
  } as const;
  if (update.kind === "deleted") return { update };
  return { update, message: message(update.target_sequence, { state: { revision: sequence }, ...changed }) };
}

const three = withPiece(EMPTY, { messages: [1, 2, 3].map((at) => message(at)), covered: { from: 1, to: 3 } });

function contents(timeline: { messages: readonly MessageWithStatus[] }): string[] {
  return timeline.messages.map(({ content }) => content);
}

test("an update leaves no hole: the next message continues the same segment", () => {
  const edited = withUpdate(three, updated(4, {}, { content: "better" }), ADA);
  const next = withMessage(edited, message(5));
  assert.deepEqual(next.covered, [{ from: 1, to: 5 }]);
  assert.deepEqual(sequences(segmentAt(next, 5)?.messages ?? []), [1, 2, 3, 5]);
  assert.equal(next.messages[0]?.content, "better");
});

test("the copy with the higher revision wins, in whatever order the copies come", () => {
  const edited = withUpdate(three, updated(4, {}, { content: "better" }), ADA);
  const older = withPiece(edited, { messages: [message(1)], covered: { from: 1, to: 3 } });
  assert.equal(older.messages[0]?.content, "better", "a page of history from before the edit");
  const newerPage = [message(1, { content: "best", state: { revision: 6 } })];
  const newest = withPiece(edited, { messages: newerPage, covered: { from: 1, to: 6 } });
  assert.equal(newest.messages[0]?.content, "best");
  assert.equal(withUpdate(newest, updated(5, {}, { content: "good" }), ADA).messages[0]?.content, "best");
});

test("an edit that arrives before its page of history is not lost", () => {
  const edited = withUpdate(EMPTY, updated(4, {}, { content: "better" }), ADA);
  assert.equal(segmentAt(edited, 1), undefined, "the message is not shown without its page");
  const loaded = withPiece(edited, { messages: [message(1), message(2)], covered: { from: 1, to: 3 } });
  assert.deepEqual(contents(segmentAt(loaded, 1) ?? EMPTY), ["better", "message 2"]);
});

test("a deleted message is gone, and an older page of history does not bring it back", () => {
  const deleted = withUpdate(three, updated(4, { kind: "deleted" }), ADA);
  assert.deepEqual(sequences(deleted.messages), [2, 3]);
  assert.deepEqual(deleted.covered, [{ from: 1, to: 4 }]);
  const page = { messages: [message(1), message(2)], covered: { from: 1, to: 3 } };
  assert.deepEqual(sequences(withPiece(deleted, page).messages), [2, 3]);
  const early = withUpdate(EMPTY, updated(4, { kind: "deleted" }), ADA);
  assert.deepEqual(sequences(withPiece(early, page).messages), [2], "it was deleted while the page was on its way");
  const expired = withoutSequences(three, [1]);
  assert.deepEqual(sequences(withUpdate(expired, updated(4, {}), ADA).messages), [2, 3]);
});

test("a reaction of the user from another device is theirs, one of somebody else is not", () => {
  const reactions = [{ reaction: "👍", count: 1 }];
  const changed = { state: { revision: 4, reactions } };
  const reacted = (userId: string) => updated(4, { kind: "reacted", reaction: "👍", user_id: userId }, changed);
  const mine = withUpdate(three, reacted(ADA), ADA).messages[0];
  const theirs = withUpdate(three, reacted(BOB), ADA).messages[0];
  assert.deepEqual(mine && toggleOf(mine, "👍"), "unreact");
  assert.deepEqual(theirs && toggleOf(theirs, "👍"), "react");
});

let lastId = 0;
function queued(action: UpdateAction, sequence = 1): QueuedUpdate {
  lastId += 1;
  return { ...action, clientMessageId: `u${lastId}`, chatId: CHAT, sequence, queuedAt: lastId };
}

test("pending updates show at once, in their order, and only on their message", () => {
  const updates = [
    queued({ action: "edit", content: "better" }),
    queued({ action: "react", reaction: "👍" }),
    queued({ action: "edit", content: "best" }),
    queued({ action: "delete" }, 2),
  ].reduceRight(withPending, []);
  const shown = withPendingUpdates(three.messages, updates);
  assert.deepEqual(contents({ messages: shown }), ["best", "message 3"]);
  assert.deepEqual(shown[0]?.state?.reactions, [{ reaction: "👍", count: 1, mine: true }]);
  assert.equal(withPendingUpdates(three.messages, []), three.messages, "without updates nothing is rendered again");
});

test("a refused update is taken back", () => {
  const update = queued({ action: "delete" });
  const updates = withPending([], update);
  assert.deepEqual(sequences(withPendingUpdates(three.messages, updates)), [2, 3]);
  const refused = withoutPending(updates, update.clientMessageId);
  assert.deepEqual(sequences(withPendingUpdates(three.messages, refused)), [1, 2, 3]);
});

test("an accepted update stays until the timeline contains it, and no longer waits", () => {
  const update = queued({ action: "edit", content: "better" });
  const updates = withPending([], update);
  assert.equal(isWaiting(updates, message(1)), true);
  assert.equal(isWaiting(updates, message(2)), false);
  const accepted = ackedUpdate(updates, update.clientMessageId, 4);
  assert.equal(isWaiting(accepted, message(1)), false);
  assert.equal(pendingIn(accepted, CHAT, three).length, 1, "the text does not go back to the old one meanwhile");
  const arrived = withUpdate(three, updated(4, {}, { content: "better" }), ADA);
  assert.deepEqual(pendingIn(accepted, CHAT, arrived), []);
  assert.deepEqual(pendingIn(accepted, "chat_OTHER", three), []);
});

test("the preview follows pending updates of the last message", () => {
  const last = { message_id: "msg_3", sequence: 3, sender_id: ADA, preview: "message 3", created_at: "" };
  assert.equal(previewAfter([], CHAT, last), "message 3");
  const edit = queued({ action: "edit", content: "better" }, 3);
  assert.equal(previewAfter([edit], CHAT, last), "better");
  assert.equal(previewAfter([edit], "chat_OTHER", last), "message 3");
  assert.equal(previewAfter([queued({ action: "edit", content: "better" }, 2)], CHAT, last), "message 3");
  assert.equal(previewAfter([edit, queued({ action: "delete" }, 3)], CHAT, last), undefined);
  assert.equal(previewAfter([], CHAT, { ...last, preview: null }), null);
});

const rules: Rules = {
  myUserId: ADA,
  chatType: "group",
  myRole: "member",
  windowSeconds: 3600,
  now: Date.parse(message(1).created_at) + 60_000,
};
const own = message(1, { sender_id: ADA });

test("authors edit and delete their own messages within the window", () => {
  assert.deepEqual([canEdit(own, rules), canDelete(own, rules)], [true, true]);
  assert.deepEqual([canEdit(message(1), rules), canDelete(message(1), rules)], [false, false]);
  const late = { ...rules, now: rules.now + 3_600_000 };
  assert.deepEqual([canEdit(own, late), canDelete(own, late)], [false, false]);
  assert.equal(canEdit(own, { ...late, windowSeconds: 0 }), true, "no limit");
  assert.equal(canEdit(own, { ...late, windowSeconds: undefined }), true, "the server knows");
});

test("admins of a group delete any message at any time, and edit only their own", () => {
  const late = { ...rules, now: rules.now + 3_600_000 };
  for (const myRole of ["admin", "owner"] as const) {
    assert.deepEqual(
      [canEdit(message(1), { ...late, myRole }), canDelete(message(1), { ...late, myRole })],
      [false, true],
    );
  }
  assert.equal(canDelete(message(1), { ...rules, chatType: "direct", myRole: "owner" }), false);
});

test("only text is edited: other content belongs to applications", () => {
  const types = ["text/plain", "text/markdown", "application/json", "application/vnd.tidings.encrypted"] as const;
  const editable = types.filter((content_type) => canEdit({ ...own, content_type }, rules));
  assert.deepEqual(editable, ["text/plain", "text/markdown"]);
});

test("the last own message is edited, and not one of somebody else after it", () => {
  const messages = [own, message(2, { sender_id: ADA }), message(3)];
  assert.equal(lastEditable(messages, rules)?.sequence, 2);
  assert.equal(lastEditable([message(3)], rules), undefined);
});

test("the picker offers each reaction once, those of the menu among them, and all are valid", () => {
  assert.equal(new Set(REACTIONS).size, REACTIONS.length);
  for (const reaction of QUICK_REACTIONS) assert.ok(REACTIONS.includes(reaction), reaction);
  assert.deepEqual([...new Set(REACTIONS.map(reactionProblem))], [undefined]);
});

test("a reaction is short and has no spaces", () => {
  assert.equal(reactionProblem("👍"), undefined);
  assert.equal(reactionProblem("x".repeat(64)), undefined);
  assert.match(reactionProblem("x".repeat(65)) ?? "", /too long/);
  assert.match(reactionProblem("👍".repeat(17)) ?? "", /too long/);
  assert.match(reactionProblem("so good") ?? "", /spaces/);
});

test("the members who reacted stand under their reactions, in the order of the message", () => {
  const members = [
    { user_id: ADA, reactions: ["🎉", "👍"] },
    { user_id: BOB, reactions: ["👍"] },
  ];
  const reactions = [
    { reaction: "👍", count: 5 },
    { reaction: "🎉", count: 1 },
    { reaction: "😢", count: 2 },
  ];
  assert.deepEqual(byReaction(members, { state: { revision: 4, reactions } }), [
    { reaction: "👍", userIds: [ADA, BOB], more: 3 },
    { reaction: "🎉", userIds: [ADA], more: 0 },
    { reaction: "😢", userIds: [], more: 2 },
  ]);
});
