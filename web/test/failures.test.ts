import assert from "node:assert/strict";
import { test } from "node:test";

import { ApiError, SendError, type ApiErrorCode, type SendErrorCode } from "@tidings/client";

import {
  inWords,
  listed,
  notReachable,
  refusedSendInWords,
  refusedUpdateInWords,
  signInInWords,
} from "../src/client/store/failures.js";
import { RequestKeys } from "../src/client/store/request-keys.js";

const failed = (code: ApiErrorCode, message: string, details: Record<string, unknown> = {}) =>
  new ApiError(message, { code, status: 400, details });

test("a wrong code is told in the words of the server, an ended session is not", () => {
  const wrong = failed("UNAUTHORIZED", "the code is wrong or has expired");
  assert.equal(signInInWords(wrong), "The code is wrong or has expired.");
  assert.equal(inWords(wrong), "You are no longer signed in on this device.");
  assert.match(signInInWords(failed("UNREACHABLE", "no answer")), /cannot be reached/);
});

test("a refusal names its reason", () => {
  const people = { reason: "not_reachable", user_ids: ["user_1", "user_2"] };
  const names: Record<string, string> = { user_1: "Ada", user_2: "Bob" };
  const refusal = failed("FORBIDDEN", "you cannot add `user_1`, `user_2`", people);
  assert.deepEqual(notReachable(refusal), ["user_1", "user_2"]);
  assert.equal(
    inWords(refusal, (userId) => names[userId] ?? ""),
    "You cannot add Ada and Bob.",
  );
  assert.equal(inWords(failed("FORBIDDEN", "no", { reason: "not_reachable" })), "You cannot write to this person.");
  assert.match(inWords(failed("FORBIDDEN", "no", { reason: "account_suspended" })), /is suspended/);
  const role = failed("FORBIDDEN", "your role in this chat does not allow this");
  assert.equal(inWords(role), "Your role in this chat does not allow this. Ask the owner of the group.");
  assert.match(inWords(failed("INVALID_OPERATION", "no", { reason: "blocked_by_you" })), /Unblock them first/);
  assert.equal(inWords(failed("VALIDATION_ERROR", "phone_number: is not valid")), "Is not valid.");
});

test("a refused message has a remedy that helps", () => {
  const refused = (code: SendErrorCode, details: Record<string, unknown> = {}) =>
    refusedSendInWords(new SendError(`${code}: not today`, code, details), "Bob");
  assert.deepEqual(refused("INVALID_OPERATION", { reason: "blocked_by_you" }), {
    text: "You have blocked Bob.",
    remedy: "unblock",
  });
  assert.deepEqual(refused("FORBIDDEN", { reason: "not_reachable" }), {
    text: "You cannot write to Bob.",
    remedy: "none",
  });
  assert.deepEqual(refused("FORBIDDEN"), { text: "Not today." });
});

test("names are listed in words", () => {
  assert.deepEqual([["Ada"], ["Ada", "Bob"], ["Ada", "Bob", "Cleo"]].map(listed), [
    "Ada",
    "Ada and Bob",
    "Ada, Bob and Cleo",
  ]);
});

test("a request has one key, and a changed request another one", () => {
  const keys = new RequestKeys();
  const first = keys.of({ name: "a", memberIds: [] });
  assert.notEqual(keys.of({ name: "b", memberIds: [] }), first);
  assert.equal(keys.of({ name: "a", memberIds: [] }), first);
});

test("a refused update names what was not done and why, but not if the message is as it was wanted", () => {
  const words = (action: "edit" | "delete" | "react" | "unreact", code: SendErrorCode, reason: string) =>
    refusedUpdateInWords(action, new SendError(`${code}: no`, code, { reason }), "Bob");
  assert.equal(words("edit", "INVALID_OPERATION", "too_old"), "Your edit was not saved. It is too old to be changed.");
  assert.equal(
    words("delete", "NOT_FOUND", "message_not_found"),
    "The message was not deleted. This message does not exist any more.",
  );
  assert.equal(words("react", "FORBIDDEN", "not_reachable"), "Your reaction was not saved. You cannot write to Bob.");
  assert.equal(words("react", "CONFLICT", "already_reacted"), undefined);
  assert.equal(words("unreact", "NOT_FOUND", "not_reacted"), undefined);
});
