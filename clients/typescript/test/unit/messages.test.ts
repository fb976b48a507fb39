import assert from "node:assert/strict";
import { test } from "node:test";

import { EARLY_MAX } from "../../src/session/feed.js";
import type { ClientFrame } from "../../src/wire.js";
import { CHAT, deletion, edit, framesOf, inState, ME, message, update, World } from "./world.js";

test("pushed and synced messages are handed out with their metadata", () => {
  const world = World.established();
  const metadata = { order: { id: 7 }, tags: ["a", null] };
  const pushed = { ...message(2), metadata };
  world.say("message", pushed);
  world.outputs();
  const messages = [{ ...message(1), metadata: {} }, pushed];
  world.say("sync_response", { chat_id: CHAT, messages, has_more: false, head_sequence: 2 }, "y1");
  world.push(3);
  assert.deepEqual(
    world.told("message").map((received) => received.metadata),
    [{}, metadata, undefined],
  );
});

test("messages are handed out in the order of their sequences, and once", () => {
  const world = World.established();
  [3, 1, 1, 3, 2, 2, 5].forEach((sequence) => world.push(sequence));
  assert.deepEqual(world.messages(), [1, 2, 3]);
  world.push(4);
  assert.deepEqual(world.messages(), [4, 5]);
});

test("an update has its place among the messages, and its sequence is no hole", () => {
  const world = World.established();
  world.push(1);
  world.pushUpdate(edit(2, 1, "second"));
  world.push(3);
  world.pushUpdate(edit(2, 1, "second"));
  const outputs = world.outputs();
  assert.deepEqual(framesOf(outputs), []);
  const events = outputs.flatMap((output) => (output.kind === "event" ? [output.event] : []));
  assert.deepEqual(events[1], { name: "updated", detail: edit(2, 1, "second") });
  assert.equal(events.length, 3, "a duplicate is dropped");
});

test("an update beyond a hole waits for the sync", () => {
  const world = World.established();
  world.push(1);
  world.pushUpdate(edit(3, 1, "second"));
  assert.deepEqual(framesOf(world.outputs()), [syncRequest("y1", CHAT, 1)]);
  world.page("y1", CHAT, [2], { head_sequence: 2 });
  assert.deepEqual(world.entries(), [2, 3]);
});

test("a sync page hands out messages and updates in one order, each update with its message", () => {
  const world = World.established();
  world.push(9);
  world.outputs();
  const messages = [inState(5, 6, "of this page"), message(8)];
  const updates = [update(6, 5, "edited"), update(4, 2, "edited"), update(7, 3, "deleted")];
  const updated_messages = [inState(2, 4, "of an earlier page")];
  world.say("sync_response", { chat_id: CHAT, messages, updates, updated_messages, has_more: false, head_sequence: 9 }, "y1");
  const events = world.events();
  assert.deepEqual(
    events.map(({ name, detail }) => [name, detail]),
    [
      ["updated", { update: updates[1], message: updated_messages[0] }],
      ["message", messages[0]],
      ["updated", { update: updates[0], message: messages[0] }],
      ["updated", deletion(7, 3)],
      ["message", messages[1]],
    ],
  );
});

test("a page that ends with an update goes on after it", () => {
  const world = World.established();
  world.push(9);
  world.outputs();
  const page = { messages: [message(1)], updates: [update(2, 1, "deleted")], has_more: true, head_sequence: 9 };
  world.say("sync_response", { chat_id: CHAT, ...page }, "y1");
  assert.deepEqual(world.frames(), [syncRequest("y2", CHAT, 2)]);
});

test("an unknown chat in which a message is updated is looked up", () => {
  const world = World.established({});
  world.pushUpdate(edit(6, 1, "second"));
  assert.deepEqual(world.outputs(), [{ kind: "lookUp", chatId: CHAT }]);
  world.session.handleLookedUp(world.now, CHAT, 6);
  assert.deepEqual(world.frames(), [syncRequest("y0", CHAT, 5)]);
});

test("an update that cannot be read is a hole, and one of a later kind is handed out", () => {
  const world = World.established();
  world.say("message_updated", { update: { ...update(1, 1, "edited"), target_sequence: "1" } });
  world.say("message_updated", { ...edit(1, 1, "a"), message: { ...message(1), state: { revision: -1 } } });
  assert.deepEqual(world.events(), []);
  world.say("message_updated", { update: { ...update(1, 1, "edited"), kind: "pinned" } });
  assert.deepEqual(world.entries(), [1]);
});

test("a hole is asked for once, and the page fills it", () => {
  const world = World.established();
  world.push(1);
  world.push(4);
  world.push(5);
  const outputs = world.outputs();
  assert.deepEqual(framesOf(outputs), [syncRequest("y1", CHAT, 1)]);
  world.page("y1", CHAT, [2, 3, 4], { head_sequence: 4 });
  assert.deepEqual(world.messages(), [2, 3, 4, 5]);
});

test("what has expired is no hole", () => {
  const world = World.established();
  world.push(7);
  world.page("y1", CHAT, [3], { head_sequence: 7 });
  assert.deepEqual(world.messages(), [3], "7 has expired since its push");
  world.push(8);
  assert.deepEqual(world.messages(), [8]);
});

test("a long absence is asked for page by page", () => {
  const world = World.established();
  world.push(9);
  world.outputs();
  world.page("y1", CHAT, [1, 2], { has_more: true, next_sequence: 5, head_sequence: 9 });
  const outputs = world.outputs();
  assert.deepEqual(framesOf(outputs), [syncRequest("y2", CHAT, 4)], "3 and 4 are gone");
  world.page("y2", CHAT, [5, 9], { head_sequence: 9 });
  assert.deepEqual(world.messages(), [5, 9]);
});

test("what has no room to wait beyond a hole comes with the sync", () => {
  const world = World.established();
  const last = EARLY_MAX + 50;
  for (let sequence = 2; sequence <= last; sequence += 1) {
    world.push(sequence);
  }
  world.outputs();
  world.page("y1", CHAT, [1], { has_more: true, next_sequence: 2, head_sequence: last });
  const outputs = world.outputs();
  const handedOut = outputs.filter((output) => output.kind === "event" && output.event.name === "message").length;
  assert.equal(handedOut, 1 + EARLY_MAX);
  assert.deepEqual(framesOf(outputs), [syncRequest("y2", CHAT, 1 + EARLY_MAX)]);
});

test("what came before takes no room beyond a hole", () => {
  const world = World.established({ [CHAT]: 1000 });
  for (let sequence = 1; sequence <= 2 * EARLY_MAX; sequence += 1) {
    world.push(sequence);
  }
  world.push(1002);
  world.push(1001);
  assert.deepEqual(world.messages(), [1001, 1002]);
});

test("a page that repeats, or comes unasked, changes nothing", () => {
  const world = World.established();
  world.push(2);
  world.page("y9", CHAT, [1, 2], { head_sequence: 2 });
  assert.deepEqual(world.messages(), []);
  world.page("y1", CHAT, [1, 1, 2], { head_sequence: 2 });
  world.page("y1", CHAT, [1, 2], { head_sequence: 2 });
  assert.deepEqual(world.messages(), [1, 2]);
});

test("after a resync every chat is synced, once more if one was under way", () => {
  const world = World.established({ a: 3, b: 5 });
  world.say("resync", { reason: "missed_pushes" });
  const outputs = world.outputs();
  assert.ok(outputs.some(({ kind }) => kind === "listChats"));
  assert.deepEqual(framesOf(outputs), [syncRequest("y2", "a", 3), syncRequest("y3", "b", 5)]);
  world.say("resync", { reason: "missed_pushes" });
  world.page("y2", "a", [], { head_sequence: 3 });
  assert.deepEqual(world.frames(), [syncRequest("y4", "a", 3)]);
});

test("a connection begins with a sync of every chat from where it is", () => {
  const world = World.established({ a: 3, b: 0 });
  world.push(4, "a");
  world.end({ kind: "lost" });
  world.wait();
  world.outputs();
  world.establish();
  assert.deepEqual(world.frames(), [syncRequest("y2", "a", 4), syncRequest("y3", "b", 0)]);
});

test("caughtUp comes when the list is here and every chat has its answer", () => {
  const world = new World();
  world.session.resume("a", 3);
  world.session.connect(0);
  world.establish();
  world.page("y0", "a", [4], { head_sequence: 4 });
  world.list([
    { chatId: "a", delivered: 4, head: 4 },
    { chatId: "b", delivered: 1, head: 2 },
  ]);
  assert.deepEqual(
    world.events().map(({ name }) => name),
    ["connected", "message"],
  );
  world.page("y1", "b", [2], { head_sequence: 2 });
  assert.deepEqual(
    world.events().map(({ name }) => name),
    ["message", "caughtUp"],
  );
});

test("a listed chat begins where the user is, and that place is kept", () => {
  const world = World.established({});
  world.list([{ chatId: "a", delivered: 7, head: 7 }]);
  assert.deepEqual(world.outputs(), [{ kind: "keepPosition", chatId: "a", sequence: 7 }]);
  world.list([{ chatId: "a", delivered: 9, head: 9 }]);
  assert.deepEqual(world.outputs(), [], "another device of the user has come further, this one has not");
});

test("an unknown chat that is pushed is looked up once and nothing of it is missed", () => {
  const world = World.established({});
  world.push(6, "a");
  world.push(5, "a");
  assert.deepEqual(world.outputs(), [{ kind: "lookUp", chatId: "a" }]);
  world.session.handleLookedUp(world.now, "a", 6);
  const outputs = world.outputs();
  assert.deepEqual(outputs[0], { kind: "keepPosition", chatId: "a", sequence: 4 }, "another device has acknowledged 6");
  assert.deepEqual(framesOf(outputs), [syncRequest("y0", "a", 4)]);
});

test("a look-up that fails is repeated after a pause, and one of a chat that is gone is not", () => {
  const world = World.established({});
  world.push(1, "a");
  world.outputs();
  world.session.handleLookUpFailed(world.now, "a", "unreachable");
  world.pass(1000);
  assert.deepEqual(world.outputs(), [{ kind: "lookUp", chatId: "a" }]);
  world.session.handleLookUpFailed(world.now, "a", "gone");
  world.pass(4000);
  assert.deepEqual(world.frames(), [{ type: "heartbeat", payload: {} }]);
});

test("a chat that the user is removed from is dropped, and another's removal is news", () => {
  const world = World.established();
  world.say("chat_updated", { chat_id: CHAT, change: "member_removed", user_id: "user_other" });
  assert.deepEqual(
    world.events().map(({ name }) => name),
    ["chatUpdated"],
  );
  world.say("chat_updated", { chat_id: CHAT, change: "member_removed", user_id: ME });
  const kinds = world.outputs().map((output) => (output.kind === "event" ? output.event.name : output.kind));
  assert.deepEqual(kinds, ["chatUpdated", "forgetPosition", "chatGone"]);
});

test("a sync that is refused because the user is no member drops the chat", () => {
  const world = World.established();
  world.push(2);
  world.refuse("y1", "NOT_A_MEMBER");
  assert.deepEqual(world.told("chatGone"), [{ chatId: CHAT }]);
});

test("a server that knows less resets the chat to its head", () => {
  const world = World.established({ [CHAT]: 50 });
  world.say("resync", { reason: "x" });
  world.outputs();
  world.refuse("y1", "INVALID_SEQUENCE", { head_sequence: 10 });
  assert.deepEqual(world.outputs(), [
    { kind: "keepPosition", chatId: CHAT, sequence: 10 },
    { kind: "event", event: { name: "chatReset", detail: { chatId: CHAT, sequence: 10 } } },
  ]);
  world.push(11);
  assert.deepEqual(world.messages(), [11]);
});

test("a rate limit pauses every sync for the time asked, without a timeout that is past", () => {
  const world = World.established({ a: 0, b: 0, c: 0, d: 0, e: 0 });
  ["a", "b", "c", "d", "e"].forEach((chatId) => world.push(2, chatId));
  assert.equal(world.frames().length, 4, "four at a time");
  world.refuse("y5", "RATE_LIMITED", { retry_after_seconds: 2 });
  world.pass(1999);
  assert.deepEqual(world.frames(), []);
  world.pass(1);
  assert.deepEqual(world.frames(), [syncRequest("y9", "a", 0)]);
  world.pass(1000);
});

test("a sync that brings nothing is given up after three pauses, until there is a new reason", () => {
  const world = World.established();
  world.push(2);
  for (let n = 1; n <= 4; n += 1) {
    const asked = world.frames().filter(({ type }) => type === "sync_request");
    assert.deepEqual(asked, [syncRequest(`y${n}`, CHAT, 0)]);
    world.page(`y${n}`, CHAT, [], { has_more: true, next_sequence: 1, head_sequence: 2 });
    world.say("heartbeat_ack", {});
    world.pass(8000);
  }
  assert.deepEqual(
    world.frames().filter(({ type }) => type === "sync_request"),
    [],
  );
  world.push(3);
  assert.deepEqual(world.frames(), [syncRequest("y5", CHAT, 0)]);
});

test("a sync that failed in the server is tried again half a minute after it was given up", () => {
  const world = World.established();
  const syncs = () => world.frames().filter(({ type }) => type === "sync_request");
  world.push(2);
  for (let n = 1; n <= 4; n += 1) {
    assert.deepEqual(syncs(), [syncRequest(`y${n}`, CHAT, 0)]);
    world.refuse(`y${n}`, "INTERNAL_ERROR");
    world.say("heartbeat_ack", {});
    world.pass(8000);
  }
  const began = world.now;
  let again = syncs();
  assert.deepEqual(again, [], "it is given up");
  while (again.length === 0 && world.now < began + 60_000) {
    world.say("heartbeat_ack", {});
    world.pass(1000);
    again = syncs();
  }
  assert.deepEqual(again, [syncRequest("y5", CHAT, 0)]);
  assert.ok(world.now >= began + 20_000, "not at once");
});

test("news are told as they come", () => {
  const world = World.established();
  const receipt = { chat_id: CHAT, user_id: "u", delivered_sequence: 2, read_sequence: 1 };
  const typing = { chat_id: CHAT, user_id: "u", is_typing: true };
  world.say("receipt", receipt);
  world.say("message_expired", { chat_id: CHAT, sequences: [1, 2] });
  world.say("typing_indicator", typing);
  world.say("presence_changed", { user_id: "u", status: "online" });
  world.say("presence_snapshot", { presences: [{ user_id: "u", status: "offline" }] }, "p");
  world.say("error", { code: "INVALID_SEQUENCE", message: "no" });
  world.say("error", { code: "SLOW_CONSUMER", message: "read" });
  assert.deepEqual(world.events(), [
    { name: "receipt", detail: receipt },
    { name: "expired", detail: { chatId: CHAT, sequences: [1, 2] } },
    { name: "typing", detail: typing },
    { name: "presence", detail: [{ user_id: "u", status: "online" }] },
    { name: "presence", detail: [{ user_id: "u", status: "offline" }] },
    { name: "refused", detail: { code: "INVALID_SEQUENCE", message: "no" } },
  ]);
});

test("a message is told with every field that it came with", () => {
  const world = World.established();
  const whole = { ...message(1), expires_at: "2026-11-15T13:00:00.000Z", client_message_id: "id" };
  world.say("message", whole);
  assert.deepEqual(world.told("message"), [whole]);
});

function syncRequest(requestId: string, chatId: string, after: number): ClientFrame {
  const payload = { chat_id: chatId, last_acked_sequence: after, limit: 500 };
  return { type: "sync_request", request_id: requestId, payload };
}
