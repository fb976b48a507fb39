import { effect, signal } from "@preact/signals";
import type { Presence, TypingIndicator } from "@tidings/client";

import { client } from "../sdk.js";
import { chats } from "./inbox.js";

/** Time after which a typing indicator is hidden without an update; the server ends typing after 10 s. */
const TYPING_MS = 12_000;
/** Most subscriptions for direct chats. A connection can have 1000; those for group members are added to these. */
const WATCHED_MAX = 300;
const GATHER_MS = 200;

/** The known presences, by user id. */
export const presences = signal<ReadonlyMap<string, Presence>>(new Map());

/** The typing users: user ids by chat id. */
export const typing = signal<ReadonlyMap<string, ReadonlySet<string>>>(new Map());

const typingTimers = new Map<string, ReturnType<typeof setTimeout>>();
let watched: string[] = [];

/** Applies presence changes. */
export function notePresences(told: readonly Presence[]): void {
  presences.value = new Map([...presences.peek(), ...told.map((presence) => [presence.user_id, presence] as const)]);
}

/** Clears all presences: they are unknown without a connection. */
export function forgetPresences(): void {
  presences.value = new Map();
  typing.value = new Map();
}

/** Ends all presence subscriptions. */
export function forgetPeople(): void {
  client.unwatch(watched);
  watched = [];
  forgetPresences();
}

/** Applies a typing indicator. */
export function noteTyping({ chat_id: chatId, user_id: userId, is_typing: isTyping }: TypingIndicator): void {
  const key = `${chatId} ${userId}`;
  clearTimeout(typingTimers.get(key));
  typingTimers.delete(key);
  const inChat = new Set(typing.peek().get(chatId));
  if (isTyping) {
    inChat.add(userId);
    const stop = { chat_id: chatId, user_id: userId, is_typing: false };
    typingTimers.set(
      key,
      setTimeout(() => noteTyping(stop), TYPING_MS),
    );
  } else {
    inChat.delete(userId);
  }
  typing.value = new Map(typing.peek()).set(chatId, inChat);
}

/** Keeps a presence subscription for the other member of every direct chat. */
export function watchInbox(): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  effect(() => {
    const direct = chats.value.filter((chat) => chat.type === "direct").slice(0, WATCHED_MAX);
    const others = direct.flatMap((chat) => chat.other_participants.map((user) => user.user_id));
    // Many chats arrive at once when the page opens; debounce them into one subscription.
    clearTimeout(timer);
    timer = setTimeout(() => watch(others), GATHER_MS);
  });
}

/** Subscribes to further users until the returned function is called. */
export function watchAlso(userIds: readonly string[]): () => void {
  const others = userIds.filter((userId) => !watched.includes(userId)).slice(0, WATCHED_MAX);
  client.watch(others);
  return () => client.unwatch(others);
}

function watch(userIds: string[]): void {
  watched = userIds;
  client.watch(userIds);
}
