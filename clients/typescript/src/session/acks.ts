/** Messages after which an ack does not wait for its time. */
const BATCH = 10;

/**
 * How far one chat's messages have been handed out, stored and acknowledged. Stored comes first, then the ack: what the
 * server believes delivered is never lost with this device.
 */
export class Acks {
  #handedOut: number;
  #stored: number;
  #acked: number;
  /** Whether an ack went out on the present connection and may be lost with it. */
  #unconfirmed = false;

  /** Nothing is owed for what lies at or below the watermark. */
  constructor(watermark: number) {
    this.#handedOut = this.#stored = this.#acked = watermark;
  }

  /** The application was given this message. */
  handOut(sequence: number): void {
    this.#handedOut = sequence;
  }

  /** The application has stored everything up to here. */
  store(sequence: number): void {
    this.#stored = Math.max(this.#stored, Math.min(sequence, this.#handedOut));
  }

  /**
   * What may be acknowledged with the feed at `watermark`, if it is more than before. Once every message is stored,
   * that includes the empty range behind the last one.
   */
  due(watermark: number): number | undefined {
    const ackable = this.#stored >= this.#handedOut ? watermark : this.#stored;
    return ackable > this.#acked ? ackable : undefined;
  }

  /** Whether so many are due that the ack goes out now. */
  isBatch(watermark: number): boolean {
    const due = this.due(watermark);
    return due !== undefined && due - this.#acked >= BATCH;
  }

  /** An ack up to here goes out. */
  ack(sequence: number): void {
    this.#acked = sequence;
    this.#unconfirmed = true;
  }

  /** The connection is gone, and perhaps the acks that were on their way: they are due again. */
  forgetUnconfirmed(): void {
    if (this.#unconfirmed) {
      this.#unconfirmed = false;
      this.#acked = 0;
    }
  }
}
