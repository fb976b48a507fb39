/** Intervals of silence after which the server is taken for gone. */
const SILENT_INTERVALS_MAX = 3;
/** What a server may announce as its heartbeat interval. */
const INTERVAL_MIN_MS = 100;
const INTERVAL_MAX_MS = 60_000;

/** The clockwork of a connection that stands. */
export class Link {
  readonly #intervalMs: number;
  #lastHeard: number;
  #lastSent: number;
  #lastBeat: number;
  /** When the acks that wait go out. */
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

  /** When a heartbeat is due: the server has heard nothing for an interval, or has had no reason to say anything. */
  get beatAt(): number {
    return Math.min(this.#lastSent, Math.max(this.#lastHeard, this.#lastBeat)) + this.#intervalMs;
  }

  /** When the server is taken for gone. */
  get silentAt(): number {
    return this.#lastHeard + this.#intervalMs * SILENT_INTERVALS_MAX;
  }
}
