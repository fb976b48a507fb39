import { detailsOf } from "../errors.js";
import type { ErrorBody } from "../wire.js";

/** A number from 0 up to 1. Pauses are spread with it, so a test can repeat a run by giving the same numbers. */
export type Random = () => number;

/** The longest pause that a server can ask for; a longer one is taken for a mistake. */
export const SERVER_DELAY_MAX_MS = 15 * 60_000;

/** The pause after a first failure. */
export const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 30_000;

/** How long to wait after so many failures in a row, the last one included: doubles to 30 s, give or take a quarter. */
export function pause(failures: number, random: Random, firstMs = FIRST_PAUSE_MS): number {
  const doublings = Math.min(Math.max(failures - 1, 0), 16);
  return Math.min(firstMs * 2 ** doublings, LONGEST_PAUSE_MS) * (0.75 + 0.5 * random());
}

/** The pause that an error asks for itself. */
export function retryAfterMs(error: ErrorBody): number | undefined {
  const seconds = detailsOf(error)["retry_after_seconds"];
  return typeof seconds === "number" && seconds >= 0 ? Math.min(seconds * 1000, SERVER_DELAY_MAX_MS) : undefined;
}
