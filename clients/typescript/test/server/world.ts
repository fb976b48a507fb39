import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

import type { Message, MessageWithStatus, Schemas, UpdateAction } from "../../src/index.js";
import { Device, isOpen } from "./device.js";
import { Proxy } from "./proxy.js";
import type { Fields } from "./scenario.js";
import { Server } from "./server.js";

/** The state of one scenario. */
export class World {
  private readonly devices = new Map<string, Device>();
  private readonly phones = new Map<string, string>();
  private readonly userIds = new Map<string, string>();
  private readonly chats = new Map<string, string>();
  private readonly sendIds = new Map<string, string>();
  private readonly firstTokens = new Map<Device, string | undefined>();

  private constructor(private readonly server: Server) {}

  /** A scenario without devices. */
  static async begin(settings: Record<string, string> = {}): Promise<World> {
    return new World(await Server.run(settings));
  }

  device(fields: Fields, name = "device"): Device {
    return found(this.devices, fields.text(name));
  }

  chat(fields: Fields): string {
    return found(this.chats, fields.text("chat"));
  }

  userId(name: string): string {
    return found(this.userIds, name);
  }

  /** The client message id of a send with a name: the same for the same name. */
  sendId(fields: Fields): string {
    const name = fields.text("id");
    const id = this.sendIds.get(name) ?? randomUUID();
    this.sendIds.set(name, id);
    return id;
  }

  /** Resets the connection state of these devices, because the runner is about to disturb their connections. */
  disturb(devices: Iterable<Device> = this.devices.values()): void {
    for (const device of devices) {
      device.connection = "untold";
    }
  }

  async signIn(name: string, user: string): Promise<void> {
    const device = new Device(user, () => this.userId(user), await Proxy.to(this.server.port));
    this.devices.set(name, device);
    const phone = this.phones.get(user) ?? `+1415555${String(1000 + this.phones.size)}`;
    this.phones.set(user, phone);
    await device.client.api.requestOtp(phone);
    const signedIn = await device.client.api.verifyOtp(phone, "000000", user);
    this.userIds.set(user, signedIn.user.user_id);
    this.firstTokens.set(device, await tokenOf(device));
  }

  async openAgain(fields: Fields): Promise<void> {
    const first = this.device(fields);
    const again = new Device(first.user, () => this.userId(first.user), await Proxy.to(this.server.port), first.storage);
    this.devices.set(fields.text("as"), again);
    again.client.connect();
  }

  async createChat(fields: Fields): Promise<void> {
    const chat = fields.text("chat");
    const type = fields.text("type") as Schemas["CreateChat"]["type"];
    const member_ids = fields.list<string>("users").map((user) => this.userId(user));
    const name = type === "group" ? { name: chat } : {};
    const { chat_id } = await this.device(fields).client.api.createChat({ type, member_ids, ...name });
    this.chats.set(chat, chat_id);
  }

  async queue(fields: Fields): Promise<Device> {
    const device = this.device(fields);
    const chatId = this.chat(fields);
    const options = {
      ...(fields.has("id") ? { clientMessageId: this.sendId(fields) } : {}),
      ...(fields.has("metadata") ? { metadata: fields.object("metadata") } : {}),
      ...(fields.has("ttl_seconds") ? { ttlSeconds: fields.number("ttl_seconds") } : {}),
    };
    fields.contents().forEach((content) => device.send(chatId, content, options));
    // The queue is read after all pending additions.
    await device.client.queued();
    return device;
  }

  async queueUpdate(fields: Fields): Promise<Device> {
    const device = this.device(fields);
    const options = fields.has("id") ? { clientMessageId: this.sendId(fields) } : {};
    device.update(this.chat(fields), fields.number("sequence"), actionOf(fields), options);
    // The queue is read after all pending additions.
    await device.client.queued();
    return device;
  }

  async send(fields: Fields): Promise<void> {
    await this.expectOutcome(await this.queue(fields), fields);
  }

  async update(fields: Fields): Promise<void> {
    await this.expectOutcome(await this.queueUpdate(fields), fields);
  }

  private async expectOutcome(device: Device, fields: Fields): Promise<void> {
    await this.expectAcked(device);
    assert.ok(device.sends.at(-1)?.ack, `it was refused: ${String(device.sends.at(-1)?.failure)}`);
    if (fields.has("deduplicated")) {
      assert.equal(device.sends.at(-1)?.ack?.deduplicated, fields.flag("deduplicated"));
    }
  }

  /** Expects that all sends that were not refused are acked, and that new messages have the order of the calls. */
  async expectAcked(device: Device): Promise<void> {
    await device.until(
      async () => !device.sends.some(isOpen) && (await queueLength(device)) === 0,
      () => device.sends.filter(isOpen).map(({ content, clientMessageId }) => content ?? clientMessageId),
    );
    for (const chatId of this.chats.values()) {
      const acks = device.sends.flatMap(({ chatId: of, ack }) => (of === chatId && ack !== undefined ? [ack] : []));
      const sequences = acks.filter(({ deduplicated }) => !deduplicated).map(({ sequence }) => sequence);
      assert.deepEqual(
        sequences,
        [...sequences].sort((a, b) => a - b),
        "acks are out of order",
      );
    }
  }

  async expectMessages(fields: Fields): Promise<void> {
    const device = this.device(fields);
    const chatId = this.chat(fields);
    const expected = fields.contents();
    const messages = (): Message[] => device.taken.filter(({ chat_id }) => chat_id === chatId);
    const contents = (): string[] => messages().map(({ content }) => content);
    await device.until(
      () => {
        assert.deepEqual(contents(), expected.slice(0, contents().length), "not a beginning of the list");
        return contents().length === expected.length;
      },
      () => contents(),
    );
    const sequences = messages().map(({ sequence }) => sequence);
    assert.deepEqual(
      sequences,
      [...new Set(sequences)].sort((a, b) => a - b),
      "sequences do not grow",
    );
    for (const message of messages()) {
      this.checkOrigin(message);
    }
  }

  /** Checks that a message has the sender, content type and metadata of its send. */
  private checkOrigin(message: Message): void {
    const devices = [...this.devices.values()].filter(({ user }) => this.userId(user) === message.sender_id);
    const sent = devices
      .flatMap(({ sends }) => sends)
      .find(({ chatId, content }) => chatId === message.chat_id && content === message.content);
    assert.ok(sent, `${message.content}: sender`);
    assert.deepEqual(message.metadata, sent.metadata, `${message.content}: metadata`);
    assert.equal(message.content_type, "text/plain");
  }

  async expectHistory(fields: Fields): Promise<void> {
    const device = this.device(fields);
    const chatId = this.chat(fields);
    const expected = fields.contents();
    let seen: Message[] = [];
    const contents = (): string[] => seen.map(({ content }) => content);
    await device.until(async () => {
      seen = await history(device, chatId);
      return JSON.stringify(contents()) === JSON.stringify(expected);
    }, contents);
    seen.forEach((message) => this.checkOrigin(message));
  }

  async expectCopies(fields: Fields): Promise<void> {
    const [device, chatId] = [this.device(fields), this.chat(fields)];
    const expected = expectedCopies(fields);
    const seen = (): string => JSON.stringify(device.copiesOf(chatId).map(copyOf));
    await device.until(() => seen() === expected, seen);
  }

  async expectHistoryCopies(fields: Fields): Promise<void> {
    const [device, chatId] = [this.device(fields), this.chat(fields)];
    const expected = expectedCopies(fields);
    let seen = "";
    await device.until(
      async () => (seen = JSON.stringify((await history(device, chatId)).map(copyOf))) === expected,
      () => seen,
    );
  }

  async expectTokenRenewed(device: Device): Promise<void> {
    const first = this.firstTokens.get(device);
    await device.until(
      async () => (await tokenOf(device)) !== first,
      () => "the same token",
    );
  }

  async endServer(signal: "SIGKILL" | "SIGTERM"): Promise<number | null> {
    this.disturb();
    return this.server.end(signal);
  }

  async startServer(): Promise<void> {
    await this.server.start();
    const [device] = this.devices.values();
    await device?.until(
      async () => (await fetch(`${this.server.baseUrl}/readyz`)).ok,
      () => "not ready",
    );
  }

  /** Closes every client and the server. */
  async end(): Promise<void> {
    for (const device of this.devices.values()) {
      device.proxy.close();
      await device.client.close();
    }
    await this.server.remove();
  }
}

async function tokenOf(device: Device): Promise<string | undefined> {
  return (await device.storage.device())?.tokens?.accessToken;
}

async function queueLength({ client }: Device): Promise<number> {
  return (await client.queued()).length + (await client.queuedUpdates()).length;
}

/** What the update of a step does. */
function actionOf(fields: Fields): UpdateAction {
  const action = fields.text("action");
  switch (action) {
    case "edit":
      return { action, content: fields.text("content") };
    case "delete":
      return { action };
    case "react":
    case "unreact":
      return { action, reaction: fields.text("reaction") };
    default:
      return assert.fail(`there is no action \`${action}\``);
  }
}

/** A message after updates, as a scenario describes it. */
interface Copy {
  content: string;
  edits?: number;
  reactions?: { reaction: string; count: number; mine?: boolean }[];
}

function copyOf({ content, state }: MessageWithStatus): Required<Copy> {
  const reactions = (state?.reactions ?? []).map(({ reaction, count, mine }) => ({ reaction, count, mine: mine ?? false }));
  return { content, edits: state?.edit_count ?? 0, reactions };
}

function expectedCopies(fields: Fields): string {
  const copies = fields.list<Copy>("messages").map(({ content, edits = 0, reactions = [], ...others }) => {
    assert.deepEqual(others, {}, "fields that the runner does not know");
    const all = reactions.map(({ reaction, count, mine = false }) => ({ reaction, count, mine }));
    return { content, edits, reactions: all };
  });
  return JSON.stringify(copies);
}

/** The whole history of a chat, oldest first. */
async function history(device: Device, chatId: string): Promise<MessageWithStatus[]> {
  const messages: MessageWithStatus[] = [];
  for (let cursor: string | null | undefined, isFirst = true; isFirst || cursor; isFirst = false) {
    const page = await device.client.api.history(chatId, cursor ? { cursor } : { after: 0, limit: 100 });
    messages.push(...page.data.messages);
    cursor = page.pagination.next_cursor;
  }
  return messages;
}

function found<T>(things: Map<string, T>, name: string): T {
  const thing = things.get(name);
  assert.ok(thing !== undefined, `nothing is called \`${name}\``);
  return thing;
}
