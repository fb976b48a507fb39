import { useCallback, useEffect, useState } from "preact/hooks";

import { AdminError, get } from "./api";

/** What became of a question to the admin API. */
export type Answer<T> =
  | { state: "waiting" }
  | { state: "failed"; message: string; status: number }
  | { state: "answered"; value: T };

/**
 * Asks the admin API when a view comes up, and again when told to, or every so often. An answer stays until the next
 * one is there, so that nothing flickers.
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
