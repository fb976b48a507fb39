import { detailsOf } from "../errors.js";
import type { ErrorBody } from "../wire.js";

/** A number from 0 up to 1. It adds jitter to delays; a test can repeat a run with the same numbers. */
export type Random = () => number;

/** Longest delay that a server can request; a longer one is capped. */
export const SERVER_DELAY_MAX_MS = 15 * 60_000;

/** Delay after the first failure. */
export const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 30_000;

/** The delay after this many failures in a row, including the last one: doubles up to 30 s, with a jitter of ±25 %. */
export function pause(failures: number, random: Random, firstMs = FIRST_PAUSE_MS): number {
  const doublings = Math.min(Math.max(failures - 1, 0), 16);
  return Math.min(firstMs * 2 ** doublings, LONGEST_PAUSE_MS) * (0.75 + 0.5 * random());
}

/** The delay that an error requests with `retry_after_seconds`. */
export function retryAfterMs(error: ErrorBody): number | undefined {
  const seconds = detailsOf(error)["retry_after_seconds"];
  return typeof seconds === "number" && seconds >= 0 ? Math.min(seconds * 1000, SERVER_DELAY_MAX_MS) : undefined;
}
