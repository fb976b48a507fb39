import { effect, signal } from "@preact/signals";
import type { Presence, TypingIndicator } from "@tidings/client";

import { client } from "../sdk.js";
import { chats } from "./inbox.js";

/** How long somebody is shown as typing without another word of it: the server ends it after 10 s. */
const TYPING_MS = 12_000;
/** A connection watches 1000 users at the most; group members come on top of these. */
const WATCHED_MAX = 300;
const GATHER_MS = 200;

/** What is known of who is online, by user id. */
export const presences = signal<ReadonlyMap<string, Presence>>(new Map());

/** Who types where: user ids by chat id. */
export const typing = signal<ReadonlyMap<string, ReadonlySet<string>>>(new Map());

const typingTimers = new Map<string, ReturnType<typeof setTimeout>>();
let watched: string[] = [];

/** Takes note of who came or went. */
export function notePresences(told: readonly Presence[]): void {
  presences.value = new Map([...presences.peek(), ...told.map((presence) => [presence.user_id, presence] as const)]);
}

/** Forgets who is online: without a connection nobody can tell. */
export function forgetPresences(): void {
  presences.value = new Map();
  typing.value = new Map();
}

/** Forgets whom the user has watched. */
export function forgetPeople(): void {
  client.unwatch(watched);
  watched = [];
  forgetPresences();
}

/** Takes note of who types. */
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

/** Keeps watching the other half of every direct chat. */
export function watchInbox(): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  effect(() => {
    const direct = chats.value.filter((chat) => chat.type === "direct").slice(0, WATCHED_MAX);
    const others = direct.flatMap((chat) => chat.other_participants.map((user) => user.user_id));
    // Chats come many at a time when the page opens, and one question is enough for them.
    clearTimeout(timer);
    timer = setTimeout(() => watch(others), GATHER_MS);
  });
}

/** Watches others too, for a while: until what is returned is called. */
export function watchAlso(userIds: readonly string[]): () => void {
  const others = userIds.filter((userId) => !watched.includes(userId)).slice(0, WATCHED_MAX);
  client.watch(others);
  return () => client.unwatch(others);
}

function watch(userIds: string[]): void {
  watched = userIds;
  client.watch(userIds);
}
