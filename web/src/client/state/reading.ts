import { client } from "../sdk.js";
import { loadChat } from "./chats.js";
import { inbox, readUpTo } from "./inbox.js";
import { me } from "./session-state.js";
import { unlessUnreachable } from "./unless-unreachable.js";
import { countUnread, restoreTimeline } from "./timelines.js";

/** Marks a chat as read up to a sequence. */
export function markRead(chatId: string, sequence: number): void {
  const chat = inbox.peek().get(chatId);
  if (!chat || sequence <= chat.my_read_sequence) return;
  client.markRead(chatId, sequence);
  void unlessUnreachable(() => noteRead(chatId, sequence));
}

/** Applies the user's read watermark, from this or another device. */
export async function noteRead(chatId: string, sequence: number): Promise<void> {
  await restoreTimeline(chatId);
  const head = inbox.peek().get(chatId)?.head_sequence ?? 0;
  const unread = countUnread(chatId, sequence, head, me.peek()?.user_id ?? "");
  await readUpTo(chatId, sequence, unread);
  // This device does not have all messages above the sequence, so the server has to count.
  if (unread === undefined && sequence < head) await loadChat(chatId);
}
