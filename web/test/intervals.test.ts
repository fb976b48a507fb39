import assert from "node:assert/strict";
import { test } from "node:test";

import { intervalAt, withInterval, type Intervals } from "../src/client/store/intervals.js";

function check(given: [number, number][], added: [number, number], expected: [number, number][]): void {
  const intervals: Intervals = given.map(([from, to]) => ({ from, to }));
  const result = withInterval(intervals, { from: added[0], to: added[1] });
  assert.deepEqual(
    result,
    expected.map(([from, to]) => ({ from, to })),
  );
}

test("intervals that touch or overlap become one, others stay apart and in order", () => {
  check([], [3, 5], [[3, 5]]);
  check(
    [[1, 2]],
    [4, 5],
    [
      [1, 2],
      [4, 5],
    ],
  );
  check(
    [[4, 5]],
    [1, 2],
    [
      [1, 2],
      [4, 5],
    ],
  );
  check([[1, 3]], [4, 5], [[1, 5]]);
  check([[4, 5]], [1, 3], [[1, 5]]);
  check(
    [
      [1, 2],
      [6, 8],
    ],
    [3, 5],
    [[1, 8]],
  );
  check([[1, 9]], [3, 4], [[1, 9]]);
  check(
    [
      [1, 2],
      [5, 6],
      [9, 9],
    ],
    [2, 5],
    [
      [1, 6],
      [9, 9],
    ],
  );
});

test("an empty interval adds nothing", () => {
  check([[1, 2]], [6, 5], [[1, 2]]);
});

test("a sequence is found in its interval and in no other", () => {
  const intervals = [
    { from: 1, to: 3 },
    { from: 7, to: 7 },
  ];
  assert.deepEqual(
    [0, 1, 3, 4, 7, 8].map((at) => intervalAt(intervals, at)?.from),
    [undefined, 1, 1, undefined, 7, undefined],
  );
});
