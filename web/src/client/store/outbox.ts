import type { MessageWithStatus } from "@tidings/client";

/** A send of this device that is not in the timeline yet. */
export interface OutboxEntry {
  readonly clientMessageId: string;
  readonly chatId: string;
  readonly content: string;
  /** How long the message lives: what its chat said when it was written. A second try has to say the same. */
  readonly ttlSeconds?: number;
  readonly queuedAt: number;
  readonly state: "queued" | "sent" | "failed";
  /** Its place in the chat, once the server has taken it. */
  readonly sequence?: number;
  /** Why it was refused, in words for people. */
  readonly error?: string;
}

/** The sends of this device, in the order they were written. */
export type Outbox = readonly OutboxEntry[];

/** Adds a send, or replaces the one of the same id in its place. */
export function withEntry(outbox: Outbox, entry: OutboxEntry): Outbox {
  const place = outbox.findIndex(({ clientMessageId }) => clientMessageId === entry.clientMessageId);
  if (place !== -1) return outbox.with(place, entry);
  return [...outbox, entry].sort((a, b) => a.queuedAt - b.queuedAt);
}

/** Takes note that the server has a send. */
export function acked(outbox: Outbox, clientMessageId: string, sequence: number): Outbox {
  return changed(outbox, clientMessageId, (entry) => ({ ...entry, state: "sent", sequence }));
}

/** Takes note that the server has refused a send for good. */
export function refused(outbox: Outbox, clientMessageId: string, error: string): Outbox {
  return changed(outbox, clientMessageId, (entry) => ({ ...entry, state: "failed", error }));
}

/** Takes a send away. */
export function withoutEntry(outbox: Outbox, clientMessageId: string): Outbox {
  return outbox.filter((entry) => entry.clientMessageId !== clientMessageId);
}

/** The sends of a chat that its timeline does not show: a message shows once, as a send or as what became of it. */
export function pending(outbox: Outbox, chatId: string, messages: readonly MessageWithStatus[]): OutboxEntry[] {
  const ids = new Set(messages.map((message) => message.client_message_id));
  const sequences = new Set(messages.map((message) => message.sequence));
  return outbox.filter(
    (entry) =>
      entry.chatId === chatId &&
      !ids.has(entry.clientMessageId) &&
      !(entry.sequence !== undefined && sequences.has(entry.sequence)),
  );
}

function changed(outbox: Outbox, clientMessageId: string, change: (entry: OutboxEntry) => OutboxEntry): Outbox {
  return outbox.map((entry) => (entry.clientMessageId === clientMessageId ? change(entry) : entry));
}
