import assert from "node:assert/strict";
import { test } from "node:test";

import { Http } from "../../src/http.js";

function answering(answer: Response | Error) {
  const calls: { url: string; init: RequestInit }[] = [];
  const http = new Http("http://server", async (url, init) => {
    calls.push({ url: String(url), init: init ?? {} });
    if (answer instanceof Error) {
      throw answer;
    }
    return answer;
  });
  return { http, calls };
}

test("a call fills its route, names what is given, and carries its token and key", async () => {
  const { http, calls } = answering(new Response('{"data": {}}', { status: 201 }));
  const request = { path: { chat_id: "a/b" }, body: { user_id: "u" }, idempotencyKey: "k" };
  await http.call("post", "/api/v1/chats/{chat_id}/members", request, "t");
  const [call] = calls;
  assert.equal(call?.url, "http://server/api/v1/chats/a%2Fb/members");
  assert.equal(call?.init.method, "POST");
  assert.equal(call?.init.body, '{"user_id":"u"}');
  assert.deepEqual(call?.init.headers, {
    authorization: "Bearer t",
    "idempotency-key": "k",
    "content-type": "application/json",
  });
});

test("a query has what is given and nothing else", async () => {
  const { http, calls } = answering(new Response('{"data": {}}'));
  const query = { limit: 5, before: 7 };
  await http.call("get", "/api/v1/chats/{chat_id}/messages", { path: { chat_id: "c" }, query });
  assert.equal(calls[0]?.url, "http://server/api/v1/chats/c/messages?limit=5&before=7");
});

test("a refusal names code, status, details, pause and request", async () => {
  const error = { code: "RATE_LIMITED", message: "slow down", details: { limit: "rest_read" }, request_id: "req" };
  const headers = { "retry-after": "7" };
  const { http } = answering(new Response(JSON.stringify({ error }), { status: 429, headers }));
  await assert.rejects(http.call("get", "/api/v1/users/me", {}), {
    name: "ApiError",
    code: "RATE_LIMITED",
    status: 429,
    message: "slow down",
    details: { limit: "rest_read" },
    retryAfterSeconds: 7,
    requestId: "req",
    isFinal: false,
  });
});

test("an answer that is not one of this API is an error that says so", async () => {
  for (const [status, text] of [
    [502, "<html>"],
    [200, "<html>"],
    [404, "{}"],
    [500, "null"],
  ] as const) {
    const { http } = answering(new Response(text, { status }));
    await assert.rejects(http.call("get", "/api/v1", {}), { code: "UNREADABLE", status });
  }
});

test("a server that does not answer is an error with its cause", async () => {
  const cause = new TypeError("fetch failed");
  const { http } = answering(cause);
  await assert.rejects(http.call("get", "/api/v1", {}), { code: "UNREACHABLE", status: 0, isFinal: false, cause });
});

test("an empty answer is nothing", async () => {
  const { http } = answering(new Response(null, { status: 204 }));
  assert.equal(await http.call("post", "/api/v1/auth/logout", {}), undefined);
});
