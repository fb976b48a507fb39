import assert from "node:assert/strict";

import {
  Client,
  memoryStorage,
  type ClientEvents,
  type Message,
  type SendMessageAck,
  type SendOptions,
  type Storage,
  type StopReason,
} from "../../src/index.js";
import type { Proxy } from "./proxy.js";

const DEADLINE_MS = 40_000;

/** A send and its outcome. */
export interface Sent {
  chatId: string;
  content: string;
  metadata: Record<string, unknown> | undefined;
  clientMessageId: string;
  ack?: SendMessageAck;
  failure?: string;
}

/** Whether a send has no outcome yet. */
export function isOpen(sent: Sent): boolean {
  return sent.ack === undefined && sent.failure === undefined;
}

/** A device: a client, its storage, and an application that records its events. */
export class Device {
  client: Client;
  readonly taken: Message[] = [];
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
    on("failed", ({ clientMessageId, error }) => this.note(clientMessageId, { failure: error.code }));
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
  }

  private note(clientMessageId: string, outcome: { ack: SendMessageAck } | { failure: string }): void {
    const open = this.sends.find((sent) => sent.clientMessageId === clientMessageId && isOpen(sent));
    assert.ok(open, `${clientMessageId} has another outcome`);
    Object.assign(open, outcome);
  }
}
