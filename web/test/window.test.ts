import assert from "node:assert/strict";
import { test } from "node:test";

import {
  SIZE_MAX,
  STEP,
  hasAbove,
  hasBelow,
  visible,
  widenedDown,
  widenedUp,
  windowAround,
} from "../src/client/store/window.js";
import { sequences } from "./fixtures.js";

const all = Array.from({ length: 1000 }, (_, place) => ({ sequence: place + 1 }));

test("a window opens with messages on both sides of the place", () => {
  const shown = sequences(visible(all, windowAround(all, 500)));
  assert.equal(shown[0], 500 - STEP + 1);
  assert.ok(shown.includes(501) && shown.length > STEP);
});

test("a window at the newest message follows what arrives", () => {
  const window = windowAround(all, 1000);
  assert.equal(window.to, Infinity);
  assert.equal(visible([...all, { sequence: 1001 }], window).at(-1)?.sequence, 1001);
});

test("widening up and down again comes by every message, with never more than the page can hold", () => {
  let window = windowAround(all, 1000);
  const seen = new Set<number>();
  const look = () => {
    const shown = sequences(visible(all, window));
    assert.ok(shown.length <= SIZE_MAX + STEP, `${shown.length} on the page`);
    shown.forEach((sequence) => seen.add(sequence));
  };
  while (hasAbove(all, window)) {
    look();
    window = widenedUp(all, window);
  }
  look();
  assert.equal(seen.size, 1000);
  assert.ok(hasBelow(all, window), "what is far below is no longer on the page");
  seen.clear();
  while (hasBelow(all, window)) {
    look();
    window = widenedDown(all, window);
  }
  look();
  assert.equal(seen.size, 1000);
  assert.equal(window.to, Infinity);
});

test("what stands on the page stays there while the window widens", () => {
  const window = windowAround(all, 500);
  const top = visible(all, window)[0];
  const bottom = visible(all, window).at(-1);
  assert.ok(top && visible(all, widenedUp(all, window)).includes(top));
  assert.ok(bottom && visible(all, widenedDown(all, window)).includes(bottom));
});

test("an empty chat has a window that follows", () => {
  const window = windowAround([], 1);
  assert.equal(hasAbove([], window) || hasBelow([], window), false);
  assert.deepEqual(visible([{ sequence: 1 }], window), [{ sequence: 1 }]);
});
