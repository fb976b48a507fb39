import type { Message } from "../wire.js";

/** Most buffered messages above a gap. */
export const EARLY_MAX = 256;

/**
 * Puts the messages of one chat in order: each sequence once, without a gap.
 *
 * The watermark is the sequence up to which nothing is missing. It advances only over the next message and over ranges
 * that a sync has proven empty. A message above a gap is buffered. If the buffer is full the message is dropped,
 * because the sync that fills the gap returns it too.
 */
export class Feed {
  #watermark: number;
  #highestSeen: number;
  readonly #early = new Map<number, Message>();

  constructor(watermark: number) {
    this.#watermark = this.#highestSeen = watermark;
  }

  get watermark(): number {
    return this.#watermark;
  }

  /** Whether a message above the watermark is known to be missing. */
  get hasHole(): boolean {
    return this.#highestSeen > this.#watermark;
  }

  /** Takes a pushed message, and returns the messages that can be handed out now. */
  offer(message: Message): Message[] {
    const { sequence } = message;
    this.#highestSeen = Math.max(this.#highestSeen, sequence);
    if (sequence > this.#watermark && (this.#early.size < EARLY_MAX || sequence === this.#watermark + 1)) {
      this.#early.set(sequence, message);
    }
    return this.#takeNext();
  }

  /**
   * Takes a sync page, which has all messages up to `examined`, and returns the messages that can be handed out now.
   */
  offerPage(messages: Message[], examined: number): Message[] {
    const fresh: Message[] = [];
    for (const message of [...messages].sort((a, b) => a.sequence - b.sequence)) {
      if (message.sequence > this.#watermark) {
        this.#watermark = message.sequence;
        fresh.push(message);
      }
    }
    this.#watermark = Math.max(this.#watermark, examined);
    for (const sequence of this.#early.keys()) {
      if (sequence <= this.#watermark) {
        this.#early.delete(sequence);
      }
    }
    return [...fresh, ...this.#takeNext()];
  }

  #takeNext(): Message[] {
    const next: Message[] = [];
    for (let message = this.#early.get(this.#watermark + 1); message; message = this.#early.get(this.#watermark + 1)) {
      this.#early.delete(message.sequence);
      this.#watermark = message.sequence;
      next.push(message);
    }
    return next;
  }
}
