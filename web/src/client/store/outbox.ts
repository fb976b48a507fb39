import type { Remedy } from "./failures.js";
import { intervalAt } from "./intervals.js";
import type { Timeline } from "./timeline.js";

/** A send of this device that is not in the timeline yet. */
export interface OutboxEntry {
  readonly clientMessageId: string;
  readonly chatId: string;
  readonly content: string;
  /** Lifetime of the message: that of its chat at the time of writing. A retry has to use the same. */
  readonly ttlSeconds?: number;
  readonly queuedAt: number;
  readonly state: "queued" | "sent" | "failed";
  /** Its sequence in the chat, once the server has accepted it. */
  readonly sequence?: number;
  /** The reason of a refusal, as a text for users. */
  readonly error?: string;
  /** A remedy for the refusal, if it is not a retry. */
  readonly remedy?: Remedy;
}

/** The sends of this device, in the order they were written. */
export type Outbox = readonly OutboxEntry[];

/** Adds a send, or replaces the one with the same id. */
export function withEntry(outbox: Outbox, entry: OutboxEntry): Outbox {
  const place = outbox.findIndex(({ clientMessageId }) => clientMessageId === entry.clientMessageId);
  if (place !== -1) return outbox.with(place, entry);
  return [...outbox, entry].sort((a, b) => a.queuedAt - b.queuedAt);
}

/** Marks a send as accepted by the server. */
export function acked(outbox: Outbox, clientMessageId: string, sequence: number): Outbox {
  return changed(outbox, clientMessageId, (entry) => ({ ...entry, state: "sent", sequence }));
}

/** Marks a send as permanently refused. */
export function refused(
  outbox: Outbox,
  clientMessageId: string,
  why: { readonly text: string; readonly remedy?: Remedy },
): Outbox {
  const { text: error, remedy } = why;
  return changed(outbox, clientMessageId, ({ remedy: _, ...entry }) => ({
    ...entry,
    state: "failed",
    error,
    ...(remedy ? { remedy } : {}),
  }));
}

/** Removes a send. */
export function withoutEntry(outbox: Outbox, clientMessageId: string): Outbox {
  return outbox.filter((entry) => entry.clientMessageId !== clientMessageId);
}

/** The sends of a chat that its timeline does not show: a message shows once, as a send or as a message. */
export function pending(
  outbox: Outbox,
  chatId: string,
  timeline: Pick<Timeline, "messages" | "covered">,
): OutboxEntry[] {
  const ids = new Set(timeline.messages.map((message) => message.client_message_id));
  return outbox.filter(
    (entry) =>
      entry.chatId === chatId &&
      !ids.has(entry.clientMessageId) &&
      // The message of a covered sequence is shown, or was deleted meanwhile.
      !(entry.sequence !== undefined && intervalAt(timeline.covered, entry.sequence)),
  );
}

function changed(outbox: Outbox, clientMessageId: string, change: (entry: OutboxEntry) => OutboxEntry): Outbox {
  return outbox.map((entry) => (entry.clientMessageId === clientMessageId ? change(entry) : entry));
}
