import assert from "node:assert/strict";
import { test } from "node:test";

import { CHAT, send, World } from "./world.js";

test("nothing is said before connection_established", () => {
  const world = new World();
  world.session.resume(CHAT, 3);
  world.session.send(0, send("a"));
  world.session.markRead(0, CHAT, 2);
  world.session.watch(0, ["user_1"]);
  world.session.connect(0);
  world.session.handleConnected(0);
  assert.deepEqual(world.frames(), []);
  world.establish();
  assert.deepEqual(
    world.frames().map(({ type }) => type),
    ["mark_read", "presence_subscribe", "sync_request", "send_message"],
  );
});

test("pauses between connections double from one second to thirty, for ever", () => {
  const world = new World();
  world.session.connect(0);
  const pauses = Array.from({ length: 8 }, () => {
    world.end({ kind: "lost" });
    return world.wait();
  });
  assert.deepEqual(pauses, [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
});

test("pauses are spread by a quarter to both sides", () => {
  for (const [random, expected] of [
    [0, 750],
    [1, 1250],
  ] as const) {
    const world = new World(() => random);
    world.session.connect(0);
    world.end({ kind: "lost" });
    assert.deepEqual(world.told("disconnected"), [{ retryInMs: expected }]);
    assert.equal(world.wait(), expected);
  }
});

test("a connection that stood begins the pauses anew", () => {
  const world = new World();
  world.session.connect(0);
  for (let n = 0; n < 4; n += 1) {
    world.end({ kind: "lost" });
    world.wait();
  }
  world.establish();
  world.end({ kind: "lost" });
  assert.equal(world.wait(), 1000);
});

test("the server's reconnect_delay_ms is waited for, also when the network comes back", () => {
  const world = World.established();
  world.say("connection_closing", { reason: "server_shutdown", message: "bye", reconnect_delay_ms: 20_000 });
  world.end({ kind: "closed", code: 1001, reason: "server_shutdown" });
  world.session.handleOnline(world.now);
  assert.equal(world.wait(), 22_500, "20 s and half of a quarter");
});

test("a pause that nobody asked for ends when the network comes back", () => {
  const world = World.established();
  world.session.handleOffline(world.now);
  assert.deepEqual(
    world.outputs().map(({ kind }) => kind),
    ["disconnect", "event"],
  );
  world.session.handleOnline(world.now);
  assert.equal(world.wait(), 0);
  assert.deepEqual(world.outputs(), [{ kind: "connect" }]);
});

test("a connection that does not answer after a change of the network is given up soon", () => {
  const world = World.established();
  world.session.handleOnline(world.now);
  assert.deepEqual(
    world.frames().map(({ type }) => type),
    ["heartbeat"],
  );
  world.pass(2999);
  assert.equal(world.outputs().length, 0);
  world.pass(1);
  assert.deepEqual(
    world.outputs().map(({ kind }) => kind),
    ["disconnect", "event"],
  );
});

test("a connection that answers after a change of the network stays", () => {
  const world = World.established();
  world.session.handleOnline(world.now);
  world.say("heartbeat_ack", { server_time: "" });
  world.outputs();
  world.pass(4000);
  assert.deepEqual(
    world.outputs().map(({ kind }) => kind),
    [],
  );
});

test("a refused handshake waits as long as its answer asks", () => {
  const world = new World();
  world.session.connect(0);
  world.end({ kind: "refused", status: 429, retryAfterMs: 40_000 });
  assert.equal(world.wait(), 45_000);
});

test("a connection that does not stand within ten seconds is given up", () => {
  const world = new World();
  world.session.connect(0);
  assert.equal(world.wait(), 10_000);
  assert.deepEqual(
    world.outputs().map(({ kind }) => kind),
    ["connect", "disconnect", "event"],
  );
  world.wait();
  world.session.handleConnected(world.now);
  assert.equal(world.wait(), 10_000, "the greeting has as long");
});

test("a heartbeat goes out when nothing else did, and silence ends the connection", () => {
  const world = World.established();
  world.pass(5000);
  assert.deepEqual(world.frames(), [{ type: "heartbeat", payload: {} }]);
  world.say("heartbeat_ack", { server_time: "" });
  world.pass(14_999);
  assert.deepEqual(world.told("disconnected"), []);
  world.pass(1);
  assert.equal(world.told("disconnected").length, 1);
});

test("whoever talks all the time still asks whether the server is there", () => {
  const world = World.established();
  for (let n = 0; n < 6; n += 1) {
    world.pass(1000);
    world.session.typing(world.now, CHAT, true);
  }
  assert.equal(world.frames().filter(({ type }) => type === "heartbeat").length, 1);
});

test("a request without an answer for ten seconds ends the connection", () => {
  const world = World.established();
  world.session.send(world.now, send("a"));
  world.pass(9000);
  world.say("heartbeat_ack", { server_time: "" });
  world.outputs();
  world.pass(1000);
  assert.deepEqual(
    world.outputs().map(({ kind }) => kind),
    ["disconnect", "event"],
  );
});

test("an expired token is renewed and the connection made again at once", () => {
  const world = World.established();
  world.end({ kind: "closed", code: 4001, reason: "token_expired" });
  assert.deepEqual(world.outputs(), [{ kind: "refreshToken" }]);
  world.session.handleTokenRefreshed(world.now);
  assert.deepEqual(world.outputs(), [{ kind: "connect" }]);
});

test("a new token renews an open connection, and a refusal changes nothing", () => {
  const early = new World();
  early.session.connect(0);
  assert.equal(early.session.reauth(0, "early"), false);
  const world = World.established();
  assert.equal(world.session.reauth(world.now, "new"), true);
  assert.deepEqual(world.frames(), [{ type: "reauth", request_id: "reauth", payload: { token: "new" } }]);
  world.say("reauth_ack", { expires_at: "2026-03-14T10:26:53.589Z" }, "reauth");
  world.say("error", { code: "UNAUTHORIZED", message: "no" }, "reauth");
  assert.deepEqual(world.outputs(), []);
});

test("a fresh token that is refused means that the session is gone", () => {
  const world = new World();
  world.session.connect(0);
  world.end({ kind: "refused", status: 401, retryAfterMs: 0 });
  world.session.handleTokenRefreshed(0);
  world.end({ kind: "refused", status: 401, retryAfterMs: 0 });
  assert.deepEqual(world.told("stopped"), [{ reason: "signedOut" }]);
  assert.equal(world.session.pollTimeout(), undefined);
});

test("tokens that cannot be renewed now are asked for again later", () => {
  const world = World.established();
  world.end({ kind: "closed", code: 4001, reason: "token_expired" });
  world.session.handleRefreshFailed(world.now, "unreachable");
  world.outputs();
  world.wait();
  world.end({ kind: "refused", status: 401, retryAfterMs: 0 });
  assert.deepEqual(world.outputs(), [{ kind: "connect" }, { kind: "refreshToken" }]);
  world.session.handleRefreshFailed(world.now, "refused");
  assert.deepEqual(world.told("stopped"), [{ reason: "signedOut" }]);
});

test("a revoked session stops for good", () => {
  const world = World.established();
  world.end({ kind: "closed", code: 4001, reason: "session_revoked" });
  assert.deepEqual(world.told("stopped"), [{ reason: "signedOut" }]);
});

test("a duplicate connection stops for good", () => {
  const world = World.established();
  world.end({ kind: "closed", code: 4009, reason: "duplicate_connection" });
  assert.deepEqual(world.told("stopped"), [{ reason: "duplicateConnection" }]);
});

test("a duplicate within a minute of a handshake that was given up may be its ghost, and is answered", () => {
  for (const [passed, expected] of [
    [59_000, "disconnected"],
    [61_000, "stopped"],
  ] as const) {
    const world = new World();
    world.session.connect(0);
    world.wait();
    const givenUpAt = world.now;
    world.wait();
    world.establish();
    world.now = givenUpAt + passed;
    world.outputs();
    world.end({ kind: "closed", code: 4009, reason: "duplicate_connection" });
    assert.deepEqual(
      world.events().map(({ name }) => name),
      [expected],
      `${passed} ms later`,
    );
  }
});

test("a session that was closed is silent, and connects again when it is told to", () => {
  const world = World.established();
  world.session.close(world.now);
  assert.deepEqual(world.outputs(), [
    { kind: "disconnect" },
    { kind: "event", event: { name: "stopped", detail: { reason: "closed" } } },
  ]);
  assert.equal(world.session.pollTimeout(), undefined);
  world.push(1);
  world.session.handleDisconnected(world.now, { kind: "lost" });
  assert.deepEqual(world.outputs(), []);
  world.session.connect(world.now);
  assert.deepEqual(world.outputs(), [{ kind: "connect" }]);
});

test("frames that cannot be read are passed over", () => {
  const world = World.established();
  const texts = [
    "",
    "null",
    "[]",
    "{",
    '{"type":"message"}',
    '{"type":"toString","payload":{}}',
    '{"type":"later","payload":{}}',
  ];
  const broken = { message_id: "m", chat_id: CHAT, sequence: 1, sender_id: "u", content: "x", content_type: "t" };
  texts.push(JSON.stringify({ type: "message", payload: { ...broken, created_at: "yesterday" } }));
  texts.push(
    JSON.stringify({ type: "message", payload: { ...broken, created_at: "2026-01-01T00:00:00Z", sequence: 1.5 } }),
  );
  texts.push(JSON.stringify({ type: "sync_response", request_id: "y0", payload: { messages: [null] } }));
  for (const text of texts) {
    world.session.handleText(world.now, text);
  }
  assert.deepEqual(world.outputs(), []);
});

test("presence is asked for in frames of a hundred, and again on every connection", () => {
  const world = World.established();
  const users = Array.from({ length: 150 }, (_, n) => `user_${n}`);
  world.session.watch(world.now, users);
  world.session.watch(world.now, users);
  const lengths = () =>
    world.frames().flatMap((frame) => (frame.type === "presence_subscribe" ? [frame.payload.user_ids.length] : []));
  assert.deepEqual(lengths(), [100, 50]);
  world.session.unwatch(world.now, users.slice(0, 60));
  world.end({ kind: "lost" });
  world.wait();
  world.outputs();
  world.establish();
  assert.deepEqual(lengths(), [90]);
});

test("a successor has the wishes of its predecessor and none of its past", () => {
  const world = World.established();
  world.session.watch(world.now, ["user_1"]);
  world.session.markRead(world.now, CHAT, 4);
  world.session.send(world.now, send("a"));
  const next = new World();
  Object.assign(next, { session: world.session.successor() });
  next.session.connect(0);
  next.establish();
  assert.deepEqual(
    next.frames().map(({ type, payload }) => [type, payload]),
    [
      ["mark_read", { chat_id: CHAT, last_read_sequence: 4 }],
      ["presence_subscribe", { user_ids: ["user_1"] }],
    ],
  );
});
