import { signal } from "@preact/signals";
import type { ChatSummary, ChatUpdated, Member } from "@tidings/client";

import { noteStorage } from "../local/notes.js";
import { changeInWords, withNote, type Note } from "../store/notes.js";
import { duration } from "../store/words.js";
import { nameOf } from "./names.js";
import { me } from "./session-state.js";

/** The notes of the chats that were shown or changed, by chat id. */
const notes = signal<ReadonlyMap<string, readonly Note[]>>(new Map());

/** The changes of a chat that this device has seen, oldest first. */
export function notesOf(chatId: string): readonly Note[] {
  return notes.value.get(chatId) ?? noteStorage.read(chatId);
}

/** Adds a line for a change of a group, given its state after the change. */
export function noteChange(
  { chat_id: chatId, change, user_id: userId }: ChatUpdated,
  chat: ChatSummary,
  members: readonly Member[],
): void {
  const isMe = userId === me.peek()?.user_id;
  const text = changeInWords(change, {
    who: isMe ? "You" : nameOf(userId ?? ""),
    isMe,
    role: members.find((member) => member.user_id === userId)?.role,
    chatName: chat.name ?? "",
    lifetime: chat.message_ttl_seconds ? duration(chat.message_ttl_seconds) : undefined,
  });
  if (text === undefined) return;
  const note = { key: `note ${crypto.randomUUID()}`, at: Date.now(), after: chat.head_sequence, text };
  const next = withNote(notesOf(chatId), note);
  noteStorage.write(chatId, next);
  notes.value = new Map(notes.peek()).set(chatId, next);
}

/** Forgets the changes of a chat. */
export function forgetNotes(chatId: string): void {
  noteStorage.remove(chatId);
  const left = new Map(notes.peek());
  left.delete(chatId);
  notes.value = left;
}

/** Forgets all changes. */
export function forgetAllNotes(): void {
  noteStorage.clear();
  notes.value = new Map();
}
