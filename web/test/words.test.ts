import assert from "node:assert/strict";
import { test } from "node:test";

import {
  ago,
  dayName,
  duration,
  hueOf,
  initials,
  moment,
  shortTime,
  timeLeft,
  typingWords,
} from "../src/client/store/words.js";

const now = new Date(2026, 5, 17, 15, 30).getTime();
const minutes = (count: number) => count * 60_000;

test("a day is called as people call it", () => {
  assert.equal(dayName(now - minutes(60), now), "Today");
  assert.equal(dayName(new Date(2026, 5, 16, 23, 59).getTime(), now), "Yesterday");
  assert.match(dayName(new Date(2026, 5, 14, 1).getTime(), now), /Sunday/);
  assert.match(dayName(new Date(2025, 5, 14).getTime(), now), /2025/);
});

test("a list says the time of today and the day of before", () => {
  assert.match(shortTime(new Date(2026, 5, 17, 9, 5).getTime(), now), /9:05/);
  assert.equal(shortTime(new Date(2026, 5, 16, 9, 5).getTime(), now), "Yesterday");
  assert.match(shortTime(now + minutes(1), now), /3:31|15:31/, "a clock that is ahead is of today");
});

test("somebody was seen some time ago", () => {
  assert.equal(ago(now, now), "just now");
  assert.equal(ago(now - minutes(1), now), "a minute ago");
  assert.equal(ago(now - minutes(59), now), "59 minutes ago");
  assert.match(ago(now - minutes(120), now), /^today at /);
  assert.match(ago(now - minutes(60 * 24), now), /^yesterday at /);
});

test("a moment has its day and its time", () => {
  assert.match(moment(new Date(2026, 5, 17, 9, 5).getTime(), now), /^today at 0?9:05/);
  assert.match(moment(new Date(2026, 5, 16, 9, 5).getTime(), now), /^yesterday at 0?9:05/);
  assert.match(moment(new Date(2025, 5, 14, 9, 5).getTime(), now), /^on .*2025 at 0?9:05/);
});

test("what is left of a life counts down and ends at nothing", () => {
  const cases: [number, string][] = [
    [-5, "0s"],
    [1, "1s"],
    [59_000, "59s"],
    [61_000, "2m"],
    [3_600_000, "1h"],
    [90_000_000, "2d"],
  ];
  for (const [ms, words] of cases) assert.equal(timeLeft(ms), words);
});

test("a duration is said in its largest whole unit", () => {
  const cases: [number, string][] = [
    [30, "30 seconds"],
    [60, "1 minute"],
    [90, "90 seconds"],
    [3600, "1 hour"],
    [604_800, "7 days"],
  ];
  for (const [seconds, words] of cases) assert.equal(duration(seconds), words);
});

test("initials are of the first and the last word", () => {
  const cases: [string, string][] = [
    ["Ada Lovelace", "AL"],
    ["ada", "A"],
    ["Grace M. Hopper", "GH"],
    ["  ", "?"],
    ["🙂 Émile", "É"],
  ];
  for (const [name, letters] of cases) assert.equal(initials(name), letters);
});

test("a hue is always the same and a hue", () => {
  for (const id of ["", "user_1", "user_2", "chat_ÄÖ"]) {
    assert.equal(hueOf(id), hueOf(id));
    assert.ok(hueOf(id) >= 0 && hueOf(id) < 360);
  }
  assert.notEqual(hueOf("user_1"), hueOf("user_2"));
});

test("those who type are named while they are few", () => {
  assert.deepEqual([[], ["Ada"], ["Ada", "Bob"], ["Ada", "Bob", "Cleo"]].map(typingWords), [
    "",
    "Ada is typing",
    "Ada and Bob are typing",
    "3 people are typing",
  ]);
});
