import assert from "node:assert/strict";
import { generateKeyPairSync, randomUUID, sign, type KeyObject } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test as limitless, type TestContext } from "node:test";

import {
  Client,
  memoryStorage,
  newer,
  withQueued,
  withUpdated,
  type ClientEvents,
  type ClientOptions,
  type MessageWithStatus,
} from "../../src/index.js";
import { Server } from "./server.js";

/** A test with a timeout. */
function test(name: string, run: (context: TestContext) => Promise<void>): void {
  void limitless(name, { timeout: 60_000 }, run);
}

let server: Server;
let phones = 0;
const clients: Client[] = [];

before(async () => {
  server = await Server.run();
});

after(async () => {
  await Promise.all(clients.map((client) => client.close()));
  await server.remove();
});

function open(options: Partial<ClientOptions> = {}): Client {
  const client = new Client({ baseUrl: server.baseUrl, reconnectPauseMs: 50, ...options });
  clients.push(client);
  return client;
}

/** A client of a new user, or of the user with this phone number. */
async function signedIn(client = open(), phone = `+1415555${2000 + (phones += 1)}`): Promise<string> {
  await client.api.requestOtp(phone);
  return (await client.api.verifyOtp(phone, "000000", "Somebody")).user.user_id;
}

/** Two users and their chat. */
async function pair(): Promise<{ ada: Client; bob: Client; chatId: string }> {
  const [ada, bob] = [open(), open()];
  await signedIn(ada);
  const { chat_id } = await ada.api.createChat({ type: "direct", member_ids: [await signedIn(bob)] });
  return { ada, bob, chatId: chat_id };
}

function next<Name extends keyof ClientEvents>(client: Client, name: Name): Promise<ClientEvents[Name]> {
  return new Promise((resolve) => {
    const off = client.on(name, (detail) => {
      off();
      resolve(detail);
    });
  });
}

test("a listener may close the client, and has taken its message all the same", async () => {
  const { ada, bob, chatId } = await pair();
  const off = bob.on("message", () => bob.close());
  const stopped = next(bob, "stopped");
  bob.connect();
  ada.connect();
  await ada.send(chatId, "one").acked;
  assert.deepEqual(await stopped, { reason: "closed" });
  off();
  const following = next(bob, "message");
  bob.connect();
  await ada.send(chatId, "two").acked;
  assert.equal((await following).content, "two");
});

test("a connect right behind a close is not lost", async () => {
  const { bob } = await pair();
  bob.connect();
  await next(bob, "connected");
  const connected = next(bob, "connected");
  void bob.close();
  bob.connect();
  await connected;
});

test("an application that is slower than its chats misses nothing", async () => {
  const { ada, bob, chatId } = await pair();
  const taken: number[] = [];
  let release: () => void = () => undefined;
  const isReleased = new Promise<void>((resolve) => (release = resolve));
  const all = new Promise<void>((resolve) => {
    bob.on("message", async ({ sequence }) => {
      await isReleased;
      taken.push(sequence);
      if (sequence === 1200) {
        resolve();
      }
    });
  });
  const first = next(bob, "message");
  bob.connect();
  ada.connect();
  const acks = Array.from({ length: 900 }, (_, n) => ada.send(chatId, `message ${n + 1}`).acked);
  await Promise.all(acks);
  await Promise.all(Array.from({ length: 300 }, (_, n) => ada.send(chatId, `message ${n + 901}`).acked));
  await first;
  release();
  await all;
  assert.deepEqual(
    taken,
    Array.from({ length: 1200 }, (_, n) => n + 1),
  );
});

test("whoever signs out leaves nothing behind, and the next user on the device finds nothing", async () => {
  const storage = memoryStorage();
  const { ada: other, chatId } = await pair();
  const client = open({ storage });
  const userId = await signedIn(client);
  await client.queued();
  const { acked } = client.send(chatId, "never to be sent by somebody else");
  await client.queued();
  await client.signOut();
  await assert.rejects(acked, { code: "CLOSED" });
  assert.deepEqual([await storage.sends(), await storage.positions()], [[], []]);
  assert.equal(await client.isSignedIn(), false);
  await assert.rejects(client.api.me(), { code: "NOT_SIGNED_IN" });
  assert.notEqual(await signedIn(client), userId);
  client.connect();
  await next(client, "caughtUp");
  const { data } = await other.api.history(chatId);
  assert.deepEqual(data.messages, []);
});

test("an account is exported, then deleted on the server and on the device", async () => {
  const storage = memoryStorage();
  const { ada: other } = await pair();
  const client = open({ storage });
  const userId = await signedIn(client);
  const { chat_id: chatId } = await other.api.createChat({ type: "direct", member_ids: [userId] });
  const message = { client_message_id: randomUUID(), content: "mine" };
  await client.api.sendMessage(chatId, message);
  const { user, chats, is_complete } = await client.api.exportMe();
  assert.deepEqual([user.user_id, is_complete], [userId, true]);
  assert.deepEqual(
    chats.map((chat) => [chat.chat_id, chat.messages.map(({ content }) => content)]),
    [[chatId, ["mine"]]],
  );

  await assert.rejects(client.api.deleteMe({ confirm: chatId }), { code: "VALIDATION_ERROR" });
  assert.equal(await client.isSignedIn(), true, "a refused deletion deletes nothing");
  other.connect();
  await next(other, "caughtUp");
  const erased = next(other, "expired");
  await client.deleteAccount({ eraseMessages: true });
  assert.equal(await client.isSignedIn(), false);
  assert.deepEqual([await storage.sends(), await storage.positions()], [[], []]);
  assert.equal((await other.api.user(userId)).display_name, "Deleted account");
  assert.deepEqual(await erased, { chatId, sequences: [1] });
});

test("a user whose session was revoked is sent nothing as another, and finds their queue again", async () => {
  const storage = memoryStorage();
  const { ada, chatId } = await pair();
  const phone = `+1415555${2000 + (phones += 1)}`;
  const client = open({ storage });
  const userId = await signedIn(client, phone);
  const { chat_id } = await ada.api.createChat({ type: "direct", member_ids: [userId] });
  client.send(chat_id, "kept");
  await client.queued();
  const elsewhere = open();
  await signedIn(elsewhere, phone);
  await elsewhere.api.revokeSessions();
  client.connect();
  assert.deepEqual(await next(client, "stopped"), { reason: "signedOut" });
  await signedIn(client, phone);
  const sent = next(client, "sent");
  client.connect();
  assert.equal((await sent).chat_id, chat_id);
  assert.notEqual(chat_id, chatId);
});

test("a send that cannot be taken fails as an event and as a promise", async () => {
  const { ada, chatId } = await pair();
  const failed = next(ada, "failed");
  const { clientMessageId, acked } = ada.send(chatId, "x".repeat(5000));
  await assert.rejects(acked, { name: "SendError", code: "MESSAGE_TOO_LARGE" });
  assert.equal((await failed).clientMessageId, clientMessageId);
  assert.deepEqual(await ada.queued(), []);
});

/** An application's copies of the messages of one chat, kept in their current state from the events of its client. */
class Copies {
  readonly #held = new Map<number, MessageWithStatus>();
  #upTo = 0;
  #changed: () => void = () => undefined;

  constructor(client: Client, userId: string) {
    client.on("message", (message) => {
      this.#held.set(message.sequence, newer(this.#held.get(message.sequence), message));
      this.#note(message.sequence);
    });
    client.on("updated", (event) => {
      const { sequence, target_sequence: target } = event.update;
      const after = withUpdated(this.#held.get(target), event, userId);
      if (after === undefined) {
        this.#held.delete(target);
      } else {
        this.#held.set(target, after);
      }
      this.#note(sequence);
    });
  }

  get(sequence: number): MessageWithStatus {
    const held = this.#held.get(sequence);
    assert.ok(held, `message ${sequence} is not held`);
    return held;
  }

  /** The messages after the entry with this sequence. */
  async after(sequence: number): Promise<string[]> {
    while (this.#upTo < sequence) {
      await new Promise<void>((resolve) => (this.#changed = resolve));
    }
    return [...this.#held.values()].map(shown);
  }

  #note(sequence: number): void {
    this.#upTo = sequence;
    this.#changed();
  }
}

/** A message with its reactions, in which `*` marks those of the reader. */
function shown({ content, state }: MessageWithStatus): string {
  const reactions = (state?.reactions ?? []).map((one) => ` ${one.reaction}${one.count}${one.mine ? "*" : ""}`);
  return `${content}${reactions.join("")}`;
}

test("edits, deletions and reactions reach connected devices, and a returning one in their last state", async () => {
  const phone = `+1415555${2000 + (phones += 1)}`;
  const [ada, laptop, bob] = [open(), open(), open()];
  const adasId = await signedIn(ada, phone);
  await signedIn(laptop, phone);
  const bobsId = await signedIn(bob);
  const { chat_id: chatId } = await ada.api.createChat({ type: "direct", member_ids: [bobsId] });
  const [ofAda, ofBob, ofLaptop] = [new Copies(ada, adasId), new Copies(bob, bobsId), new Copies(laptop, adasId)];
  ada.connect();
  bob.connect();
  await ada.send(chatId, "frist").acked;
  await ada.send(chatId, "a secret").acked;
  assert.deepEqual(await ofBob.after(2), ["frist", "a secret"]);

  assert.equal((await ada.editMessage(chatId, 1, "first").acked).sequence, 3);
  await ada.addReaction(chatId, 1, "👍").acked;
  await bob.addReaction(chatId, 1, "👍").acked;
  await bob.addReaction(chatId, 1, "☕\ufe0f").acked;
  await ada.removeReaction(chatId, 1, "👍").acked;
  assert.equal((await ada.deleteMessage(chatId, 2).acked).sequence, 8);
  assert.deepEqual(await ofAda.after(8), ["first 👍1 ☕1"]);
  assert.deepEqual(await ofBob.after(8), ["first 👍1* ☕1*"]);
  laptop.connect();
  assert.deepEqual(await ofLaptop.after(8), ["first 👍1 ☕1"]);

  const { data } = await bob.api.history(chatId);
  assert.deepEqual(data.messages.map(shown), ["first 👍1* ☕1*"]);
  const { members } = (await ada.api.reactions(chatId, 1)).data;
  assert.deepEqual(
    members.map(({ user_id, reactions }) => [user_id, reactions]),
    [[bobsId, ["👍", "☕"]]],
  );
});

test("updates over HTTP are made once", async () => {
  const { ada, bob, chatId } = await pair();
  await ada.api.sendMessage(chatId, { client_message_id: randomUUID(), content: "frist" });
  await ada.api.sendMessage(chatId, { client_message_id: randomUUID(), content: "a secret" });
  const [editId, reactId, removeId, deleteId] = [randomUUID(), randomUUID(), randomUUID(), randomUUID()];
  for (const deduplicated of [false, true]) {
    const acks = [
      await ada.api.editMessage(chatId, 1, { client_message_id: editId, content: "first" }),
      await ada.api.addReaction(chatId, 1, "a/b?c#d%20", reactId),
      await ada.api.removeReaction(chatId, 1, "a/b?c#d%20", removeId),
      await ada.api.deleteMessage(chatId, 2, deleteId),
    ];
    assert.deepEqual(
      acks.map((ack) => [ack.sequence, ack.deduplicated]),
      [3, 4, 5, 6].map((sequence) => [sequence, deduplicated]),
    );
  }
  const { data } = await bob.api.history(chatId);
  assert.deepEqual(data.messages.map(shown), ["first"]);
});

test("a queued update is shown at once, once, and no longer when it is refused", async () => {
  const { ada, bob, chatId } = await pair();
  const bobsId = (await bob.api.me()).user_id;
  const ofBob = new Copies(bob, bobsId);
  await ada.api.sendMessage(chatId, { client_message_id: randomUUID(), content: "stays" });
  bob.connect();
  await ofBob.after(1);
  await bob.close();
  const coffee = bob.addReaction(chatId, 1, "☕\ufe0f");
  const edit = bob.editMessage(chatId, 1, "changed");
  const queued = await bob.queuedUpdates();
  const seen = (updates: typeof queued) => shown(withQueued(ofBob.get(1), updates) ?? assert.fail("deleted"));
  assert.equal(seen(queued), "changed ☕1*");
  bob.connect();
  assert.equal((await next(bob, "sent")).client_message_id, coffee.clientMessageId);
  const failed = await next(bob, "failed");
  assert.deepEqual([failed.clientMessageId, failed.error.code], [edit.clientMessageId, "FORBIDDEN"]);
  assert.equal(failed.error.details["reason"], "not_the_author");
  await ofBob.after(2);
  assert.equal(seen(queued.slice(0, 1)), "stays ☕1*", "the reaction of the server and the queued one are the same");
  assert.equal(seen(await bob.queuedUpdates()), "stays ☕1*");
});

test("users of another system come with their own tokens, and are asked for a new one when it is refused", async () => {
  const directory = mkdtempSync(join(tmpdir(), "tidings-keys-"));
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const file = join(directory, "jwks.json");
  writeFileSync(
    file,
    JSON.stringify({ keys: [{ ...publicKey.export({ format: "jwk" }), kid: "k", alg: "EdDSA", use: "sig" }] }),
  );
  const theirs = await Server.run({
    TIDINGS_AUTH__EXTERNAL__JWKS_FILE: file,
    TIDINGS_AUTH__EXTERNAL__ISSUER: "https://app.example",
    TIDINGS_AUTH__EXTERNAL__AUDIENCE: "chat",
  });
  try {
    let asked = 0;
    const client = open({
      baseUrl: theirs.baseUrl,
      deviceId: randomUUID(),
      // The first token is invalid.
      token: async () => jwt(privateKey, (asked += 1) === 1 ? -60 : 300),
    });
    client.connect();
    const { userId } = await next(client, "connected");
    assert.equal((await client.api.me()).user_id, userId);
    assert.ok(asked > 1, "a refused token was not asked for again");
    await client.close();
  } finally {
    await theirs.remove();
    rmSync(directory, { recursive: true });
  }
});

/** A token of another system, valid for this many seconds. */
function jwt(key: KeyObject, seconds: number): string {
  const now = Math.floor(Date.now() / 1000);
  const claims = { iss: "https://app.example", aud: "chat", sub: "ada", iat: now - 120, exp: now + seconds };
  const parts = [{ alg: "EdDSA", typ: "JWT", kid: "k" }, claims].map((part) => base64url(JSON.stringify(part)));
  return [...parts, base64url(sign(null, Buffer.from(parts.join(".")), key))].join(".");
}

function base64url(data: string | Buffer): string {
  return Buffer.from(data).toString("base64url");
}
