import type { QueuedUpdate } from "@tidings/client";

import type { OutboxEntry } from "../store/outbox.js";

/** What every entry of a journal has. */
interface Entry {
  readonly clientMessageId: string;
  readonly queuedAt: number;
}

/**
 * Sends that the server has not accepted, stored synchronously when they leave the composer. The SDK stores its queue
 * too, but asynchronously, and the tab may be closed before that. Refused sends stay until they are retried or
 * discarded.
 */
export const journal = journalOf<OutboxEntry>("tidings.send.");

/** Updates of messages that the server has neither accepted nor refused, stored for the same reason. */
export const updateJournal = journalOf<QueuedUpdate>("tidings.update.");

function journalOf<T extends Entry>(prefix: string) {
  const keys = () => Object.keys(localStorage).filter((key) => key.startsWith(prefix));
  return {
    write(entry: T): void {
      localStorage.setItem(prefix + entry.clientMessageId, JSON.stringify(entry));
    },

    remove(clientMessageId: string): void {
      localStorage.removeItem(prefix + clientMessageId);
    },

    /** All entries, oldest first. */
    entries(): T[] {
      return keys()
        .map((key) => JSON.parse(localStorage.getItem(key) ?? "null") as T | null)
        .filter((entry) => entry !== null)
        .sort((a, b) => a.queuedAt - b.queuedAt);
    },

    clear(): void {
      keys().forEach((key) => localStorage.removeItem(key));
    },
  };
}
