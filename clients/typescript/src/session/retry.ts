import type { ErrorBody } from "../wire.js";
import { pause, retryAfterMs, type Random } from "./backoff.js";

/** Most retries of a request that failed with an internal error. */
const TRIES_AFTER_DEFECT = 3;

/**
 * The reaction to a refused request: retry after this many milliseconds, with a new token, on a new connection, or not
 * at all.
 */
export type Verdict = number | "needsRefresh" | "needsReconnect" | "giveUp";

/**
 * The column "retry" of the contract's error table, for a request that was refused this many times. An unknown code is
 * final.
 */
export function judge(error: ErrorBody, refusals: number, random: Random): Verdict {
  const asked = retryAfterMs(error);
  const grown = pause(refusals, random);
  switch (error.code) {
    case "UNAUTHORIZED":
      return "needsRefresh";
    case "SLOW_CONSUMER":
      return "needsReconnect";
    case "RATE_LIMITED":
      return asked ?? grown;
    case "INTERNAL_ERROR":
      return refusals > TRIES_AFTER_DEFECT ? "giveUp" : grown;
    case "SERVER_BUSY":
    case "SERVICE_UNAVAILABLE":
      return Math.max(grown, asked ?? 0);
    default:
      return "giveUp";
  }
}
