import { signal } from "@preact/signals";
import type { Invitation } from "@tidings/client";

import { client } from "../sdk.js";
import { loadChat } from "./chats.js";

/** The pending invitations of the user to groups, newest first. They are not pushed. */
export const invitations = signal<readonly Invitation[]>([]);

/** Loads the invitations. */
export async function loadInvitations(): Promise<void> {
  invitations.value = await client.api.invitations();
}

/** Becomes a member of the group. */
export async function acceptInvitation(chatId: string): Promise<void> {
  await client.api.acceptInvitation(chatId);
  drop(chatId);
  await loadChat(chatId);
}

/** Declines an invitation; the group cannot invite the user again for a while. */
export async function declineInvitation(chatId: string): Promise<void> {
  await client.api.declineInvitation(chatId);
  drop(chatId);
}

function drop(chatId: string): void {
  invitations.value = invitations.peek().filter((one) => one.chat_id !== chatId);
}
