import { signal } from "@preact/signals";
import type {
  ClientEvents,
  MessageUpdated,
  MessageWithStatus,
  Schemas,
  SendMessageAck,
  UpdateAction,
} from "@tidings/client";

import type { OpenEdit } from "../local/drafts.js";
import { updateJournal } from "../local/journal.js";
import { client } from "../sdk.js";
import { refusedUpdateInWords } from "../store/failures.js";
import { lastSegment, messageAt } from "../store/timeline.js";
import {
  ackedUpdate,
  lastEditable,
  pendingIn,
  toggleOf,
  withPending,
  withoutPending,
  withPendingUpdates,
  type PendingUpdate,
  type PendingUpdates,
  type Rules,
} from "../store/updates.js";
import { appendToDraft, editOf, writeEdit } from "./composing.js";
import { inbox } from "./inbox.js";
import { nameOf } from "./names.js";
import { otherMember } from "./outbox.js";
import { me } from "./session-state.js";
import { timelineOf } from "./timelines.js";
import { tell } from "./toasts.js";

/** The updates of this device that no timeline contains yet. */
export const updates = signal<PendingUpdates>([]);

/** How long after a send its author may change it, in seconds; 0 for no limit. Unknown until the server is asked. */
const windowSeconds = signal<number | undefined>(undefined);

/** Asks the server for its limits of updates. */
export async function loadUpdateLimits(): Promise<void> {
  windowSeconds.value = (await client.api.service()).limits.update_window_seconds;
}

/** What decides about the updates that the user may make in a chat now. */
export function rulesOf(chatId: string): Rules {
  const chat = inbox.value.get(chatId);
  return {
    myUserId: me.value?.user_id ?? "",
    chatType: chat?.type ?? "direct",
    myRole: chat?.my_membership.role ?? "member",
    windowSeconds: windowSeconds.value,
    now: Date.now(),
  };
}

/** Messages of a chat as they will be after the pending updates. */
export function withUpdatesOf(chatId: string, messages: readonly MessageWithStatus[]): readonly MessageWithStatus[] {
  return withPendingUpdates(messages, pendingIn(updates.value, chatId, timelineOf(chatId).value));
}

/** A message as it will be after the pending updates, if this device has it. */
export function shownMessage(chatId: string, sequence: number): MessageWithStatus | undefined {
  const message = messageAt(timelineOf(chatId).value, sequence);
  return message && withUpdatesOf(chatId, [message])[0];
}

/** The newest message of a chat that the user may edit. */
export function lastEditableIn(chatId: string): MessageWithStatus | undefined {
  const newest = lastSegment(timelineOf(chatId).peek())?.messages ?? [];
  return lastEditable(withUpdatesOf(chatId, newest), rulesOf(chatId));
}

/** Saves an edit, and ends it. The message keeps its content type and the metadata of applications. */
export function saveEdit(chatId: string, { sequence, text }: OpenEdit): void {
  const message = shownMessage(chatId, sequence);
  const content = text.trim();
  if (!message) {
    appendToDraft(chatId, content);
    tell("This device no longer has the message. The text of your edit is in the message field.", true);
  } else if (content !== message.content) {
    const { content_type: contentType, metadata } = message;
    add(chatId, sequence, { action: "edit", content, contentType, ...(metadata ? { metadata } : {}) });
  }
  writeEdit(chatId, undefined);
}

/** Deletes a message for everyone. */
export function remove({ chat_id, sequence }: MessageWithStatus): void {
  if (editOf(chat_id)?.sequence === sequence) writeEdit(chat_id, undefined);
  add(chat_id, sequence, { action: "delete" });
}

/** Adds a reaction of the user to a message, or removes it. */
export function toggleReaction(message: MessageWithStatus, reaction: string): void {
  add(message.chat_id, message.sequence, { action: toggleOf(message, reaction), reaction });
}

/** Most members who are listed by their reactions. */
const REACTORS_MAX = 500;

/** Loads the members who reacted to a message, up to a limit. */
export async function loadReactors({ chat_id, sequence }: MessageWithStatus): Promise<readonly Schemas["Reactor"][]> {
  const found: Schemas["Reactor"][] = [];
  let cursor: string | undefined;
  do {
    const { data, pagination } = await client.api.reactions(chat_id, sequence, {
      limit: 100,
      ...(cursor ? { cursor } : {}),
    });
    found.push(...data.members);
    cursor = pagination.has_more ? (pagination.next_cursor ?? undefined) : undefined;
  } while (cursor && found.length < REACTORS_MAX);
  return found;
}

/** Restores the pending updates of the last page. Those that the SDK had not stored in time come from the journal. */
export async function restoreUpdates(): Promise<void> {
  const queued = await client.queuedUpdates();
  for (const update of queued) updates.value = withPending(updates.peek(), update);
  const known = new Set(queued.map((update) => update.clientMessageId));
  for (const update of updateJournal.entries().filter(({ clientMessageId }) => !known.has(clientMessageId))) {
    dispatch(update);
  }
}

/** Forgets all pending updates. */
export function forgetUpdates(): void {
  updateJournal.clear();
  updates.value = [];
}

/** Marks an update as accepted by the server. Acknowledgements of sends change nothing. */
export function noteUpdateSent({ client_message_id: clientMessageId, sequence }: SendMessageAck): void {
  updateJournal.remove(clientMessageId);
  updates.value = ackedUpdate(updates.peek(), clientMessageId, sequence);
}

/** Removes a pending update after the timeline has applied it. */
export function noteUpdateArrived({ update }: MessageUpdated): void {
  if (update.client_message_id) forget(update.client_message_id);
}

/** Takes a refused update back, and tells why. Returns `false` if the failure is that of a send. */
export function noteUpdateFailed({ clientMessageId, chatId, error }: ClientEvents["failed"]): boolean {
  const refused = updates.peek().find((update) => update.clientMessageId === clientMessageId);
  forget(clientMessageId);
  if (!refused) return false;
  const other = otherMember(chatId);
  const why = refusedUpdateInWords(refused.action, error, other ? nameOf(other) : "this person");
  if (why === undefined) return true;
  // The text of a message that was deleted, or of a chat that is gone, does not stay on this device.
  const isThere = inbox.peek().has(chatId) && messageAt(timelineOf(chatId).peek(), refused.sequence) !== undefined;
  const isKept = refused.action === "edit" && isThere;
  if (isKept) appendToDraft(chatId, refused.content);
  tell(isKept ? `${why} Its text is in the message field.` : why, true);
  return true;
}

function add(chatId: string, sequence: number, action: UpdateAction): void {
  const update = { ...action, clientMessageId: crypto.randomUUID(), chatId, sequence, queuedAt: Date.now() };
  updateJournal.write(update);
  dispatch(update);
}

function dispatch(update: PendingUpdate): void {
  updates.value = withPending(updates.peek(), update);
  // The outcome arrives as an event, also for updates from before a reload.
  queue(update).acked.catch(() => {});
}

function queue(update: PendingUpdate) {
  const { chatId, sequence, clientMessageId } = update;
  switch (update.action) {
    case "edit": {
      const { content, contentType, metadata } = update;
      const options = { clientMessageId, ...(contentType ? { contentType } : {}), ...(metadata ? { metadata } : {}) };
      return client.editMessage(chatId, sequence, content, options);
    }
    case "delete":
      return client.deleteMessage(chatId, sequence, { clientMessageId });
    case "react":
      return client.addReaction(chatId, sequence, update.reaction, { clientMessageId });
    case "unreact":
      return client.removeReaction(chatId, sequence, update.reaction, { clientMessageId });
  }
}

function forget(clientMessageId: string): void {
  updateJournal.remove(clientMessageId);
  updates.value = withoutPending(updates.peek(), clientMessageId);
}
