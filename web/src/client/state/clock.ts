import { signal } from "@preact/signals";

/** The time for words such as "5 minutes ago": it moves twice a minute. */
export const now = signal(Date.now());

setInterval(() => {
  now.value = Date.now();
}, 30_000);
