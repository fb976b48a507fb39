import assert from "node:assert/strict";
import { test } from "node:test";

import { Access, type AccessOptions } from "../../src/access.js";
import { Http } from "../../src/http.js";
import { memoryStorage } from "../../src/storage/memory.js";
import type { Storage } from "../../src/storage/storage.js";

/** A device with a server that renews tokens, or responds with this status. */
function device(options: Partial<AccessOptions> & { storage?: Storage; status?: number } = {}) {
  const { storage = memoryStorage(), status = 200, ...rest } = options;
  const refreshes: string[] = [];
  const forgotten: string[] = [];
  const fetch = async (_: unknown, init?: RequestInit) => {
    refreshes.push((JSON.parse(String(init?.body)) as { refresh_token: string }).refresh_token);
    await null;
    const next = refreshes.length + 1;
    const body =
      status === 200 ? { data: { tokens: tokens(next) } } : { error: { code: "UNAUTHORIZED", message: "no" } };
    return new Response(JSON.stringify(body), { status });
  };
  const http = new Http("http://server", fetch);
  const access = new Access(http, storage, { onForget: async () => void forgotten.push("user"), ...rest });
  return { access, storage, refreshes, forgotten };
}

function tokens(n: number, expires_in = 3600) {
  return { access_token: `a${n}`, refresh_token: `r${n}`, token_type: "Bearer", expires_in };
}

test("a device makes its id once and keeps it", async () => {
  const { access, storage } = device();
  const id = await access.deviceId();
  assert.match(id, /^[0-9a-f-]{36}$/);
  assert.equal(await device({ storage }).access.deviceId(), id);
  assert.equal(await device({ storage, deviceId: "given" }).access.deviceId(), "given");
});

test("tokens are renewed five minutes early, and short ones half way", async (context) => {
  context.mock.timers.enable({ apis: ["Date"], now: 0 });
  for (const [expiresIn, renewedAfter] of [
    [3600, 3300],
    [301, 1],
    [300, 150],
    [60, 30],
  ] as const) {
    context.mock.timers.setTime(0);
    const { access, refreshes } = device();
    await access.signedIn("u", tokens(1, expiresIn));
    context.mock.timers.setTime(renewedAfter * 1000 - 1);
    assert.equal(await access.token(), "a1", `${expiresIn} s`);
    context.mock.timers.setTime(renewedAfter * 1000);
    assert.equal(await access.token(), "a2", `${expiresIn} s`);
    assert.deepEqual(refreshes, ["r1"]);
  }
});

test("renewals at the same time are one", async () => {
  const { access, refreshes } = device();
  await access.signedIn("u", tokens(1));
  assert.deepEqual(await Promise.all([access.renew("a1"), access.renew("a1"), access.renew("a1")]), ["a2", "a2", "a2"]);
  assert.deepEqual(refreshes, ["r1"]);
  assert.equal(await access.renew("a1"), "a2", "it was replaced already");
  assert.deepEqual(refreshes, ["r1"]);
});

test("a tab takes over the tokens that another one has renewed", async () => {
  const first = device();
  await first.access.signedIn("u", tokens(1));
  const second = device({ storage: first.storage });
  assert.equal(await second.access.token(), "a1");
  await first.access.renew("a1");
  assert.equal(await second.access.renew("a1"), "a2");
  assert.deepEqual(second.refreshes, []);
});

test("tabs renew one after the other where there are locks", async (context) => {
  const held: string[] = [];
  let last: Promise<unknown> = Promise.resolve();
  const request = (name: string, act: () => Promise<unknown>) => {
    held.push(name);
    last = last.then(act);
    return last;
  };
  const global = Object.getOwnPropertyDescriptor(globalThis, "navigator");
  Object.defineProperty(globalThis, "navigator", { value: { locks: { request } }, configurable: true });
  context.after(() => {
    Reflect.deleteProperty(globalThis, "navigator");
    if (global !== undefined) {
      Object.defineProperty(globalThis, "navigator", global);
    }
  });
  const first = device({ deviceId: "d" });
  await first.access.signedIn("u", tokens(1));
  const second = device({ deviceId: "d", storage: first.storage });
  const renewed = await Promise.all([first.access.renew("a1"), second.access.renew("a1")]);
  assert.deepEqual(renewed, ["a2", "a2"]);
  assert.deepEqual(
    [first.refreshes.length + second.refreshes.length, held],
    [1, ["tidings:tokens:d", "tidings:tokens:d"]],
  );
});

test("a refused renewal signs out, and a server that cannot be asked does not", async () => {
  const refused = device({ status: 401 });
  await refused.access.signedIn("u", tokens(1));
  await assert.rejects(refused.access.renew("a1"), { code: "UNAUTHORIZED" });
  assert.equal(await refused.access.isSignedIn(), false);
  await assert.rejects(refused.access.token(), { code: "NOT_SIGNED_IN" });
  assert.equal((await refused.storage.device())?.userId, "u", "whose queue it is stays known");

  const away = device({ status: 503 });
  await away.access.signedIn("u", tokens(1));
  await assert.rejects(away.access.renew("a1"));
  assert.equal(await away.access.isSignedIn(), true);
});

test("another user finds nothing of the one before, and the same one everything", async () => {
  const { access, storage, forgotten } = device();
  await access.signedIn("u", tokens(1));
  await storage.addSend({ clientMessageId: "i", chatId: "c", content: "x", queuedAt: 0 });
  await access.signedIn("u", tokens(2));
  assert.equal((await storage.sends()).length, 1);
  await access.signedIn("v", tokens(3));
  assert.equal((await storage.sends()).length, 0);
  assert.deepEqual(forgotten, ["user"]);
});

test("tokens that are given count where the storage has none", async () => {
  const { access, storage } = device({ tokens: tokens(7) });
  assert.equal(await access.token(), "a7");
  assert.equal(await device({ storage, tokens: tokens(8) }).access.token(), "a7");
});

test("another system's tokens are asked for whenever one is needed", async () => {
  let asked = 0;
  const { access, refreshes } = device({ external: async () => `jwt ${(asked += 1)}` });
  assert.equal(await access.token(), "jwt 1");
  assert.equal(await access.renew("jwt 1"), "jwt 2");
  assert.equal(await access.isSignedIn(), true);
  assert.deepEqual(refreshes, []);
});
