import { earliest } from "./time.js";

/** Quiet time of a chat before its ack. */
const QUIET_MS = 200;
/** Longest delay of an ack. */
const LONGEST_MS = 5000;

interface PendingAck {
  dueAt: number;
  /** `dueAt` is never moved beyond it. */
  latest: number;
}

/**
 * When the acks of one connection are due, by chat.
 *
 * An ack waits until its chat has been quiet for a moment, so that a sender sees the delivery soon, and one ack covers a
 * burst. It waits at most five seconds, also in a chat that is never quiet.
 */
export class AckSchedule {
  readonly #pending = new Map<string, PendingAck>();

  /** Schedules the ack of a chat in which a message was just stored. */
  stored(now: number, chatId: string): void {
    const latest = this.#pending.get(chatId)?.latest ?? now + LONGEST_MS;
    this.#pending.set(chatId, { dueAt: Math.min(latest, now + QUIET_MS), latest });
  }

  /** Schedules the ack of a range without messages, unless the chat has an ack already. */
  proven(now: number, chatId: string): void {
    if (!this.#pending.has(chatId)) {
      this.stored(now, chatId);
    }
  }

  /** Schedules an ack that repeats one of the last connection, which has probably arrived: it can wait. */
  repeat(now: number, chatId: string): void {
    if (!this.#pending.has(chatId)) {
      this.#pending.set(chatId, { dueAt: now + LONGEST_MS, latest: now + LONGEST_MS });
    }
  }

  /** Removes the ack of a chat, because it was sent or the chat is gone. */
  remove(chatId: string): void {
    this.#pending.delete(chatId);
  }

  /** The chats whose acks are due. */
  due(now: number): string[] {
    return [...this.#pending].filter(([, { dueAt }]) => now >= dueAt).map(([chatId]) => chatId);
  }

  /** When the next ack is due. */
  nextDue(): number | undefined {
    return earliest(...[...this.#pending.values()].map(({ dueAt }) => dueAt));
  }
}
