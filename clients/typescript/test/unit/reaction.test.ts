import assert from "node:assert/strict";
import { test } from "node:test";

import { isReaction, normalReaction } from "../../src/reaction.js";

const SCOTLAND = "\u{1F3F4}\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F}";

test("a reaction has the form that the server stores", () => {
  const cases = [
    ["e\u0301", "\u00e9"],
    ["\u2615\ufe0f", "\u2615"],
    ["\u2764\ufe0f", "\u2764\ufe0f"],
    ["\u2764", "\u2764"],
    ["1\ufe0f\u20e3", "1\ufe0f\u20e3"],
    ["1\ufe0f", "1"],
    ["ok\ufe0f", "ok"],
    ["\u2764\ufe0e", "\u2764"],
    ["\ufe0f", ""],
    ["thumbs_up", "thumbs_up"],
  ] as const;
  for (const [text, normal] of cases) {
    assert.equal(normalReaction(text), normal, escape(text));
  }
});

test("emoji and short codes are reactions", () => {
  const texts = ["\u{1F44D}\u{1F3FD}", "\u{1F469}\u200d\u{1F469}\u200d\u{1F467}\u200d\u{1F466}", SCOTLAND];
  const flag = "\u{1F3F3}\ufe0f\u200d\u{1F308}";
  for (const text of [...texts, flag, ":party:", "+1", "\u0915\u094d\u200d\u0937", "x".repeat(64)]) {
    assert.ok(isReaction(text), escape(text));
  }
});

test("what is empty, too long, spaced or invisible is no reaction", () => {
  const spaced = ["a b", "\u00a0", "\u0007", "\u3000"];
  const invisible = ["\u202eok", "ok\u200b", "\u{1F44D}\u200d", "\u{E0041}", "\u2800", "\ufe0f", "\u115f"];
  for (const text of ["", "x".repeat(65), "\u{1F44D}".repeat(17), "\ud83d", ...spaced, ...invisible]) {
    assert.ok(!isReaction(text), escape(text));
  }
});

function escape(text: string): string {
  return [...text].map((char) => `U+${char.codePointAt(0)?.toString(16)}`).join(" ");
}
