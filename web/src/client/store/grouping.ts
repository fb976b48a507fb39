import type { MessageWithStatus } from "@tidings/client";

import type { OutboxEntry } from "./outbox.js";

/** One bubble: an accepted message, or a pending send of this device. */
export type Bubble =
  | { readonly kind: "message"; readonly key: string; readonly at: number; readonly message: MessageWithStatus }
  | { readonly kind: "send"; readonly key: string; readonly at: number; readonly entry: OutboxEntry };

/** One item of a chat's log, from top to bottom. */
export type LogItem =
  | { readonly kind: "day"; readonly key: string; readonly at: number }
  | { readonly kind: "unread"; readonly key: string }
  | { readonly kind: "group"; readonly key: string; readonly senderId: string; readonly bubbles: readonly Bubble[] };

/** Longest interval between bubbles of one group. */
const GROUP_MS = 5 * 60_000;

/**
 * Orders and groups messages and sends for display: a separator for each day, one before the first unread message, and
 * groups of consecutive bubbles of one sender.
 */
export function logItems(given: {
  messages: readonly MessageWithStatus[];
  sends: readonly OutboxEntry[];
  myUserId: string;
  /** The sequence above which messages of others were unread when the chat was opened. */
  unreadAbove: number | undefined;
}): LogItem[] {
  const items: LogItem[] = [];
  let day = "";
  let hasDivider = false;
  let group: { senderId: string; bubbles: Bubble[]; lastAt: number } | undefined;
  for (const { bubble, senderId } of bubbles(given)) {
    const bubbleDay = new Date(bubble.at).toDateString();
    if (bubbleDay !== day) {
      day = bubbleDay;
      group = undefined;
      items.push({ kind: "day", key: `day ${bubbleDay}`, at: bubble.at });
    }
    const isUnread =
      bubble.kind === "message" && given.unreadAbove !== undefined && bubble.message.sequence > given.unreadAbove;
    if (isUnread && !hasDivider && senderId !== given.myUserId) {
      hasDivider = true;
      group = undefined;
      items.push({ kind: "unread", key: "unread" });
    }
    if (group?.senderId === senderId && bubble.at - group.lastAt < GROUP_MS) {
      group.bubbles.push(bubble);
      group.lastAt = bubble.at;
    } else {
      group = { senderId, bubbles: [bubble], lastAt: bubble.at };
      items.push({ kind: "group", key: `group ${bubble.key}`, senderId, bubbles: group.bubbles });
    }
  }
  return items;
}

function bubbles(given: Parameters<typeof logItems>[0]): { bubble: Bubble; senderId: string }[] {
  const messages = given.messages.map((message) => ({
    senderId: message.sender_id,
    bubble: { kind: "message", key: message.message_id, at: Date.parse(message.created_at), message } as const,
  }));
  const sends = given.sends.map((entry) => ({
    senderId: given.myUserId,
    bubble: { kind: "send", key: entry.clientMessageId, at: entry.queuedAt, entry } as const,
  }));
  return [...messages, ...sends];
}
