import { signal } from "@preact/signals";
import type { ClientEvents, SendMessageAck } from "@tidings/client";

import { journal } from "../local/journal.js";
import { client } from "../sdk.js";
import { acked, refused, withEntry, withoutEntry, type Outbox, type OutboxEntry } from "../store/outbox.js";
import { inbox } from "./inbox.js";
import { tell } from "./toasts.js";

/** The sends of this device that no timeline shows yet. */
export const outbox = signal<Outbox>([]);

/** Sends a text. It is in the journal before this returns. */
export function send(chatId: string, content: string): void {
  const ttlSeconds = inbox.peek().get(chatId)?.message_ttl_seconds;
  const entry: OutboxEntry = {
    clientMessageId: crypto.randomUUID(),
    chatId,
    content,
    ...(ttlSeconds ? { ttlSeconds } : {}),
    queuedAt: Date.now(),
    state: "queued",
  };
  journal.write(entry);
  dispatch(entry);
}

/** Retries a refused send, as the same message. */
export function retry(entry: OutboxEntry): void {
  const { error: _, ...again } = entry;
  journal.write({ ...again, state: "queued" });
  dispatch({ ...again, state: "queued" });
}

/** Discards a refused send. */
export function discard(clientMessageId: string): void {
  journal.remove(clientMessageId);
  outbox.value = withoutEntry(outbox.peek(), clientMessageId);
}

/**
 * Restores the unsent messages of the last page. Entries that the SDK had not stored in time are sent from the journal.
 */
export async function restoreOutbox(): Promise<void> {
  const queued = await client.queued();
  for (const { contentType: _, ...send } of queued) {
    outbox.value = withEntry(outbox.peek(), { ...send, state: "queued" });
  }
  const known = new Set(queued.map((send) => send.clientMessageId));
  for (const entry of journal.entries().filter(({ clientMessageId }) => !known.has(clientMessageId))) {
    if (entry.state === "failed") outbox.value = withEntry(outbox.peek(), entry);
    else dispatch(entry);
  }
}

/** Marks a send as accepted by the server. */
export function noteSent({ client_message_id: clientMessageId, sequence }: SendMessageAck): void {
  journal.remove(clientMessageId);
  outbox.value = acked(outbox.peek(), clientMessageId, sequence);
}

/** Removes a send after its message has arrived in the timeline. */
export function noteArrived(clientMessageId: string): void {
  journal.remove(clientMessageId);
  outbox.value = withoutEntry(outbox.peek(), clientMessageId);
}

/** Marks a send as permanently refused. */
export function noteFailed({ clientMessageId, chatId, error }: ClientEvents["failed"]): void {
  if (!inbox.peek().has(chatId)) {
    // The chat is gone, so the send can be neither shown nor retried.
    discard(clientMessageId);
    tell("A message was not sent: you are no longer a member of its chat.", true);
    return;
  }
  outbox.value = refused(outbox.peek(), clientMessageId, sendErrorInWords(error.code));
  const entry = outbox.peek().find((one) => one.clientMessageId === clientMessageId);
  if (entry) journal.write(entry);
}

function dispatch(entry: OutboxEntry): void {
  outbox.value = withEntry(outbox.peek(), entry);
  const { chatId, content, clientMessageId, ttlSeconds } = entry;
  const options = { clientMessageId, ...(ttlSeconds ? { ttlSeconds } : {}) };
  // The outcome arrives as an event, also for sends from before a reload.
  client.send(chatId, content, options).acked.catch(() => {});
}

function sendErrorInWords(code: string): string {
  switch (code) {
    case "NOT_A_MEMBER":
      return "You are not a member of this chat any more.";
    case "NOT_FOUND":
      return "This chat does not exist any more.";
    case "MESSAGE_TOO_LARGE":
      return "This message is too long.";
    default:
      return "The server has refused this message.";
  }
}
