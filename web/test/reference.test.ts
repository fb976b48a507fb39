import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { VARIABLES, curl, prelude } from "../src/docs/curl";
import { answers, clientFrames, examplesOf, navigation, restGroups, search, serverFrames } from "../src/docs/reference";
import { rows } from "../src/docs/schema-rows";
import type { AsyncApi, OpenApi, Schema } from "../src/docs/spec";

const openapi = JSON.parse(readFileSync("../docs/openapi.json", "utf8")) as OpenApi;
const asyncapi = JSON.parse(readFileSync("../docs/asyncapi.json", "utf8")) as AsyncApi;

const entries = restGroups(openapi).flatMap((group) => group.entries);

function entry(operationId: string) {
  const found = entries.find(({ operation }) => operation.operationId === operationId);
  assert.ok(found, operationId);
  return found;
}

test("every operation and every frame is in the reference once", () => {
  const operations = Object.values(openapi.paths).flatMap((item) => Object.values(item).map((one) => one.operationId));
  assert.deepEqual(entries.map(({ operation }) => operation.operationId).sort(), operations.sort());
  const frames = [...clientFrames(asyncapi), ...serverFrames(asyncapi)].map(({ message }) => message.name);
  assert.deepEqual(
    frames.sort(),
    Object.values(asyncapi.components.messages)
      .map((message) => message.name)
      .sort(),
  );
  const ids = navigation(openapi, asyncapi).flatMap((group) => group.links.map((link) => link.id));
  assert.equal(new Set(ids).size, ids.length);
});

test("a frame names what answers it", () => {
  const send = clientFrames(asyncapi).find(({ message }) => message.name === "send_message");
  assert.deepEqual(send?.answers, ["send_message_ack", "error"]);
});

test("a search finds what has all its words, in any case and order", () => {
  const found = (query: string) =>
    search(navigation(openapi, asyncapi), query).flatMap((group) => group.links.map((link) => link.id));
  assert.deepEqual(found("ROLE patch"), ["rest-change_role"]);
  assert.deepEqual(found("heartbeat ack"), ["frame-heartbeat_ack"]);
  assert.deepEqual(found("no such thing"), []);
});

test("a table shows fields within fields, with bounds and what is required", () => {
  const schema: Schema = { $ref: "#/components/schemas/SyncResponse" };
  const fields = new Map(rows(asyncapi, schema).map((row) => [row.path, row]));
  assert.equal(fields.get("messages")?.type, "Message[]");
  assert.equal(fields.get("messages[].content_type")?.bounds[0]?.split(", ")[0], "text/plain");
  assert.equal(fields.get("messages[].content")?.required, true);
  assert.equal(fields.get("messages[].expires_at")?.required, false);
  assert.equal(fields.get("next_sequence")?.type, "integer");
});

test("parts of a body that is put together are one table", () => {
  const paths = rows(openapi, { $ref: "#/components/schemas/ChatDetails" }).map((row) => row.path);
  for (const path of ["chat_id", "last_message.preview", "members[].role"]) assert.ok(paths.includes(path), path);
});

test("a command has the example's ids, query, token and body, safe in a shell", () => {
  const history = curl("http://localhost", entry("history"), "example") ?? "";
  assert.match(history, /^curl "http:\/\/localhost\/api\/v1\/chats\/\$CHAT\/messages\?limit=20" \\\n/);
  assert.match(history, /Authorization: Bearer \$TOKEN/);
  const report = curl("http://localhost", entry("report"), "example") ?? "";
  assert.ok(report.endsWith(`"message_id":"'"$BOBS_MESSAGE"'","reason":"other"}'`), report);
  const send = entry("send_message");
  const body = { client_message_id: "1", content: "it's" };
  const requestBody = { content: { "application/json": { examples: { quoted: { value: body } } } } };
  const command = curl("http://localhost", { ...send, operation: { ...send.operation, requestBody } }, "quoted") ?? "";
  assert.ok(command.endsWith(`-d '{"client_message_id":"1","content":"it'\\''s"}'`), command);
});

test("every id and secret of a command is a variable that the first commands set", () => {
  for (const { operation, id, ...rest } of entries) {
    const successes = answers(openapi, operation).filter(([status]) => status.startsWith("2"));
    for (const example of examplesOf(operation, successes)) {
      const command = curl("http://localhost", { id, operation, ...rest }, example) ?? "";
      assert.doesNotMatch(command, /(user|chat|msg|sess|conn|rep|pk)_0[0-9A-Z]{25}/, `${id} ${example}`);
      const used = [...command.matchAll(/\$([A-Z_]+)/g)].map(([, name]) => name);
      const set = `${prelude("http://localhost")}\n${command}`;
      for (const name of used) assert.match(set, new RegExp(`^${name}=`, "m"), `${id} ${example}`);
    }
  }
  assert.equal(new Set(Object.values(VARIABLES)).size, Object.keys(VARIABLES).length);
});
