import { signal } from "@preact/signals";

import type { PulseAnswer, Sample } from "./answers";
import { AdminError, get, token } from "./api";
import { merge } from "./series";

/** The polling interval: as often as the server measures. */
const INTERVAL_MS = 2000;

/** The recent samples of the server. */
export const samples = signal<Sample[]>([]);
/** Why the newest samples are missing, if they are. */
export const pulseFailure = signal<string | null>(null);

/** Polls for new samples until it is stopped, while the page is visible. */
export function followPulse(): () => void {
  let stopped = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const ask = async () => {
    if (!document.hidden && token.value !== null) await refresh();
    if (!stopped) timer = setTimeout(ask, INTERVAL_MS);
  };
  void ask();
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}

async function refresh(): Promise<void> {
  const newest = samples.value.at(-1)?.at;
  try {
    const query = newest === undefined ? "" : `?since=${encodeURIComponent(newest)}`;
    const answer = await get<PulseAnswer>(`/pulse${query}`);
    samples.value = merge(samples.value, answer.samples);
    pulseFailure.value = null;
  } catch (error) {
    pulseFailure.value = error instanceof AdminError ? error.message : String(error);
  }
}
