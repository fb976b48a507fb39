/** Number of stored messages at which an ack is sent without waiting for its delay. */
const BATCH = 10;

/**
 * The sequences up to which one chat's messages are handed out, stored and acknowledged. A message is stored before it
 * is acknowledged, so a message that the server considers delivered is never lost with this device.
 */
export class Acks {
  #handedOut: number;
  #stored: number;
  #acked: number;
  /** Whether an ack was sent on the current connection and may be lost with it. */
  #unconfirmed = false;

  /** Messages up to the watermark count as acknowledged. */
  constructor(watermark: number) {
    this.#handedOut = this.#stored = this.#acked = watermark;
  }

  /** Records that the application was given this message. */
  handOut(sequence: number): void {
    this.#handedOut = sequence;
  }

  /** Records that the application has stored all messages up to this sequence. */
  store(sequence: number): void {
    this.#stored = Math.max(this.#stored, Math.min(sequence, this.#handedOut));
  }

  /**
   * The sequence to acknowledge with the feed at `watermark`, if it is higher than the last ack. Once every message is
   * stored, it includes the empty range after the last one.
   */
  due(watermark: number): number | undefined {
    const ackable = this.#stored >= this.#handedOut ? watermark : this.#stored;
    return ackable > this.#acked ? ackable : undefined;
  }

  /** Whether enough messages are due to send the ack now. */
  isBatch(watermark: number): boolean {
    const due = this.due(watermark);
    return due !== undefined && due - this.#acked >= BATCH;
  }

  /** Records that an ack up to `sequence` was sent. */
  ack(sequence: number): void {
    this.#acked = sequence;
    this.#unconfirmed = true;
  }

  /** Marks the acks of a lost connection as due again, because they may be lost with it. */
  forgetUnconfirmed(): void {
    if (this.#unconfirmed) {
      this.#unconfirmed = false;
      this.#acked = 0;
    }
  }
}
