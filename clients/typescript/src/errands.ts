import type { Api } from "./api.js";
import { ApiError } from "./errors.js";
import type { ListedChat } from "./session/outputs.js";

/** Chats per page of the list. */
const LIST_PAGE = 100;

/** Reads every chat of the user, page by page. */
export async function listChats(api: Api): Promise<ListedChat[]> {
  const chats: ListedChat[] = [];
  for (let cursor: string | undefined, isLast = false; !isLast;) {
    const page = await api.chats({ limit: LIST_PAGE, ...(cursor === undefined ? {} : { cursor }) });
    for (const chat of page.data.chats) {
      chats.push({ chatId: chat.chat_id, delivered: chat.my_delivered_sequence, head: chat.head_sequence });
    }
    cursor = page.pagination.next_cursor ?? undefined;
    isLast = cursor === undefined;
  }
  return chats;
}

/** Whether a retry would fail in the same way. */
export function isFinal(error: unknown): boolean {
  return error instanceof ApiError && error.isFinal;
}
