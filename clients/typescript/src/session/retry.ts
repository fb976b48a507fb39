import type { ErrorBody } from "../wire.js";
import { pause, retryAfterMs, type Random } from "./backoff.js";

/** How often a request is repeated whose failure may be a defect. */
const TRIES_AFTER_DEFECT = 3;

/** What to do about a refused request: try again after so many milliseconds, or otherwise, or not at all. */
export type Verdict = number | "needsRefresh" | "needsReconnect" | "giveUp";

/** The contract's column "retry", for a request that was refused so many times. A code that is unknown is final. */
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
