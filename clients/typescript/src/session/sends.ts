import type { QueuedEntry } from "../storage/storage.js";
import type { ErrorBody } from "../wire.js";
import type { Random } from "./backoff.js";
import { judge } from "./retry.js";
import { earliest } from "./time.js";

/** Most sends in flight. */
export const IN_FLIGHT_MAX = 32;

interface Pending {
  entry: QueuedEntry;
  refusals: number;
  /** Present while the send is in flight. */
  sentAt: number | undefined;
}

/** The consequence of a refused send. */
export type SendRefused =
  /** The send is retried once its chat is no longer held. */
  | { kind: "held" }
  /** The send has failed permanently. */
  | { kind: "failed"; entry: QueuedEntry }
  /** The send is retried with a new token. */
  | { kind: "needsRefresh" }
  /** The send is retried on a new connection. */
  | { kind: "needsReconnect" }
  /** No send with this number is in flight. */
  | { kind: "unknown" };

/**
 * The queue of outgoing messages and updates, from the call to the ack.
 *
 * Entries of one chat are sent in the order of the calls, also after a reconnect. A temporary refusal holds the whole
 * chat, so that later sends cannot overtake the retry; only sends that were already in flight can.
 */
export class Sends {
  /** Keyed by an increasing number. A map keeps the insertion order of its keys. */
  readonly #queue = new Map<number, Pending>();
  #nextOrder = 0;
  #inFlight = 0;
  /**
   * Most sends in flight at present. A rate limit reduces it to one, and acks widen it slowly. A client that kept the
   * full width after a refusal would be refused dozens of times a second, and disconnected.
   */
  #window = IN_FLIGHT_MAX;
  #acksAtThisWidth = 0;
  readonly #held = new Map<string, number>();

  push(entry: QueuedEntry): void {
    this.#queue.set(this.#nextOrder, { entry, refusals: 0, sentAt: undefined });
    this.#nextOrder += 1;
  }

  /** The next send and its number, if one may be sent. */
  next(now: number): { order: number; entry: QueuedEntry } | undefined {
    // Expired holds are removed first: `pollTimeout` would return them and wake the driver in a loop.
    for (const [chatId, until] of this.#held) {
      if (until <= now) {
        this.#held.delete(chatId);
      }
    }
    if (this.#inFlight >= this.#window || this.#inFlight === this.#queue.size) {
      return undefined;
    }
    for (const [order, pending] of this.#queue) {
      if (pending.sentAt === undefined && !this.#held.has(pending.entry.chatId)) {
        pending.sentAt = now;
        this.#inFlight += 1;
        return { order, entry: pending.entry };
      }
    }
    return undefined;
  }

  /** Removes an acknowledged send and returns it. */
  acked(order: number): QueuedEntry | undefined {
    const pending = this.#queue.get(order);
    if (pending?.sentAt === undefined) {
      return undefined;
    }
    this.#acksAtThisWidth += 1;
    if (this.#acksAtThisWidth >= IN_FLIGHT_MAX) {
      this.#acksAtThisWidth = 0;
      this.#window = Math.min(this.#window + 1, IN_FLIGHT_MAX);
    }
    this.#inFlight -= 1;
    this.#queue.delete(order);
    return pending.entry;
  }

  /** Takes an error reply. */
  refused(now: number, order: number, error: ErrorBody, random: Random): SendRefused {
    const pending = this.#queue.get(order);
    if (pending?.sentAt === undefined) {
      return { kind: "unknown" };
    }
    pending.sentAt = undefined;
    pending.refusals += 1;
    this.#inFlight -= 1;
    const verdict = judge(error, pending.refusals, random);
    if (verdict === "giveUp") {
      this.#queue.delete(order);
      return { kind: "failed", entry: pending.entry };
    }
    if (typeof verdict === "string") {
      return { kind: verdict };
    }
    if (error.code === "RATE_LIMITED") {
      this.#window = 1;
      this.#acksAtThisWidth = 0;
    }
    const { chatId } = pending.entry;
    this.#held.set(chatId, Math.max(now + verdict, this.#held.get(chatId) ?? 0));
    return { kind: "held" };
  }

  /** Marks all sends in flight as unsent after the loss of the connection; they are sent again in order. */
  disconnected(): void {
    this.#inFlight = 0;
    for (const pending of this.#queue.values()) {
      pending.sentAt = undefined;
    }
  }

  /** When the oldest send in flight was sent. */
  oldestInFlight(): number | undefined {
    return earliest(...[...this.#queue.values()].map(({ sentAt }) => sentAt));
  }

  /** When the first hold of a chat ends. */
  pollTimeout(): number | undefined {
    return earliest(...this.#held.values());
  }
}
