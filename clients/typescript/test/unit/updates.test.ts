import assert from "node:assert/strict";
import { test } from "node:test";

import type { UpdateAction } from "../../src/storage/storage.js";
import { newer, revisionOf, withQueued, withUpdated } from "../../src/updates.js";
import type { MessageWithStatus, Reaction } from "../../src/wire.js";
import { deletion, edit, inState, ME, message, queuedUpdate, update } from "./world.js";

/** A message with these reactions at a revision. */
function reactedTo(revision: number, ...reactions: Reaction[]): MessageWithStatus {
  return { ...message(1), state: { revision, reactions } };
}

/** The reactions of a message: with `*` those of the reader, with `?` those of which that is unknown. */
function reactions(shown: MessageWithStatus | undefined): string[] {
  const mark = ({ mine }: Reaction) => (mine === undefined ? "?" : mine ? "*" : "");
  return (shown?.state?.reactions ?? []).map((one) => `${one.reaction}${one.count}${mark(one)}`);
}

/** The event of a reaction, with the message in its new state. */
function reaction(kind: "reacted" | "unreacted", name: string, userId: string, after: MessageWithStatus) {
  return { update: { ...update(revisionOf(after), 1, kind), reaction: name, user_id: userId }, message: after };
}

/** The message after these queued updates. */
function queued(shown: MessageWithStatus, ...actions: UpdateAction[]): MessageWithStatus | undefined {
  return withQueued(
    shown,
    actions.map((action) => queuedUpdate(action)),
  );
}

test("the copy with the higher revision stays, in whatever order they come", () => {
  const [first, second] = [message(1), inState(1, 5, "second")];
  assert.equal(newer(first, second).content, "second");
  assert.equal(newer(second, first).content, "second");
  assert.equal(newer(undefined, first), first);
  assert.deepEqual([revisionOf(first), revisionOf(second)], [0, 5]);
});

test("a push takes away neither the status nor the own reactions that history has told", () => {
  const known: MessageWithStatus = { ...reactedTo(4, { reaction: "👍", count: 2, mine: true }), status: "read" };
  const pushed = reactedTo(5, { reaction: "👍", count: 3 }, { reaction: "❤", count: 1 });
  assert.deepEqual(reactions(newer(known, pushed)), ["👍3*", "❤1"], "nobody had a heart before");
  assert.equal(newer(known, pushed).status, "read");
  assert.deepEqual(reactions(newer(pushed, known)), ["👍3*", "❤1"]);
  assert.equal(newer(pushed, { ...known, status: "delivered" }).status, "delivered");
  assert.deepEqual(reactions(newer(undefined, pushed)), ["👍3?", "❤1?"]);
});

test("updates name the user, so own reactions are known without history", () => {
  let held = withUpdated(message(1), reaction("reacted", "👍", ME, reactedTo(2, { reaction: "👍", count: 1 })), ME);
  assert.deepEqual(reactions(held), ["👍1*"]);
  held = withUpdated(held, reaction("reacted", "👍", "user_other", reactedTo(3, { reaction: "👍", count: 2 })), ME);
  assert.deepEqual(reactions(held), ["👍2*"]);
  held = withUpdated(held, reaction("unreacted", "👍", ME, reactedTo(4, { reaction: "👍", count: 1 })), ME);
  assert.deepEqual(reactions(held), ["👍1"]);
});

test("a stale page of history does not give back a reaction that was removed", () => {
  const stale = reactedTo(2, { reaction: "👍", count: 1, mine: true });
  let held = withUpdated(stale, reaction("unreacted", "👍", ME, reactedTo(3)), ME);
  held = withUpdated(held, reaction("reacted", "👍", "user_other", reactedTo(4, { reaction: "👍", count: 1 })), ME);
  assert.deepEqual(reactions(newer(held, stale)), ["👍1"]);
});

test("an update of a message that is not held brings it, and a deletion removes it", () => {
  assert.equal(withUpdated(undefined, edit(7, 1, "second"), ME)?.content, "second");
  assert.equal(withUpdated(message(1), deletion(7, 1), ME), undefined);
  assert.equal(withUpdated(message(1), { update: update(7, 1, "edited") }, ME), undefined, "it has expired since");
});

test("an update that comes with a later state does not undo it", () => {
  const later = inState(1, 9, "third");
  assert.equal(withUpdated(later, edit(5, 1, "second"), ME)?.content, "third");
});

test("a queued edit replaces content, content type and metadata at once", () => {
  const known: MessageWithStatus = { ...message(1), content_type: "text/markdown", metadata: { a: 1 }, status: "read" };
  const shown = queued(known, { action: "edit", content: "second" });
  const edits = { revision: 0, edited_at: "1970-01-01T00:00:00.000Z", edit_count: 1 };
  assert.deepEqual(shown, { ...message(1), content: "second", status: "read", state: edits });
  const again = queued(known, { action: "edit", content: "b" }, { action: "edit", content: "c", metadata: { b: 2 } });
  assert.deepEqual([again?.content, again?.metadata, again?.state?.edit_count], ["c", { b: 2 }, 2]);
});

test("a queued deletion hides the message, whatever follows", () => {
  assert.equal(queued(message(1), { action: "delete" }, { action: "edit", content: "b" }), undefined);
});

test("a queued reaction is the one that the server stores", () => {
  const coffee = (action: "react" | "unreact"): UpdateAction => ({ action, reaction: "☕\ufe0f" });
  assert.deepEqual(reactions(queued(message(1), coffee("react"))), ["☕1*"]);
  const ofOther = reactedTo(3, { reaction: "☕", count: 1, mine: false });
  assert.deepEqual(reactions(queued(ofOther, coffee("react"))), ["☕2*"]);
  const own = reactedTo(3, { reaction: "\u00e9", count: 1, mine: true });
  assert.deepEqual(reactions(queued(own, { action: "unreact", reaction: "e\u0301" })), []);
});

test("queued updates of other messages change nothing", () => {
  const elsewhere = { ...queuedUpdate({ action: "delete" }), chatId: "chat_02" };
  assert.deepEqual(withQueued(message(1), [queuedUpdate({ action: "delete" }, 2), elsewhere]), message(1));
});

test("queued reactions count at once, and not twice when their update has come", () => {
  const react: UpdateAction = { action: "react", reaction: "👍" };
  const unreact: UpdateAction = { action: "unreact", reaction: "👍" };
  assert.deepEqual(reactions(queued(message(1), react)), ["👍1*"]);
  assert.deepEqual(reactions(queued(message(1), react, unreact)), []);
  assert.deepEqual(reactions(queued(message(1), react, unreact, react)), ["👍1*"]);
  const ofOther = reactedTo(3, { reaction: "👍", count: 1, mine: false });
  assert.deepEqual(reactions(queued(ofOther, react)), ["👍2*"]);
  assert.deepEqual(reactions(queued(ofOther, unreact)), ["👍1"], "nothing of the reader's to remove");
  const contained = reactedTo(4, { reaction: "👍", count: 2, mine: true });
  assert.deepEqual(reactions(queued(contained, react)), ["👍2*"]);
});
