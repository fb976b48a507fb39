import assert from "node:assert/strict";
import { test } from "node:test";

import { commonWatermarks, statusOf, withWatermarks, type MemberWatermarks } from "../src/client/store/receipts.js";

const told = (delivered: number, read: number) => ({ delivered, read });

test("watermarks never go back", () => {
  let members: MemberWatermarks = withWatermarks(new Map(), "bob", told(5, 3));
  members = withWatermarks(members, "bob", told(4, 1));
  assert.deepEqual(members.get("bob"), told(5, 3));
  assert.deepEqual(withWatermarks(members, "bob", told(2, 8)).get("bob"), told(8, 8), "what is read has arrived");
});

test("a message is read when the last of the others has read it", () => {
  const members = new Map([
    ["bob", told(9, 9)],
    ["cleo", told(7, 5)],
  ]);
  const common = commonWatermarks(members, ["bob", "cleo"]);
  assert.deepEqual(
    [5, 7, 8].map((sequence) => statusOf({ sequence }, common)),
    ["read", "delivered", "sent"],
  );
  assert.deepEqual(commonWatermarks(members, ["bob", "cleo", "dan"]), told(0, 0), "of Dan nothing is known");
  assert.equal(statusOf({ sequence: 9 }, commonWatermarks(members, ["bob"])), "read", "Cleo has left");
});

test("in a group of one a message stays sent", () => {
  assert.equal(statusOf({ sequence: 1 }, commonWatermarks(new Map(), [])), "sent");
});

test("the word of the server counts where watermarks know less", () => {
  assert.equal(statusOf({ sequence: 4, status: "read" }, told(0, 0)), "read");
  assert.equal(statusOf({ sequence: 4, status: "delivered" }, told(0, 0)), "delivered");
  assert.equal(statusOf({ sequence: 4, status: "sent" }, told(4, 4)), "read");
});
