import { computed, signal } from "@preact/signals";
import type { ChatSummary, MessageUpdated, MessageWithStatus } from "@tidings/client";

import { cache } from "../local/cache.js";
import { client } from "../sdk.js";
import { newestFirst, withChats, withPush, withRead, withUpdate, type Inbox } from "../store/inbox.js";
import { meet } from "./names.js";

const PAGE = 100;

/** The chats of the user, by id. */
export const inbox = signal<Inbox>(new Map());

/** Whether the inbox is known, from the server or from the cache. */
export const isInboxKnown = signal(false);

/** The chats, newest activity first. */
export const chats = computed(() => newestFirst(inbox.value));

/** Unread messages in all chats that are not muted. */
export const unreadTotal = computed(() =>
  chats.value.filter((chat) => !chat.my_membership.muted_until).reduce((sum, chat) => sum + chat.unread_count, 0),
);

/** Restores the inbox from the cache. */
export async function restoreInbox(): Promise<void> {
  const kept = await cache.chats();
  meet(kept.flatMap((chat) => chat.other_participants));
  inbox.value = withChats(inbox.peek(), kept);
  isInboxKnown.value = kept.length > 0;
}

/** Loads the whole inbox from the server. Chats that are missing in it are removed. */
export async function refreshInbox(): Promise<void> {
  const before = new Set(inbox.peek().keys());
  const found: ChatSummary[] = [];
  let cursor: string | undefined;
  do {
    const { data, pagination } = await client.api.chats({ limit: PAGE, ...(cursor ? { cursor } : {}) });
    found.push(...data.chats);
    cursor = pagination.has_more ? (pagination.next_cursor ?? undefined) : undefined;
  } while (cursor);
  meet(found.flatMap((chat) => chat.other_participants));
  const present = new Set(found.map((chat) => chat.chat_id));
  // A chat that was added while the pages were loading is in none of them, and stays.
  const gone = [...before].filter((chatId) => !present.has(chatId));
  await Promise.all(gone.map(removeChat));
  await show(withChats(inbox.peek(), found));
  isInboxKnown.value = true;
}

/** Applies the server's state of one chat. */
export async function putChat(chat: ChatSummary): Promise<void> {
  meet(chat.other_participants);
  await show(withChats(inbox.peek(), [chat]));
}

/** Applies a pushed message. An unknown chat is loaded from the server. */
export async function pushToInbox(message: MessageWithStatus, myUserId: string): Promise<void> {
  if (inbox.peek().has(message.chat_id)) await show(withPush(inbox.peek(), message, myUserId));
  else await putChat(await client.api.chat(message.chat_id));
}

/** Applies an update of a message. `last` is the last message after it, if this device knows it. */
export async function updateInInbox(updated: MessageUpdated, last: MessageWithStatus | undefined): Promise<void> {
  const { chat_id: chatId } = updated.update;
  if (inbox.peek().has(chatId)) await show(withUpdate(inbox.peek(), updated, last));
  else await putChat(await client.api.chat(chatId));
}

/** Applies the user's read watermark of a chat. */
export async function readUpTo(chatId: string, sequence: number, unreadAbove: number | undefined): Promise<void> {
  await show(withRead(inbox.peek(), chatId, sequence, unreadAbove));
}

/** Removes a chat that the user is no longer a member of. */
export async function removeChat(chatId: string): Promise<void> {
  const next = new Map(inbox.peek());
  next.delete(chatId);
  inbox.value = next;
  await cache.forgetChat(chatId);
}

/** Shows an inbox and caches the changes. */
async function show(next: Inbox): Promise<void> {
  const changed = [...next.values()].filter((chat) => inbox.peek().get(chat.chat_id) !== chat);
  inbox.value = next;
  await cache.keepChats(changed);
}
