import type { QueuedSend } from "../storage/storage.js";
import type { ErrorBody } from "../wire.js";
import type { Random } from "./backoff.js";
import { judge } from "./retry.js";
import { earliest } from "./time.js";

/** Sends that wait for their answer at once, at the most. */
export const IN_FLIGHT_MAX = 32;

interface Pending {
  send: QueuedSend;
  refusals: number;
  /** Present while an answer is awaited. */
  sentAt: number | undefined;
}

/** What a refusal of a send leads to. */
export type SendRefused =
  /** It is tried again, when its chat is no longer held back. */
  | { kind: "held" }
  /** It is given up. */
  | { kind: "failed"; send: QueuedSend }
  /** It is tried again with a new token. */
  | { kind: "needsRefresh" }
  /** It is tried again on a new connection. */
  | { kind: "needsReconnect" }
  /** Nothing of that name is under way. */
  | { kind: "unknown" };

/**
 * Messages on their way, from the call of `send` to the ack.
 *
 * Those of one chat go out in the order of the calls, after a reconnect too. A refusal that passes holds back the whole
 * chat, so that nothing overtakes what has to be repeated; only sends that were under way at that moment can.
 */
export class Sends {
  /** By a number that grows with every call. A map keeps the order in which its keys were added. */
  readonly #queue = new Map<number, Pending>();
  #nextOrder = 0;
  #inFlight = 0;
  /**
   * How many may be under way. It falls to one when the server limits the rate, and widens slowly: whoever goes on at
   * full width after a refusal is refused dozens of times a second, and cut.
   */
  #window = IN_FLIGHT_MAX;
  #acksAtThisWidth = 0;
  readonly #held = new Map<string, number>();

  push(send: QueuedSend): void {
    this.#queue.set(this.#nextOrder, { send, refusals: 0, sentAt: undefined });
    this.#nextOrder += 1;
  }

  /** The next send to go out with its number, if one may. */
  next(now: number): { order: number; send: QueuedSend } | undefined {
    // Also when nothing may go out: a hold that is over would be a timeout that never passes.
    for (const [chatId, until] of this.#held) {
      if (until <= now) {
        this.#held.delete(chatId);
      }
    }
    if (this.#inFlight >= this.#window || this.#inFlight === this.#queue.size) {
      return undefined;
    }
    for (const [order, pending] of this.#queue) {
      if (pending.sentAt === undefined && !this.#held.has(pending.send.chatId)) {
        pending.sentAt = now;
        this.#inFlight += 1;
        return { order, send: pending.send };
      }
    }
    return undefined;
  }

  /** Takes note of an ack, and returns what was sent. */
  acked(order: number): QueuedSend | undefined {
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
    return pending.send;
  }

  /** Takes note of an error answer. */
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
      return { kind: "failed", send: pending.send };
    }
    if (typeof verdict === "string") {
      return { kind: verdict };
    }
    if (error.code === "RATE_LIMITED") {
      this.#window = 1;
      this.#acksAtThisWidth = 0;
    }
    const { chatId } = pending.send;
    this.#held.set(chatId, Math.max(now + verdict, this.#held.get(chatId) ?? 0));
    return { kind: "held" };
  }

  /** The connection is gone: everything unanswered goes out again, in order. */
  disconnected(): void {
    this.#inFlight = 0;
    for (const pending of this.#queue.values()) {
      pending.sentAt = undefined;
    }
  }

  /** When the send that has waited longest for its answer went out. */
  oldestInFlight(): number | undefined {
    return earliest(...[...this.#queue.values()].map(({ sentAt }) => sentAt));
  }

  /** When the first chat is no longer held back. */
  pollTimeout(): number | undefined {
    return earliest(...this.#held.values());
  }
}
