import { signal } from "@preact/signals";
import type { ChatDetails, ChatUpdated, Member } from "@tidings/client";

import { client } from "../sdk.js";
import { inbox, putChat, removeChat } from "./inbox.js";
import { goInstead, openChatId } from "./navigation.js";
import { meet } from "./names.js";
import { me } from "./session-state.js";
import { tell } from "./toasts.js";

/** The members of chats that were opened, by chat id. */
export const members = signal<ReadonlyMap<string, readonly Member[]>>(new Map());

/** Asks for a chat with its members. */
export async function loadChat(chatId: string): Promise<void> {
  await note(await client.api.chat(chatId));
}

/** Opens the chat with somebody; there is one, however often it is opened. */
export async function openDirectChat(userId: string): Promise<string> {
  const chat = await client.api.createChat({ type: "direct", member_ids: [userId] });
  await note(chat);
  return chat.chat_id;
}

/** Makes a group. The key is the same on every try, so that one that seemed to fail makes no second group. */
export async function createGroup(name: string, memberIds: string[], idempotencyKey: string): Promise<string> {
  const chat = await client.api.createChat({ type: "group", name, member_ids: memberIds }, idempotencyKey);
  await note(chat);
  return chat.chat_id;
}

/** Renames a group. */
export async function rename(chatId: string, name: string): Promise<void> {
  await note(await client.api.updateChat(chatId, { name }));
}

/** Changes how long messages live that are sent from now on; `null` is for ever. */
export async function changeTtl(chatId: string, seconds: number | null): Promise<void> {
  await note(await client.api.updateChat(chatId, { message_ttl_seconds: seconds }));
}

/** Adds somebody to a group. */
export async function addMember(chatId: string, userId: string): Promise<void> {
  await client.api.addMember(chatId, { user_id: userId });
  await loadChat(chatId);
}

/** Takes somebody out of a group. */
export async function removeMember(chatId: string, userId: string): Promise<void> {
  await client.api.removeMember(chatId, userId);
  await loadChat(chatId);
}

/** Changes what somebody may do in a group; `owner` hands it over. */
export async function changeRole(chatId: string, userId: string, role: Member["role"]): Promise<void> {
  await client.api.changeRole(chatId, userId, role);
  await loadChat(chatId);
}

/** Leaves a group. */
export async function leave(chatId: string): Promise<void> {
  await client.api.leave(chatId);
  await noteGone(chatId);
}

/** Mutes a chat, for ever unless a time is given. */
export async function mute(chatId: string, seconds?: number): Promise<void> {
  await client.api.mute(chatId, seconds);
  await loadChat(chatId);
}

/** Ends a mute. */
export async function unmute(chatId: string): Promise<void> {
  await client.api.unmute(chatId);
  await loadChat(chatId);
}

/** Takes note of a change that the server tells of. */
export async function noteUpdated({ chat_id: chatId, change, user_id: userId }: ChatUpdated): Promise<void> {
  if (change === "member_removed" && userId === me.peek()?.user_id) await noteGone(chatId);
  else await loadChat(chatId);
}

/** Takes note that a chat is no longer the user's. */
export async function noteGone(chatId: string): Promise<void> {
  if (!inbox.peek().has(chatId)) return;
  await removeChat(chatId);
  if (openChatId() === chatId) {
    goInstead({ at: "inbox" });
    tell("You are no longer a member of this chat.");
  }
}

async function note({ members: all, ...chat }: ChatDetails): Promise<void> {
  meet(all);
  members.value = new Map(members.peek()).set(chat.chat_id, all);
  await putChat(chat);
}
