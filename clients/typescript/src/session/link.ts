/** Heartbeat intervals without a frame after which the server counts as unreachable. */
const SILENT_INTERVALS_MAX = 3;
/** Accepted range of the announced heartbeat interval. */
const INTERVAL_MIN_MS = 100;
const INTERVAL_MAX_MS = 60_000;

/** The timers of an established connection. */
export class Link {
  readonly #intervalMs: number;
  #lastHeard: number;
  #lastSent: number;
  #lastBeat: number;
  /** When the pending acks are due. */
  acksDueAt: number | undefined;

  constructor(now: number, intervalMs: number) {
    this.#intervalMs = Math.min(Math.max(intervalMs, INTERVAL_MIN_MS), INTERVAL_MAX_MS);
    this.#lastHeard = this.#lastSent = this.#lastBeat = now;
  }

  heard(now: number): void {
    this.#lastHeard = now;
  }

  sent(now: number): void {
    this.#lastSent = now;
  }

  beat(now: number): void {
    this.#lastBeat = now;
  }

  /**
   * When a heartbeat is due: after one interval without a sent frame, or without both a received frame and a sent
   * heartbeat.
   */
  get beatAt(): number {
    return Math.min(this.#lastSent, Math.max(this.#lastHeard, this.#lastBeat)) + this.#intervalMs;
  }

  /** When the server counts as unreachable. */
  get silentAt(): number {
    return this.#lastHeard + this.#intervalMs * SILENT_INTERVALS_MAX;
  }
}
