import { AckSchedule } from "./ack-schedule.js";

/** Heartbeat intervals without a frame after which the server counts as unreachable. */
const SILENT_INTERVALS_MAX = 3;
/** Time for an answer to a probe. */
const PROBE_MS = 3000;
/** Accepted range of the announced heartbeat interval. */
const INTERVAL_MIN_MS = 100;
const INTERVAL_MAX_MS = 60_000;

/** The timers of an established connection. */
export class Link {
  readonly #intervalMs: number;
  #lastHeard: number;
  #lastSent: number;
  #lastBeat: number;
  #probedAt = Infinity;
  /** When the pending acks are due. */
  readonly acks = new AckSchedule();

  constructor(now: number, intervalMs: number) {
    this.#intervalMs = Math.min(Math.max(intervalMs, INTERVAL_MIN_MS), INTERVAL_MAX_MS);
    this.#lastHeard = this.#lastSent = this.#lastBeat = now;
  }

  heard(now: number): void {
    this.#lastHeard = now;
    this.#probedAt = Infinity;
  }

  /** Expects an answer soon, because the connection may have been lost unnoticed. */
  probe(now: number): void {
    this.#probedAt = Math.min(this.#probedAt, now);
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
    return Math.min(this.#lastHeard + this.#intervalMs * SILENT_INTERVALS_MAX, this.#probedAt + PROBE_MS);
  }
}
