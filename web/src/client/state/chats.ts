import { signal } from "@preact/signals";
import type { ChatDetails, ChatUpdated, Member } from "@tidings/client";

import { client } from "../sdk.js";
import { inbox, putChat, removeChat } from "./inbox.js";
import { goInstead, openChatId } from "./navigation.js";
import { meet } from "./names.js";
import { forgetNotes, noteChange } from "./notes.js";
import { me } from "./session-state.js";
import { tell } from "./toasts.js";

/** The members of opened chats, by chat id. */
export const members = signal<ReadonlyMap<string, readonly Member[]>>(new Map());

/** Loads a chat with its members. */
export async function loadChat(chatId: string): Promise<void> {
  await note(await client.api.chat(chatId));
}

/** Opens the direct chat with a user; repeated calls open the same chat. */
export async function openDirectChat(userId: string): Promise<string> {
  const chat = await client.api.createChat({ type: "direct", member_ids: [userId] });
  await note(chat);
  return chat.chat_id;
}

/** Creates a group. Every retry uses the same key, so a lost response cannot create a second group. */
export async function createGroup(name: string, memberIds: string[], idempotencyKey: string): Promise<string> {
  const chat = await client.api.createChat({ type: "group", name, member_ids: memberIds }, idempotencyKey);
  const invited = chat.invited_user_ids?.length ?? 0;
  if (invited > 0) {
    const people = invited === 1 ? "One person wants" : `${invited} people want`;
    tell(`${people} to be asked first and got an invitation.`);
  }
  await note(chat);
  return chat.chat_id;
}

/** Renames a group. */
export async function rename(chatId: string, name: string): Promise<void> {
  await note(await client.api.updateChat(chatId, { name }));
}

/** Changes the lifetime of later messages; `null` means they never expire. */
export async function changeTtl(chatId: string, seconds: number | null): Promise<void> {
  await note(await client.api.updateChat(chatId, { message_ttl_seconds: seconds }));
}

/** Adds a member to a group, or invites a user who wants to be asked first. */
export async function addMember(chatId: string, userId: string): Promise<void> {
  const added = await client.api.addMember(chatId, { user_id: userId });
  if (added.invited) tell(`${added.display_name} wants to be asked first and is invited.`);
  await loadChat(chatId);
}

/** Removes a member from a group. */
export async function removeMember(chatId: string, userId: string): Promise<void> {
  await client.api.removeMember(chatId, userId);
  await loadChat(chatId);
}

/** Changes a member's role; `owner` transfers the ownership of the group. */
export async function changeRole(chatId: string, userId: string, role: Member["role"]): Promise<void> {
  await client.api.changeRole(chatId, userId, role);
  await loadChat(chatId);
}

/** Leaves a group. */
export async function leave(chatId: string): Promise<void> {
  await client.api.leave(chatId);
  await noteGone(chatId);
}

/** Mutes a chat, permanently if no time is given. */
export async function mute(chatId: string, seconds?: number): Promise<void> {
  await client.api.mute(chatId, seconds);
  await loadChat(chatId);
}

/** Ends a mute. */
export async function unmute(chatId: string): Promise<void> {
  await client.api.unmute(chatId);
  await loadChat(chatId);
}

/** Applies a change that the server announced. */
export async function noteUpdated(update: ChatUpdated): Promise<void> {
  const { chat_id: chatId, change, user_id: userId } = update;
  if (change === "member_removed" && userId === me.peek()?.user_id) return noteGone(chatId);
  await loadChat(chatId);
  const chat = inbox.peek().get(chatId);
  if (chat) noteChange(update, chat, members.peek().get(chatId) ?? []);
}

/** Removes a chat that the user is no longer a member of. */
export async function noteGone(chatId: string): Promise<void> {
  if (!inbox.peek().has(chatId)) return;
  await removeChat(chatId);
  forgetNotes(chatId);
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
