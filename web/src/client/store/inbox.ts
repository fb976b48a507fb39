import type { ChatSummary, MessageUpdated, MessageWithStatus } from "@tidings/client";

/** The chats of the user, by id. */
export type Inbox = ReadonlyMap<string, ChatSummary>;

const PREVIEW_CHARS_MAX = 100;

/** Merges chats from the server. They may be older than pushes that arrived meanwhile; then the push wins. */
export function withChats(inbox: Inbox, chats: readonly ChatSummary[]): Inbox {
  const next = new Map(inbox);
  for (const chat of chats) {
    const known = next.get(chat.chat_id);
    if (known && known.head_sequence > chat.head_sequence) {
      const { last_message, last_message_at, head_sequence } = known;
      const read = Math.max(known.my_read_sequence, chat.my_read_sequence);
      next.set(chat.chat_id, {
        ...chat,
        last_message: last_message ?? null,
        last_message_at: last_message_at ?? null,
        head_sequence,
        ...unreadOf(known),
        my_read_sequence: read,
      });
    } else if (known && known.my_read_sequence > chat.my_read_sequence) {
      next.set(chat.chat_id, { ...chat, my_read_sequence: known.my_read_sequence, ...unreadOf(known) });
    } else {
      next.set(chat.chat_id, chat);
    }
  }
  return next;
}

/**
 * Applies a pushed message. A message at or below the head changes nothing, so it is not counted twice.
 */
export function withPush(inbox: Inbox, message: MessageWithStatus, myUserId: string): Inbox {
  const chat = inbox.get(message.chat_id);
  if (!chat || message.sequence <= chat.head_sequence) return inbox;
  const isOwn = message.sender_id === myUserId;
  const isUnread = !isOwn && message.sequence > chat.my_read_sequence;
  return new Map(inbox).set(message.chat_id, {
    ...chat,
    head_sequence: message.sequence,
    last_message_at: message.created_at,
    last_message: lastMessage(message),
    unread_count: chat.unread_count + (isUnread ? 1 : 0),
  });
}

/**
 * Applies an update of a message: it moves the head, and changes the preview if it is of the last message. `last` is
 * the last message of the chat after the update, if this device knows it. An update at or below the head changes
 * nothing, because the server's state contains it.
 */
export function withUpdate(inbox: Inbox, { update, message }: MessageUpdated, last?: MessageWithStatus): Inbox {
  const chat = inbox.get(update.chat_id);
  if (!chat || update.sequence <= chat.head_sequence) return inbox;
  const isLast = chat.last_message?.sequence === update.target_sequence;
  // Without its message the preview is cleared at once; the server names the message before it.
  const after = message ?? last;
  const changed = isLast ? { last_message: after ? lastMessage(after) : null } : {};
  return new Map(inbox).set(update.chat_id, { ...chat, head_sequence: update.sequence, ...changed });
}

/**
 * Applies the read watermark of the user, from this or another device. `unreadAbove` is the number of remaining unread
 * messages if this device knows it; otherwise the old count stays until the server is asked.
 */
export function withRead(inbox: Inbox, chatId: string, sequence: number, unreadAbove: number | undefined): Inbox {
  const chat = inbox.get(chatId);
  if (!chat || sequence <= chat.my_read_sequence) return inbox;
  const counted = sequence >= chat.head_sequence ? 0 : unreadAbove;
  const left = counted === undefined ? unreadOf(chat) : { unread_count: counted, unread_count_exact: true };
  return new Map(inbox).set(chatId, { ...chat, my_read_sequence: sequence, ...left });
}

/** The chats, newest activity first; equal times by id, like the server. */
export function newestFirst(inbox: Inbox): ChatSummary[] {
  return [...inbox.values()].sort((a, b) => {
    const [at, bt] = [a.last_message_at ?? a.created_at, b.last_message_at ?? b.created_at];
    return at === bt ? (a.chat_id < b.chat_id ? 1 : -1) : at < bt ? 1 : -1;
  });
}

/** The chats with every word of the query in their name, in their order. */
export function matching(chats: readonly ChatSummary[], query: string): ChatSummary[] {
  const words = folded(query).split(/\s+/).filter(Boolean);
  return chats.filter((chat) => {
    const name = folded([chatName(chat), ...chat.other_participants.map((user) => user.display_name)].join(" "));
    return words.every((word) => name.includes(word));
  });
}

/** The display name of a chat: its name, or those of its members. */
export function chatName(chat: Pick<ChatSummary, "type" | "name" | "other_participants" | "member_count">): string {
  if (chat.type === "group" && chat.name) return chat.name;
  const names = chat.other_participants.map((user) => user.display_name);
  if (names.length === 0) return chat.type === "group" ? "Just you" : "Nobody";
  const unnamed = chat.member_count - 1 - names.length;
  return unnamed > 0 ? `${names.join(", ")} and ${unnamed} more` : names.join(", ");
}

/** The unread count of a chat as a badge text. */
export function badge(chat: Pick<ChatSummary, "unread_count" | "unread_count_exact">): string {
  const { unread_count, unread_count_exact } = unreadOf(chat);
  if (unread_count > 999) return "999+";
  return unread_count_exact ? String(unread_count) : `${unread_count}+`;
}

/** Normalizes the count: it is exact unless the server says that there are more. */
function unreadOf(chat: Pick<ChatSummary, "unread_count" | "unread_count_exact">) {
  return { unread_count: chat.unread_count, unread_count_exact: chat.unread_count_exact ?? true };
}

function lastMessage(message: MessageWithStatus): NonNullable<ChatSummary["last_message"]> {
  const { message_id, sequence, sender_id, created_at } = message;
  return { message_id, sequence, sender_id, preview: preview(message), created_at };
}

/** The beginning of a message as lists show it; nothing of an encrypted one. */
export function preview(message: Pick<MessageWithStatus, "content" | "content_type">): string | null {
  if (message.content_type === "application/vnd.tidings.encrypted") return null;
  return [...message.content].slice(0, PREVIEW_CHARS_MAX).join("");
}

/** Without case and accents, so that `jose` finds José. */
function folded(text: string): string {
  return text
    .normalize("NFD")
    .replace(/\p{Diacritic}/gu, "")
    .toLowerCase();
}
