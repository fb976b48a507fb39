import { computed, signal } from "@preact/signals";
import type { ChatSummary, MessageWithStatus } from "@tidings/client";

import { cache } from "../local/cache.js";
import { client } from "../sdk.js";
import { newestFirst, withChats, withPush, withRead, type Inbox } from "../store/inbox.js";
import { meet } from "./names.js";

const PAGE = 100;

/** The chats of the user, by id. */
export const inbox = signal<Inbox>(new Map());

/** Whether it is known what is in the inbox, from the server or from the last time. */
export const isInboxKnown = signal(false);

/** The chats, newest activity first. */
export const chats = computed(() => newestFirst(inbox.value));

/** Unread messages in all chats that are not muted. */
export const unreadTotal = computed(() =>
  chats.value.filter((chat) => !chat.my_membership.muted_until).reduce((sum, chat) => sum + chat.unread_count, 0),
);

/** Shows what the page had when it was last open. */
export async function restoreInbox(): Promise<void> {
  const kept = await cache.chats();
  meet(kept.flatMap((chat) => chat.other_participants));
  inbox.value = withChats(inbox.peek(), kept);
  isInboxKnown.value = kept.length > 0;
}

/** Reads the whole inbox from the server. Chats that are no longer in it are gone. */
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
  // One that came while the pages were read is in none of them, and stays.
  const gone = [...before].filter((chatId) => !present.has(chatId));
  await Promise.all(gone.map(removeChat));
  await show(withChats(inbox.peek(), found));
  isInboxKnown.value = true;
}

/** Takes what the server says of one chat. */
export async function putChat(chat: ChatSummary): Promise<void> {
  meet(chat.other_participants);
  await show(withChats(inbox.peek(), [chat]));
}

/** Takes a message that was pushed. The chat of one that is new to this device is asked for. */
export async function pushToInbox(message: MessageWithStatus, myUserId: string): Promise<void> {
  if (inbox.peek().has(message.chat_id)) await show(withPush(inbox.peek(), message, myUserId));
  else await putChat(await client.api.chat(message.chat_id));
}

/** Takes how far the user has read a chat. */
export async function readUpTo(chatId: string, sequence: number, unreadAbove: number | undefined): Promise<void> {
  await show(withRead(inbox.peek(), chatId, sequence, unreadAbove));
}

/** Takes a chat out that is no longer the user's. */
export async function removeChat(chatId: string): Promise<void> {
  const next = new Map(inbox.peek());
  next.delete(chatId);
  inbox.value = next;
  await cache.forgetChat(chatId);
}

/** Shows an inbox and keeps what has changed in it. */
async function show(next: Inbox): Promise<void> {
  const changed = [...next.values()].filter((chat) => inbox.peek().get(chat.chat_id) !== chat);
  inbox.value = next;
  await cache.keepChats(changed);
}
