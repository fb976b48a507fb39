import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { EventQueue } from "../../src/event-queue.js";
import { Emitter } from "../../src/events.js";
import { deletion, message } from "./world.js";

/** A queue, its emitter, and the sequences of processed messages. */
function queue() {
  const emitter = new Emitter();
  const taken: number[] = [];
  const events = new EventQueue(
    emitter,
    () => 0.5,
    async ({ sequence }) => void taken.push(sequence),
  );
  const push = (sequence: number) => events.push({ name: "message", detail: message(sequence) });
  return { emitter, events, taken, push };
}

test("a message is taken when every listener is done with it, and the next waits", async () => {
  const { emitter, taken, push } = queue();
  const calls: string[] = [];
  let finish = () => undefined as void;
  emitter.on("message", ({ sequence }) => {
    calls.push(`first ${sequence}`);
    return new Promise<void>((resolve) => (finish = resolve));
  });
  emitter.on("message", ({ sequence }) => calls.push(`second ${sequence}`));
  push(1);
  push(2);
  await turn();
  assert.deepEqual([calls, taken], [["first 1", "second 1"], []]);
  finish();
  await turn();
  assert.deepEqual([calls.length, taken], [4, [1]]);
  finish();
  await turn();
  assert.deepEqual(taken, [1, 2]);
});

test("an update is taken like a message, with its own sequence", async () => {
  const { emitter, events, taken, push } = queue();
  const calls: number[] = [];
  emitter.on("updated", ({ update }) => calls.push(update.target_sequence));
  push(1);
  events.push({ name: "updated", detail: deletion(2, 1) });
  await turn();
  assert.deepEqual([calls, taken], [[1], [1, 2]]);
});

test("a message whose listener fails is told again after a pause, and nothing overtakes it", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const { emitter, taken, push } = queue();
  const calls: number[] = [];
  const failures: unknown[] = [];
  emitter.on("listenerFailed", ({ retryInMs }) => failures.push(retryInMs));
  emitter.on("message", ({ sequence }) => {
    calls.push(sequence);
    assert.ok(calls.length > 2, "not yet");
  });
  push(1);
  push(2);
  await turn();
  mock.timers.tick(1000);
  await turn();
  assert.deepEqual([calls, taken], [[1, 1], []]);
  mock.timers.tick(2000);
  await turn();
  assert.deepEqual(
    [calls, taken, failures],
    [
      [1, 1, 1, 2],
      [1, 2],
      [1000, 2000],
    ],
  );
  mock.timers.reset();
});

test("a listener of anything else that fails stops nobody", async () => {
  const { emitter, events } = queue();
  const told: string[] = [];
  emitter.on("listenerFailed", ({ event }) => told.push(event));
  emitter.on("caughtUp", () => assert.fail("no"));
  emitter.on("chatGone", ({ chatId }) => told.push(chatId));
  events.push({ name: "caughtUp", detail: {} });
  events.push({ name: "chatGone", detail: { chatId: "c" } });
  await turn();
  assert.deepEqual(told, ["caughtUp", "c"]);
});

test("an event waits for what has to be done first", async () => {
  const { emitter, events } = queue();
  const told: string[] = [];
  emitter.on("chatGone", ({ chatId }) => told.push(chatId));
  let ready = () => undefined as void;
  events.push({ name: "chatGone", detail: { chatId: "a" } }, new Promise<void>((resolve) => (ready = resolve)));
  events.push({ name: "chatGone", detail: { chatId: "b" } });
  await turn();
  assert.deepEqual(told, []);
  ready();
  await turn();
  assert.deepEqual(told, ["a", "b"]);
});

test("what is stopped is not told, nor what comes meanwhile", async () => {
  const { emitter, events, taken, push } = queue();
  const told: string[] = [];
  emitter.on("chatGone", ({ chatId }) => told.push(chatId));
  events.push({ name: "chatGone", detail: { chatId: "a" } });
  push(1);
  const stopped = events.stop();
  push(2);
  await stopped;
  events.resume();
  push(3);
  await turn();
  assert.deepEqual([told, taken], [[], [3]]);
});

test("a listener that was removed hears nothing more", async () => {
  const { emitter, events } = queue();
  const told: string[] = [];
  const off = emitter.on("chatGone", ({ chatId }) => told.push(chatId));
  events.push({ name: "chatGone", detail: { chatId: "a" } });
  await turn();
  off();
  events.push({ name: "chatGone", detail: { chatId: "b" } });
  await turn();
  assert.deepEqual(told, ["a"]);
});

test("a full queue says so, and there is room when half of it is told", async () => {
  const { emitter, events, taken, push } = queue();
  let finish = () => undefined as void;
  emitter.on("message", ({ sequence }) =>
    sequence === 1 ? new Promise<void>((resolve) => (finish = resolve)) : undefined,
  );
  for (let n = 1; n <= 1024; n += 1) {
    push(n);
  }
  assert.ok(events.isFull);
  await turn();
  const room = events.room();
  finish();
  await room;
  assert.equal(taken.length, 512);
  await turn();
  assert.ok(!events.isFull);
});

/** Runs all pending microtasks. */
async function turn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}
