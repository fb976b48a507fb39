import assert from "node:assert/strict";
import { test } from "node:test";

import { isFresh, tokenInFragment, tokenInMessage } from "../src/client/store/given-token.js";

test("a token is taken from a fragment that contains nothing else", () => {
  for (const [hash, token] of [
    ["#token=a.b-c.d_e", "a.b-c.d_e"],
    ["#token=", undefined],
    ["#token=a&b", undefined],
    ["#token=a/b", undefined],
    ["#/chats/token=a", undefined],
    ["", undefined],
  ] as const) {
    assert.equal(tokenInFragment(hash), token, hash);
  }
});

test("a token is taken from a message of its type alone", () => {
  for (const [data, token] of [
    [{ type: "tidings.token", token: "a.b.c" }, "a.b.c"],
    [{ type: "tidings.token", token: "" }, undefined],
    [{ type: "tidings.token", token: 7 }, undefined],
    [{ type: "other", token: "a.b.c" }, undefined],
    ["tidings.token", undefined],
    [null, undefined],
  ] as const) {
    assert.equal(tokenInMessage(data), token, JSON.stringify(data));
  }
});

test("a token is fresh until a minute before its expiry", () => {
  const token = (payload: object) => `e30.${Buffer.from(JSON.stringify(payload)).toString("base64url")}.x`;
  const now = 1_000_000_000;
  for (const [exp, fresh] of [
    [now / 1000 + 61, true],
    [now / 1000 + 60, false],
    [now / 1000 - 1, false],
    ["tomorrow", false],
    [undefined, false],
  ] as const) {
    assert.equal(isFresh(token({ exp, sub: "ÿ~?" }), now), fresh, String(exp));
  }
  for (const bad of ["", "opaque", "a.b.c", "e30.e30"]) assert.equal(isFresh(bad, now), false, bad);
});
