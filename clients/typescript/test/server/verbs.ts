import assert from "node:assert/strict";

import { ApiError, type Schemas, type SendError } from "../../src/index.js";
import type { Device } from "./device.js";
import type { Fields } from "./scenario.js";
import type { World } from "./world.js";

/** Executes a step, or waits until its condition holds. */
export type Act = (world: World, fields: Fields) => void | Promise<void>;

/** The implementation of each verb. */
export const VERBS: Record<string, Act> = {
  sign_in: (world, fields) => world.signIn(fields.text("device"), fields.text("user")),
  connect: (world, fields) => {
    const device = world.device(fields);
    world.disturb([device]);
    device.client.connect();
    return expectConnection(device, "up");
  },
  disconnect: (world, fields) => world.device(fields).client.close(),
  restart_device: (world, fields) => world.device(fields).restart(),
  open_again: (world, fields) => world.openAgain(fields),
  cut: (world, fields) => disturbed(world, fields).proxy.cut(),
  block: (world, fields) => disturbed(world, fields).proxy.block(),
  stall: (world, fields) => disturbed(world, fields).proxy.stall(),
  unblock: (world, fields) => world.device(fields).proxy.unblock(),
  hold: (world, fields) => world.device(fields).hold(),
  release: (world, fields) => world.device(fields).letGo(),

  kill_server: async (world) => void (await world.endServer("SIGKILL")),
  stop_server: async (world) => assert.equal(await world.endServer("SIGTERM"), 0, "exit code"),
  start_server: (world) => world.startServer(),

  create_chat: (world, fields) => world.createChat(fields),
  add_member: async (world, fields) => {
    const member = { user_id: world.userId(fields.text("user")) };
    await world.device(fields).client.api.addMember(world.chat(fields), member);
  },
  remove_member: (world, fields) =>
    world.device(fields).client.api.removeMember(world.chat(fields), world.userId(fields.text("user"))),
  leave: (world, fields) => world.device(fields).client.api.leave(world.chat(fields)),
  send: (world, fields) => world.send(fields),
  queue: async (world, fields) => void (await world.queue(fields)),
  update: (world, fields) => world.update(fields),
  queue_update: async (world, fields) => void (await world.queueUpdate(fields)),
  mark_read: (world, fields) => world.device(fields).client.markRead(world.chat(fields), fields.number("sequence")),
  typing: (world, fields) => world.device(fields).client.typing(world.chat(fields), fields.flag("is_typing")),
  watch: (world, fields) => {
    const userIds = fields.list<string>("users").map((user) => world.userId(user));
    world.device(fields).client.watch(userIds);
  },
  set_visibility: async (world, fields) => {
    const presence_visibility = fields.text("visibility") as Schemas["Me"]["presence_visibility"];
    await world.device(fields).client.api.updateMe({ presence_visibility });
  },
  revoke_session: async (world, fields) => {
    const { api } = world.device(fields).client;
    const deviceId = await world.device(fields, "target").client.deviceId();
    const session = (await api.sessions()).find(({ device_id }) => device_id === deviceId);
    assert.ok(session, "the target has no session");
    await api.revokeSession(session.session_id);
  },

  expect_connected: (world, fields) => expectConnection(world.device(fields), "up"),
  expect_disconnected: (world, fields) => expectConnection(world.device(fields), "down"),
  expect_messages: (world, fields) => world.expectMessages(fields),
  expect_copies: (world, fields) => world.expectCopies(fields),
  expect_history_copies: (world, fields) => world.expectHistoryCopies(fields),
  expect_held: (world, fields) => {
    const device = world.device(fields);
    const [chatId, content] = [world.chat(fields), fields.text("content")];
    return device.until(
      () => device.held?.chat_id === chatId && device.held.content === content,
      () => device.held,
    );
  },
  expect_acked: (world, fields) => world.expectAcked(world.device(fields)),
  expect_queued: async (world, fields) => {
    const queued = await world.device(fields).client.queued();
    assert.deepEqual(
      queued.map(({ content }) => content),
      fields.contents(),
    );
  },
  expect_failed: (world, fields) => {
    const device = world.device(fields);
    const [id, code] = [world.sendId(fields), fields.text("code")];
    const reason = fields.has("reason") ? fields.text("reason") : undefined;
    const isIt = (failure: SendError | undefined): boolean =>
      failure?.code === code && (reason === undefined || failure.details["reason"] === reason);
    return device.until(
      () => device.sends.some(({ clientMessageId, failure }) => clientMessageId === id && isIt(failure)),
      () => device.sends,
    );
  },
  expect_history: (world, fields) => world.expectHistory(fields),
  expect_history_refused: async (world, fields) => {
    const [device, chatId, code] = [world.device(fields), world.chat(fields), fields.text("code")];
    await assert.rejects(device.client.api.history(chatId), (error) => {
      return (
        error instanceof ApiError &&
        (error.code === code || (code === "UNAUTHORIZED" && error.code === "NOT_SIGNED_IN"))
      );
    });
  },
  expect_unread: (world, fields) => {
    const [device, chatId, count] = [world.device(fields), world.chat(fields), fields.number("count")];
    let seen: number | undefined;
    return device.until(
      async () => (seen = (await device.client.api.chat(chatId)).unread_count) === count,
      () => seen,
    );
  },
  expect_watermarks: (world, fields) => {
    const [device, chatId, userId] = [world.device(fields), world.chat(fields), world.userId(fields.text("user"))];
    const isExpected = watermarks(fields);
    let seen: Watermarks | undefined;
    return device.until(
      async () => {
        seen = (await device.client.api.receipts(chatId)).members.find(({ user_id }) => user_id === userId);
        return isExpected(seen);
      },
      () => seen,
    );
  },
  expect_receipt: (world, fields) => {
    const [device, key] = [world.device(fields), memberKey(world, fields)];
    const isExpected = watermarks(fields);
    return device.until(
      () => isExpected(device.receipts.get(key)),
      () => device.receipts.get(key),
    );
  },
  expect_typing: (world, fields) => {
    const [device, key, isTyping] = [world.device(fields), memberKey(world, fields), fields.flag("is_typing")];
    return device.until(
      () => device.typing.get(key) === isTyping,
      () => device.typing.get(key),
    );
  },
  expect_presence: (world, fields) => {
    const [device, userId, status] = [world.device(fields), world.userId(fields.text("user")), fields.text("status")];
    return device.until(
      () => device.presences.get(userId) === status,
      () => device.presences.get(userId),
    );
  },
  expect_expired: (world, fields) => {
    const [device, chatId] = [world.device(fields), world.chat(fields)];
    const expected = JSON.stringify(fields.list<number>("sequences"));
    const seen = (): string => JSON.stringify([...(device.expired.get(chatId) ?? [])].sort((a, b) => a - b));
    return device.until(() => seen() === expected, seen);
  },
  expect_chat_updated: (world, fields) => {
    const [device, chatId, change] = [world.device(fields), world.chat(fields), fields.text("change")];
    const userId = fields.has("user") ? world.userId(fields.text("user")) : undefined;
    const isIt = (update: (typeof device.updates)[number]): boolean =>
      update.chat_id === chatId && update.change === change && (userId === undefined || update.user_id === userId);
    return device.until(
      () => device.updates.some(isIt),
      () => device.updates,
    );
  },
  expect_chat_gone: (world, fields) => {
    const [device, chatId] = [world.device(fields), world.chat(fields)];
    return device.until(
      () => device.gone.has(chatId),
      () => [...device.gone],
    );
  },
  expect_stopped: (world, fields) => {
    const device = world.device(fields);
    const reason = fields.text("reason").replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
    return device.until(
      () => device.stopped === reason,
      () => device.stopped,
    );
  },
  expect_token_renewed: (world, fields) => world.expectTokenRenewed(world.device(fields)),
};

interface Watermarks {
  delivered_sequence: number;
  read_sequence: number;
}

function watermarks(fields: Fields): (seen: Watermarks | undefined) => boolean {
  const delivered = fields.has("delivered") ? fields.number("delivered") : undefined;
  const read = fields.has("read") ? fields.number("read") : undefined;
  return (seen) =>
    seen !== undefined &&
    (delivered === undefined || seen.delivered_sequence === delivered) &&
    (read === undefined || seen.read_sequence === read);
}

function memberKey(world: World, fields: Fields): string {
  return `${world.chat(fields)} ${world.userId(fields.text("user"))}`;
}

function disturbed(world: World, fields: Fields): Device {
  const device = world.device(fields);
  world.disturb([device]);
  return device;
}

function expectConnection(device: Device, expected: "up" | "down"): Promise<void> {
  return device.until(
    () => device.connection === expected,
    () => device.connection,
  );
}
