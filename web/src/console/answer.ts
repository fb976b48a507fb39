import { useCallback, useEffect, useState } from "preact/hooks";

import { AdminError, get } from "./api";

/** The state of a request to the admin API. */
export type Answer<T> =
  | { state: "waiting" }
  | { state: "failed"; message: string; status: number }
  | { state: "answered"; value: T };

/**
 * Requests data from the admin API when a view is mounted, on demand, and periodically. The last response stays until
 * the next one arrives, so that the view does not flicker.
 */
export function useAnswer<T>(path: string, everyMs?: number): [Answer<T>, () => void] {
  const [answer, setAnswer] = useState<Answer<T>>({ state: "waiting" });
  const [asked, setAsked] = useState(0);

  useEffect(() => setAnswer({ state: "waiting" }), [path]);
  useEffect(() => {
    let outdated = false;
    get<T>(path).then(
      (value) => outdated || setAnswer({ state: "answered", value }),
      (error: unknown) => outdated || setAnswer(failure(error)),
    );
    return () => {
      outdated = true;
    };
  }, [path, asked]);
  useEffect(() => {
    if (everyMs === undefined) return undefined;
    const timer = setInterval(() => document.hidden || setAsked((count) => count + 1), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);

  return [answer, useCallback(() => setAsked((count) => count + 1), [])];
}

function failure(error: unknown): { state: "failed"; message: string; status: number } {
  if (error instanceof AdminError) return { state: "failed", message: error.message, status: error.status };
  return { state: "failed", message: String(error), status: 0 };
}
