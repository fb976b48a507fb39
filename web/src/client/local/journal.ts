import type { OutboxEntry } from "../store/outbox.js";

const PREFIX = "tidings.send.";

/**
 * Sends that the server has not accepted, stored synchronously when they leave the composer. The SDK stores its queue
 * too, but asynchronously, and the tab may be closed before that. Refused sends stay until they are retried or
 * discarded.
 */
export const journal = {
  write(entry: OutboxEntry): void {
    localStorage.setItem(PREFIX + entry.clientMessageId, JSON.stringify(entry));
  },

  remove(clientMessageId: string): void {
    localStorage.removeItem(PREFIX + clientMessageId);
  },

  /** All entries, oldest first. */
  entries(): OutboxEntry[] {
    return keys()
      .map((key) => JSON.parse(localStorage.getItem(key) ?? "null") as OutboxEntry | null)
      .filter((entry) => entry !== null)
      .sort((a, b) => a.queuedAt - b.queuedAt);
  },

  clear(): void {
    keys().forEach((key) => localStorage.removeItem(key));
  },
};

function keys(): string[] {
  return Object.keys(localStorage).filter((key) => key.startsWith(PREFIX));
}
