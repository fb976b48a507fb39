import { signal } from "@preact/signals";
import type { ClientEvents, SendMessageAck } from "@tidings/client";

import { journal } from "../local/journal.js";
import { client } from "../sdk.js";
import { refusedSendInWords } from "../store/failures.js";
import { acked, refused, withEntry, withoutEntry, type Outbox, type OutboxEntry } from "../store/outbox.js";
import { unblock } from "./blocks.js";
import { inbox } from "./inbox.js";
import { nameOf } from "./names.js";
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
  const { error: _, remedy: __, ...again } = entry;
  journal.write({ ...again, state: "queued" });
  dispatch({ ...again, state: "queued" });
}

/** Removes the block that a send was refused for, and retries the send. */
export async function unblockAndRetry(entry: OutboxEntry): Promise<void> {
  const other = otherMember(entry.chatId);
  if (other === undefined) return;
  await unblock(other);
  retry(entry);
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
  const other = otherMember(chatId);
  const why = refusedSendInWords(error, other ? nameOf(other) : "this person");
  outbox.value = refused(outbox.peek(), clientMessageId, why);
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

/** The id of the other member of a direct chat. */
export function otherMember(chatId: string): string | undefined {
  const chat = inbox.peek().get(chatId);
  return chat?.type === "direct" ? chat.other_participants[0]?.user_id : undefined;
}
