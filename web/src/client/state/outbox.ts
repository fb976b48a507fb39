import { signal } from "@preact/signals";
import type { ClientEvents, SendMessageAck } from "@tidings/client";

import { journal } from "../local/journal.js";
import { client } from "../sdk.js";
import { acked, refused, withEntry, withoutEntry, type Outbox, type OutboxEntry } from "../store/outbox.js";
import { inbox } from "./inbox.js";
import { tell } from "./toasts.js";

/** The sends of this device that no timeline shows yet. */
export const outbox = signal<Outbox>([]);

/** Sends a text. It is written down before this returns. */
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

/** Tries a refused send again, as the same message. */
export function retry(entry: OutboxEntry): void {
  const { error: _, ...again } = entry;
  journal.write({ ...again, state: "queued" });
  dispatch({ ...again, state: "queued" });
}

/** Throws a refused send away. */
export function discard(clientMessageId: string): void {
  journal.remove(clientMessageId);
  outbox.value = withoutEntry(outbox.peek(), clientMessageId);
}

/** Brings back what was not sent when the page was last open. What the SDK has not kept in time goes out from here. */
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

/** Takes note that the server has a send. */
export function noteSent({ client_message_id: clientMessageId, sequence }: SendMessageAck): void {
  journal.remove(clientMessageId);
  outbox.value = acked(outbox.peek(), clientMessageId, sequence);
}

/** Takes note that a message of this user is in its timeline: its send has done its work. */
export function noteArrived(clientMessageId: string): void {
  journal.remove(clientMessageId);
  outbox.value = withoutEntry(outbox.peek(), clientMessageId);
}

/** Takes note that a send was refused for good. */
export function noteFailed({ clientMessageId, chatId, error }: ClientEvents["failed"]): void {
  if (!inbox.peek().has(chatId)) {
    // There is no place any more where it could be shown and tried again.
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
  // What becomes of it comes as an event, which also tells of sends from before a reload.
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
