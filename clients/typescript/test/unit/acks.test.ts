import assert from "node:assert/strict";
import { test } from "node:test";

import { AckSchedule } from "../../src/session/ack-schedule.js";
import { CHAT, edit, World } from "./world.js";

/** The sequences of the sent acks. */
function acks(world: World): number[] {
  return world.frames().flatMap((frame) => (frame.type === "ack" ? [frame.payload.last_acked_sequence] : []));
}

function pushAndStore(world: World, from: number, to: number): void {
  for (let sequence = from; sequence <= to; sequence += 1) {
    world.push(sequence);
    world.session.stored(world.now, CHAT, sequence);
  }
}

test("a message is acknowledged when it is stored, not when it is handed out", () => {
  const world = World.established();
  world.push(1);
  world.push(2);
  world.pass(5000);
  assert.deepEqual(acks(world), []);
  world.session.stored(world.now, CHAT, 1);
  world.pass(5000);
  assert.deepEqual(acks(world), [1]);
});

test("an update is acknowledged like a message, and counts for the batch", () => {
  const world = World.established();
  pushAndStore(world, 1, 8);
  world.pushUpdate(edit(9, 1, "second"));
  world.pushUpdate(edit(10, 2, "second"));
  world.session.stored(world.now, CHAT, 9);
  assert.deepEqual(acks(world), []);
  world.session.stored(world.now, CHAT, 10);
  assert.deepEqual(acks(world), [10], "ten entries at once");
});

test("acks wait until their chat is quiet", () => {
  const world = World.established();
  pushAndStore(world, 1, 3);
  world.pass(150);
  pushAndStore(world, 4, 4);
  world.pass(199);
  assert.deepEqual(acks(world), []);
  world.pass(1);
  assert.deepEqual(acks(world), [4]);
});

test("a busy chat does not delay the ack of a quiet one, nor its own beyond five seconds", () => {
  const start = 1000;
  const schedule = new AckSchedule();
  schedule.stored(start, "quiet");
  for (let at = 0; at < 5000; at += 100) {
    schedule.stored(start + at, "busy");
    if (at === 100) {
      assert.equal(schedule.nextDue(), start + 200);
    }
    if (schedule.due(start + at).includes("quiet")) {
      assert.equal(at, 200);
      schedule.remove("quiet");
    }
  }
  assert.deepEqual(schedule.due(start + 4999), []);
  assert.equal(schedule.nextDue(), start + 5000);
  assert.deepEqual(schedule.due(start + 5000), ["busy"]);
});

test("ten messages are acknowledged at once", () => {
  const world = World.established();
  pushAndStore(world, 1, 9);
  assert.deepEqual(acks(world), []);
  pushAndStore(world, 10, 10);
  assert.deepEqual(acks(world), [10]);
});

test("what is stored is acknowledged before a close", () => {
  const world = World.established();
  pushAndStore(world, 1, 2);
  world.session.close(world.now);
  assert.deepEqual(
    world.outputs().map((output) => (output.kind === "transmit" ? output.frame.type : output.kind)),
    ["event", "event", "ack", "disconnect", "event"],
  );
});

test("only what lies below every hole is acknowledged", () => {
  const world = World.established();
  pushAndStore(world, 1, 1);
  world.push(3);
  world.session.stored(world.now, CHAT, 3);
  world.session.close(world.now);
  assert.deepEqual(acks(world), [1]);
});

test("an empty range that a sync has proven is acknowledged too", () => {
  const world = World.established();
  world.push(4);
  world.page("y1", CHAT, [], { head_sequence: 4 });
  world.pass(5000);
  assert.deepEqual(acks(world), [4]);
});

test("an ack that may be lost with its connection is repeated on the next one, once", () => {
  const world = World.established();
  pushAndStore(world, 1, 10);
  assert.deepEqual(acks(world), [10]);
  world.end({ kind: "lost" });
  world.wait();
  world.establish();
  world.answerSyncs();
  world.pass(4999);
  assert.deepEqual(acks(world), []);
  world.pass(1);
  assert.deepEqual(acks(world), [10]);
  world.say("heartbeat_ack", {});
  world.pass(9000);
  assert.deepEqual(acks(world), []);
});

test("a read mark only moves forward, and each connection repeats the furthest", () => {
  const world = World.established();
  const marks = () =>
    world.frames().flatMap((frame) => (frame.type === "mark_read" ? [frame.payload.last_read_sequence] : []));
  world.session.markRead(world.now, CHAT, 3);
  world.session.markRead(world.now, CHAT, 2);
  world.session.markRead(world.now, CHAT, 3);
  assert.deepEqual(marks(), [3]);
  world.end({ kind: "lost" });
  world.session.markRead(world.now, CHAT, 5);
  assert.deepEqual(marks(), []);
  world.wait();
  world.establish();
  assert.deepEqual(marks(), [5]);
});
