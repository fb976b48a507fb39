import type { MessageWithStatus } from "@tidings/client";

import type { Note } from "./notes.js";
import type { OutboxEntry } from "./outbox.js";

/** One bubble: an accepted message, or a pending send of this device. */
export type Bubble =
  | { readonly kind: "message"; readonly key: string; readonly at: number; readonly message: MessageWithStatus }
  | { readonly kind: "send"; readonly key: string; readonly at: number; readonly entry: OutboxEntry };

/** One item of a chat's log, from top to bottom. */
export type LogItem =
  | { readonly kind: "day"; readonly key: string; readonly at: number }
  | { readonly kind: "unread"; readonly key: string }
  | { readonly kind: "note"; readonly key: string; readonly text: string }
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
  /** The changes of the chat, oldest first. */
  notes?: readonly Note[];
  /** Whether messages of the chat are missing above and below the given ones. */
  isCut?: { readonly above: boolean; readonly below: boolean };
  myUserId: string;
  /** The sequence above which messages of others were unread when the chat was opened. */
  unreadAbove: number | undefined;
}): LogItem[] {
  const items: LogItem[] = [];
  let day = "";
  let hasDivider = false;
  let group: { senderId: string; bubbles: Bubble[]; lastAt: number } | undefined;
  const notes = shownNotes(given);
  const addNotes = (below: number) => {
    for (let note = notes[0]; note && note.after < below; note = notes[0]) {
      notes.shift();
      group = undefined;
      items.push({ kind: "note", key: note.key, text: note.text });
    }
  };
  for (const { bubble, senderId } of bubbles(given)) {
    addNotes(bubble.kind === "message" ? bubble.message.sequence : Infinity);
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
  addNotes(Infinity);
  return items;
}

/** The notes beside the given messages: not those that belong to messages which are not on the page. */
function shownNotes({ messages, notes = [], isCut }: Parameters<typeof logItems>[0]): Note[] {
  const first = isCut?.above ? (messages[0]?.sequence ?? 0) : 0;
  const last = isCut?.below ? (messages.at(-1)?.sequence ?? 0) - 1 : Infinity;
  return notes.filter(({ after }) => first <= after && after <= last);
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
