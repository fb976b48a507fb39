import assert from "node:assert/strict";
import { test } from "node:test";

import {
  EMPTY,
  expiredAt,
  lastSegment,
  nextExpiry,
  pieceAfter,
  pieceAround,
  pieceBefore,
  segmentAt,
  withMessage,
  withPiece,
  withoutSequences,
} from "../src/client/store/timeline.js";
import { message, sequences } from "./fixtures.js";

test("messages show once and in order, however often and in whatever order they come", () => {
  const timeline = [3, 1, 2, 3, 1].reduce((so_far, sequence) => withMessage(so_far, message(sequence)), EMPTY);
  assert.deepEqual(sequences(timeline.messages), [1, 2, 3]);
  assert.deepEqual(timeline.covered, [{ from: 1, to: 3 }]);
});

test("a push does not take away the status that history has told", () => {
  const known = withMessage(EMPTY, message(1, { status: "read" }));
  assert.equal(withMessage(known, message(1)).messages[0]?.status, "read");
  assert.equal(withMessage(known, message(1, { status: "delivered" })).messages[0]?.status, "delivered");
});

test("pieces apart are shown apart until what lies between has come", () => {
  let timeline = withPiece(EMPTY, { messages: [message(1), message(2)], covered: { from: 1, to: 2 } });
  timeline = withMessage(timeline, message(5));
  assert.deepEqual(sequences(segmentAt(timeline, 1)?.messages ?? []), [1, 2]);
  assert.deepEqual(sequences(lastSegment(timeline)?.messages ?? []), [5]);
  assert.equal(segmentAt(timeline, 3), undefined);
  timeline = withPiece(timeline, pieceAfter([message(3)], false, 5, 2));
  assert.deepEqual(sequences(segmentAt(timeline, 1)?.messages ?? []), [1, 2, 3, 5], "4 has expired");
});

test("a page covers what it has looked through, and not only what it holds", () => {
  assert.deepEqual(pieceBefore([message(9), message(8)], true, 9).covered, { from: 8, to: 9 });
  assert.deepEqual(pieceBefore([message(4)], true, 9, 7).covered, { from: 4, to: 6 }, "5 and 6 have expired");
  assert.deepEqual(pieceBefore([message(3)], false, 9, 7).covered, { from: 1, to: 6 });
  assert.deepEqual(pieceAfter([message(4), message(5)], true, 9, 3).covered, { from: 4, to: 5 });
  assert.deepEqual(pieceAfter([], false, 9, 3).covered, { from: 4, to: 9 });
  const around = { messages: [message(4), message(6)], head_sequence: 9, target_sequence: 5 };
  assert.deepEqual(pieceAround({ ...around, has_more_before: true, has_more_after: true }).covered, { from: 4, to: 6 });
  assert.deepEqual(pieceAround({ ...around, has_more_before: false, has_more_after: false }).covered, {
    from: 1,
    to: 9,
  });
});

test("what is gone leaves no hole to ask for", () => {
  const timeline = withPiece(EMPTY, { messages: [1, 2, 3].map((at) => message(at)), covered: { from: 1, to: 3 } });
  const left = withoutSequences(timeline, [2]);
  assert.deepEqual(sequences(left.messages), [1, 3]);
  assert.deepEqual(left.covered, [{ from: 1, to: 3 }]);
});

test("a message is over at its moment and not before", () => {
  const at = Date.parse("2026-01-05T12:30:00.000Z");
  const messages = [message(1), message(2, { expires_at: "2026-01-05T12:30:00.000Z" })];
  assert.equal(nextExpiry(messages), at);
  assert.equal(nextExpiry([message(1)]), Infinity);
  assert.deepEqual(expiredAt(messages, at - 1), []);
  assert.deepEqual(expiredAt(messages, at), [2]);
});
