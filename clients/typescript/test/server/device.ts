import assert from "node:assert/strict";

import {
  Client,
  memoryStorage,
  newer,
  withUpdated,
  type ClientEvents,
  type Message,
  type MessageWithStatus,
  type Outgoing,
  type SendError,
  type SendMessageAck,
  type SendOptions,
  type Storage,
  type StopReason,
  type UpdateAction,
} from "../../src/index.js";
import type { Proxy } from "./proxy.js";

const DEADLINE_MS = 40_000;

/** A send or an update, and its outcome. */
export interface Sent {
  chatId: string;
  /** Absent in a deletion and in a reaction. */
  content: string | undefined;
  metadata: Record<string, unknown> | undefined;
  clientMessageId: string;
  ack?: SendMessageAck;
  failure?: SendError;
}

/** Whether a send or an update has no outcome yet. */
export function isOpen(sent: Sent): boolean {
  return sent.ack === undefined && sent.failure === undefined;
}

/** A device: a client, its storage, and an application that records its events. */
export class Device {
  client: Client;
  /** The messages as they were handed out. */
  readonly taken: Message[] = [];
  /** The messages after the updates that were handed out. */
  readonly copies = new Map<string, MessageWithStatus>();
  readonly sends: Sent[] = [];
  readonly updates: ClientEvents["chatUpdated"][] = [];
  readonly receipts = new Map<string, ClientEvents["receipt"]>();
  readonly typing = new Map<string, boolean>();
  readonly presences = new Map<string, string>();
  readonly expired = new Map<string, Set<number>>();
  readonly gone = new Set<string>();
  held: Message | undefined;
  /** The last connection event; `untold` since the runner last disturbed the connection. */
  connection: "untold" | "up" | "down" = "untold";
  stopped: StopReason | undefined;
  private isHolding = false;
  private release: () => void = () => undefined;
  private changed: () => void = () => undefined;

  constructor(
    /** The name of its user. */
    readonly user: string,
    private readonly userId: () => string,
    readonly proxy: Proxy,
    readonly storage: Storage = memoryStorage(),
  ) {
    this.client = this.open();
  }

  /** Simulates a crash and a restart on the same storage. */
  async restart(): Promise<void> {
    const wasBlocked = this.proxy.isBlocked;
    this.proxy.block();
    // The old client must be closed: otherwise it would reconnect and replace its successor.
    await this.client.close();
    this.isHolding = false;
    this.held = undefined;
    this.connection = "untold";
    this.client = this.open();
    if (!wasBlocked) {
      this.proxy.unblock();
    }
    this.client.connect();
  }

  hold(): void {
    this.isHolding = true;
  }

  letGo(): void {
    this.isHolding = false;
    this.release();
  }

  send(chatId: string, content: string, options: SendOptions): void {
    const { clientMessageId } = this.client.send(chatId, content, options);
    this.sends.push({ chatId, content, metadata: options.metadata, clientMessageId });
  }

  update(chatId: string, sequence: number, action: UpdateAction, options: { clientMessageId?: string }): void {
    const { clientMessageId } = this.request(chatId, sequence, action, options);
    const content = action.action === "edit" ? action.content : undefined;
    this.sends.push({ chatId, content, metadata: undefined, clientMessageId });
  }

  /** The application's copies of the messages of a chat, oldest first. */
  copiesOf(chatId: string): MessageWithStatus[] {
    const copies = [...this.copies.values()].filter(({ chat_id }) => chat_id === chatId);
    return copies.sort((a, b) => a.sequence - b.sequence);
  }

  /** Waits until the condition holds, or fails with the observed state. */
  async until(isTrue: () => boolean | Promise<boolean>, seen: () => unknown): Promise<void> {
    const deadline = Date.now() + DEADLINE_MS;
    while (!(await isTrue())) {
      const left = deadline - Date.now();
      if (left <= 0) {
        assert.fail(`saw ${JSON.stringify(seen())}`);
      }
      // REST state has no change events, so the condition is polled too.
      const change = new Promise<void>((resolve) => (this.changed = resolve));
      const pause = new Promise<void>((resolve) => setTimeout(resolve, Math.min(left, 100)));
      await Promise.race([change, pause]);
    }
  }

  private open(): Client {
    const client = new Client({ baseUrl: this.proxy.baseUrl, storage: this.storage, reconnectPauseMs: 50 });
    const on = <Name extends keyof ClientEvents>(name: Name, note: (detail: ClientEvents[Name]) => unknown): void => {
      client.on(name, (detail) => {
        // A crashed client processes no more events.
        const done = client === this.client ? note(detail) : new Promise(() => undefined);
        this.changed();
        return done;
      });
    };
    on("message", (message) => this.take(message));
    on("updated", (updated) => this.takeUpdate(updated));
    on("connected", () => (this.connection = "up"));
    on("disconnected", () => (this.connection = "down"));
    on("stopped", ({ reason }) => (this.stopped = reason));
    on("chatUpdated", (update) => this.updates.push(update));
    on("chatGone", ({ chatId }) => this.gone.add(chatId));
    on("receipt", (receipt) => this.receipts.set(`${receipt.chat_id} ${receipt.user_id}`, receipt));
    on("typing", ({ chat_id, user_id, is_typing }) => this.typing.set(`${chat_id} ${user_id}`, is_typing));
    on("presence", (presences) => presences.forEach(({ user_id, status }) => this.presences.set(user_id, status)));
    on("expired", ({ chatId, sequences }) => {
      const known = this.expired.get(chatId) ?? new Set();
      this.expired.set(chatId, new Set([...known, ...sequences]));
    });
    on("sent", (ack) => this.note(ack.client_message_id, { ack }));
    on("failed", ({ clientMessageId, error }) => this.note(clientMessageId, { failure: error }));
    return client;
  }

  private async take(message: Message): Promise<void> {
    if (this.isHolding) {
      this.held = message;
      this.changed();
      const { client } = this;
      await new Promise<void>((resolve) => (this.release = resolve));
      if (client !== this.client) {
        await new Promise(() => undefined);
      }
      this.held = undefined;
    }
    this.taken.push(message);
    const key = copyKey(message.chat_id, message.sequence);
    this.copies.set(key, newer(this.copies.get(key), message));
  }

  private takeUpdate(updated: ClientEvents["updated"]): void {
    const key = copyKey(updated.update.chat_id, updated.update.target_sequence);
    const after = withUpdated(this.copies.get(key), updated, this.userId());
    if (after === undefined) {
      this.copies.delete(key);
    } else {
      this.copies.set(key, after);
    }
  }

  private request(
    chatId: string,
    sequence: number,
    action: UpdateAction,
    options: { clientMessageId?: string },
  ): Outgoing {
    switch (action.action) {
      case "edit":
        return this.client.editMessage(chatId, sequence, action.content, options);
      case "delete":
        return this.client.deleteMessage(chatId, sequence, options);
      case "react":
        return this.client.addReaction(chatId, sequence, action.reaction, options);
      case "unreact":
        return this.client.removeReaction(chatId, sequence, action.reaction, options);
    }
  }

  private note(clientMessageId: string, outcome: { ack: SendMessageAck } | { failure: SendError }): void {
    const open = this.sends.find((sent) => sent.clientMessageId === clientMessageId && isOpen(sent));
    assert.ok(open, `${clientMessageId} has another outcome`);
    Object.assign(open, outcome);
  }
}

function copyKey(chatId: string, sequence: number): string {
  return `${chatId} ${sequence}`;
}
