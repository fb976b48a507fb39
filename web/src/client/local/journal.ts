import type { OutboxEntry } from "../store/outbox.js";

const PREFIX = "tidings.send.";

/**
 * Sends that the server has not taken, written down in the same instant in which they leave the composer. The SDK keeps
 * its queue too, but a database answers later than a tab can be closed. Refused ones stay until they are tried again or
 * thrown away.
 */
export const journal = {
  write(entry: OutboxEntry): void {
    localStorage.setItem(PREFIX + entry.clientMessageId, JSON.stringify(entry));
  },

  remove(clientMessageId: string): void {
    localStorage.removeItem(PREFIX + clientMessageId);
  },

  /** All of them, oldest first. */
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
