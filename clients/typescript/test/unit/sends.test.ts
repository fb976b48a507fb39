import assert from "node:assert/strict";
import { test } from "node:test";

import type { ClientFrame } from "../../src/wire.js";
import { ack, CHAT, edit, ME, queuedUpdate, send, TIME, World } from "./world.js";

/** The sent messages: number and content. */
function sent(world: World): string[] {
  return sentOf(world.frames());
}

function sentOf(frames: ClientFrame[]): string[] {
  return frames.flatMap((frame) =>
    frame.type === "send_message" ? [`${frame.request_id} ${frame.payload.content}`] : [],
  );
}

/** Whether a frame is sent within this many seconds of an established connection. */
function isSentWithin(world: World, seconds: number): boolean {
  for (let second = 0; second < seconds; second += 1) {
    if (sent(world).length > 0) {
      return true;
    }
    world.pass(1000);
    world.say("heartbeat_ack", {});
  }
  return false;
}

test("a send says what it was given, and no more", () => {
  const world = World.established();
  world.session.send(0, { ...send("a"), contentType: "text/markdown", metadata: { a: 1 }, ttlSeconds: 60 });
  world.session.send(0, send("b"));
  assert.deepEqual(
    world.frames().map(({ payload }) => payload),
    [
      {
        client_message_id: "id of a",
        chat_id: CHAT,
        content: "a",
        content_type: "text/markdown",
        metadata: { a: 1 },
        ttl_seconds: 60,
      },
      { client_message_id: "id of b", chat_id: CHAT, content: "b" },
    ],
  );
});

test("an update says what it was given, and no more", () => {
  const world = World.established();
  world.session.send(0, queuedUpdate({ action: "edit", content: "b", contentType: "text/markdown", metadata: { a: 1 } }));
  world.session.send(0, queuedUpdate({ action: "edit", content: "c" }));
  world.session.send(0, queuedUpdate({ action: "delete" }));
  world.session.send(0, queuedUpdate({ action: "react", reaction: "👍" }));
  world.session.send(0, queuedUpdate({ action: "unreact", reaction: "👍" }));
  const frames = world.frames();
  assert.ok(frames.every(({ type }) => type === "update_message"));
  const ids = { client_message_id: "id of an update", chat_id: CHAT, sequence: 1 };
  assert.deepEqual(
    frames.map(({ payload }) => payload),
    [
      { ...ids, action: "edit", content: "b", content_type: "text/markdown", metadata: { a: 1 } },
      { ...ids, action: "edit", content: "c" },
      { ...ids, action: "delete" },
      { ...ids, action: "react", reaction: "👍" },
      { ...ids, action: "unreact", reaction: "👍" },
    ],
  );
});

test("the ack of an update is told, and its push hands it out", () => {
  const world = World.established({ [CHAT]: 1 });
  world.session.send(0, queuedUpdate({ action: "edit", content: "b" }));
  world.outputs();
  world.say("send_message_ack", ack("b", 2), "s0");
  assert.deepEqual(
    world.events().map(({ name }) => name),
    ["sent"],
  );
  world.pushUpdate(edit(2, 1, "b"));
  assert.deepEqual(world.told("updated"), [edit(2, 1, "b")]);
});

test("updates and sends of a chat keep their ids and one order over connections", () => {
  const world = World.established();
  world.session.send(0, send("a"));
  world.session.send(0, queuedUpdate({ action: "delete" }, 1, "first"));
  world.session.send(0, send("b"));
  const ids = () =>
    world.frames().flatMap((frame) => {
      const isEntry = frame.type === "send_message" || frame.type === "update_message";
      return isEntry ? [`${frame.request_id} ${frame.payload.client_message_id}`] : [];
    });
  const all = ["s0 id of a", "s1 first", "s2 id of b"];
  assert.deepEqual(ids(), all);
  world.end({ kind: "lost" });
  world.wait();
  world.outputs();
  world.establish();
  assert.deepEqual(ids(), all);
});

test("a refused update fails with its reason, and one that is refused for a while is retried", () => {
  const world = World.established();
  world.session.send(0, queuedUpdate({ action: "edit", content: "b" }));
  world.outputs();
  world.refuse("s0", "SERVER_BUSY");
  assert.deepEqual(world.told("failed"), []);
  world.pass(8000);
  assert.equal(world.frames().filter(({ type }) => type === "update_message").length, 1);
  world.refuse("s0", "FORBIDDEN", { reason: "not_the_author" });
  const [failed] = world.told("failed");
  assert.deepEqual([failed?.clientMessageId, failed?.error.code], ["id of an update", "FORBIDDEN"]);
  assert.deepEqual(failed?.error.details, { reason: "not_the_author" });
});

test("an ack is told, and the own message takes its place in the order", () => {
  const world = World.established();
  world.session.send(0, { ...send("a"), metadata: { a: 1 }, ttlSeconds: 60 });
  world.push(2);
  world.outputs();
  world.say("send_message_ack", ack("a", 1), "s0");
  const own = {
    message_id: "msg_1",
    chat_id: CHAT,
    sequence: 1,
    sender_id: ME,
    content: "a",
    content_type: "text/plain",
    metadata: { a: 1 },
    created_at: TIME,
    client_message_id: "id of a",
    expires_at: "2026-11-15T12:01:00.000Z",
  };
  const events = world.events();
  assert.deepEqual(
    events.map(({ name }) => name),
    ["sent", "message", "message"],
  );
  assert.deepEqual(events[1]?.detail, own);
});

test("a send keeps its id and its place over connections until it is acked", () => {
  const world = World.established();
  ["a", "b", "c"].forEach((content) => world.session.send(0, send(content)));
  assert.deepEqual(sent(world), ["s0 a", "s1 b", "s2 c"]);
  world.say("send_message_ack", ack("b", 2), "s1");
  world.end({ kind: "lost" });
  world.session.send(world.now, send("d"));
  world.wait();
  world.outputs();
  world.establish();
  const frames = world.frames();
  assert.deepEqual(sentOf(frames), ["s0 a", "s2 c", "s3 d"]);
  const repeated = frames.find((frame) => frame.type === "send_message");
  assert.equal(repeated?.type === "send_message" && repeated.payload.client_message_id, "id of a");
});

test("an ack counts once, and only for what was sent", () => {
  const world = World.established();
  world.session.send(0, send("a"));
  for (const requestId of ["s1", "s", "y0", "sx", "s0.5"]) {
    world.say("send_message_ack", ack("a", 1), requestId);
  }
  assert.deepEqual(world.told("sent"), []);
  world.say("send_message_ack", ack("a", 1), "s0");
  world.say("send_message_ack", ack("a", 1), "s0");
  assert.equal(world.told("sent").length, 1);
});

test("no more than thirty-two are under way", () => {
  const world = World.established();
  for (let n = 0; n < 40; n += 1) {
    world.session.send(0, send(`m${n}`));
  }
  assert.equal(sent(world).length, 32);
  world.say("send_message_ack", ack("m0", 1), "s0");
  assert.deepEqual(sent(world), ["s32 m32"]);
});

test("a rate limit holds its chat for the time asked, and goes on one at a time", () => {
  const world = World.established({ a: 0, b: 0 });
  world.session.send(0, send("one", "a"));
  world.session.send(0, send("two", "a"));
  world.session.send(0, send("three", "b"));
  world.outputs();
  world.refuse("s0", "RATE_LIMITED", { retry_after_seconds: 3 });
  world.refuse("s1", "RATE_LIMITED", { retry_after_seconds: 2 });
  world.say("send_message_ack", ack("three", 1, "b"), "s2");
  world.session.send(world.now, send("four", "b"));
  assert.deepEqual(sent(world), ["s3 four"], "another chat goes on");
  world.pass(2999);
  assert.deepEqual(sent(world), []);
  world.pass(1);
  assert.deepEqual(sent(world), [], "one at a time");
  world.say("send_message_ack", ack("four", 2, "b"), "s3");
  assert.deepEqual(sent(world), ["s0 one"]);
  world.say("send_message_ack", ack("one", 1, "a"), "s0");
  assert.deepEqual(sent(world), ["s1 two"]);
});

test("a chat that is held no longer is no timeout, though nothing may go out", () => {
  const world = World.established({ a: 0, b: 0 });
  world.session.send(0, send("one", "a"));
  world.refuse("s0", "RATE_LIMITED", { retry_after_seconds: 1 });
  world.session.send(0, send("two", "b"));
  world.pass(1000);
  const at = world.session.pollTimeout();
  assert.ok(at !== undefined && at > world.now, `due at ${at}, now is ${world.now}`);
});

test("what each refusal leads to", () => {
  const cases: [string, string][] = [
    ["NOT_A_MEMBER", "failed"],
    ["IDEMPOTENCY_KEY_REUSED", "failed"],
    ["COUNTER_MISSING", "failed"],
    ["A_CODE_OF_A_LATER_VERSION", "failed"],
    ["UNAUTHORIZED", "disconnect refreshToken"],
    ["SLOW_CONSUMER", "disconnect disconnected"],
    ["SERVER_BUSY", ""],
    ["SERVICE_UNAVAILABLE", ""],
    ["INTERNAL_ERROR", ""],
  ];
  for (const [code, expected] of cases) {
    const world = World.established();
    world.session.send(0, send("a"));
    world.outputs();
    world.refuse("s0", code);
    const kinds = world.outputs().map((output) => (output.kind === "event" ? output.event.name : output.kind));
    assert.equal(kinds.join(" "), expected, code);
  }
});

test("a refusal for good names the send and the code", () => {
  const world = World.established();
  world.session.send(0, send("a"));
  world.refuse("s0", "NOT_A_MEMBER", { chat_id: CHAT });
  const [failed] = world.told("failed");
  assert.equal(failed?.clientMessageId, "id of a");
  assert.equal(failed?.chatId, CHAT);
  assert.equal(failed?.error.code, "NOT_A_MEMBER");
  assert.deepEqual(failed?.error.details, { chat_id: CHAT });
});

test("a defect of the server is tried three times more, and a busy server for ever", () => {
  for (const [code, tries] of [
    ["INTERNAL_ERROR", 4],
    ["SERVER_BUSY", 50],
  ] as const) {
    const world = World.established();
    world.session.send(0, send("a"));
    let count = 0;
    while (count < 50 && isSentWithin(world, 40)) {
      count += 1;
      world.refuse("s0", code);
    }
    assert.equal(count, tries, code);
  }
});
