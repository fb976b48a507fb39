import type { ClientEvent } from "../events.js";
import type { Position } from "../storage/storage.js";
import type { Frames } from "../wire.js";

/** An entry of a chat, a message or an update of one, as the event that hands it out. */
export type Entry = Extract<ClientEvent, { name: "message" | "updated" }>;

/** Whether an event hands out an entry of a chat. */
export function isEntry(event: ClientEvent): event is Entry {
  return event.name === "message" || event.name === "updated";
}

/** The position of a device that has processed this entry. */
export function positionOf(entry: Entry): Position {
  const { chat_id: chatId, sequence } = entry.name === "message" ? entry.detail : entry.detail.update;
  return { chatId, sequence };
}

/** The entries of a sync page, ascending. Each update gets its message from the page. */
export function entriesOf(page: Frames["SyncResponse"]): Entry[] {
  const { messages, updates = [], updated_messages: updatedMessages = [] } = page;
  const current = new Map([...messages, ...updatedMessages].map((message) => [message.sequence, message]));
  const entries = messages.map((detail): Entry => ({ name: "message", detail }));
  for (const update of updates) {
    const message = current.get(update.target_sequence);
    entries.push({ name: "updated", detail: message === undefined ? { update } : { update, message } });
  }
  return entries.sort((a, b) => positionOf(a).sequence - positionOf(b).sequence);
}
