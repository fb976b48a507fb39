import {
  withQueued,
  type ChatSummary,
  type Member,
  type MessageWithStatus,
  type QueuedUpdate,
  type Schemas,
} from "@tidings/client";

import { preview } from "./inbox.js";
import { intervalAt } from "./intervals.js";
import type { Timeline } from "./timeline.js";

/** An update of this device that its timeline does not contain yet. */
export type PendingUpdate = QueuedUpdate & {
  /** Its own sequence in the chat, once the server has accepted it. */
  readonly ackedSequence?: number;
};

/** The pending updates of this device, in the order they were made. */
export type PendingUpdates = readonly PendingUpdate[];

/** Adds an update, or replaces the one with the same id. */
export function withPending(updates: PendingUpdates, added: PendingUpdate): PendingUpdates {
  const place = updates.findIndex(({ clientMessageId }) => clientMessageId === added.clientMessageId);
  if (place !== -1) return updates.with(place, added);
  return [...updates, added].sort((a, b) => a.queuedAt - b.queuedAt);
}

/** Marks an update as accepted by the server. It stays until the timeline contains it. */
export function ackedUpdate(updates: PendingUpdates, clientMessageId: string, sequence: number): PendingUpdates {
  return updates.map((update) =>
    update.clientMessageId === clientMessageId ? { ...update, ackedSequence: sequence } : update,
  );
}

/** Removes an update: it has arrived or was refused. */
export function withoutPending(updates: PendingUpdates, clientMessageId: string): PendingUpdates {
  return updates.filter((update) => update.clientMessageId !== clientMessageId);
}

/** The updates of a chat that its timeline does not contain. */
export function pendingIn(
  updates: PendingUpdates,
  chatId: string,
  { covered }: Pick<Timeline, "covered">,
): PendingUpdates {
  const isContained = (sequence: number | undefined) => sequence !== undefined && intervalAt(covered, sequence);
  return updates.filter((update) => update.chatId === chatId && !isContained(update.ackedSequence));
}

/** The messages as they will be after the pending updates of their chat, without those that one of them deletes. */
export function withPendingUpdates(
  messages: readonly MessageWithStatus[],
  updates: PendingUpdates,
): readonly MessageWithStatus[] {
  if (updates.length === 0) return messages;
  return messages.flatMap((message) => {
    const shown = withQueued(
      message,
      updates.filter(({ sequence }) => sequence === message.sequence),
    );
    return shown ? [shown] : [];
  });
}

/**
 * The preview of a chat's last message as it will be after the pending updates, `null` for an encrypted one; nothing if
 * one of them deletes it.
 */
export function previewAfter(
  updates: PendingUpdates,
  chatId: string,
  last: NonNullable<ChatSummary["last_message"]>,
): string | null | undefined {
  const pending = updates.filter((update) => update.chatId === chatId && update.sequence === last.sequence);
  if (pending.some(({ action }) => action === "delete")) return undefined;
  const edit = pending.findLast((update) => update.action === "edit");
  return edit
    ? preview({ content: edit.content, content_type: edit.contentType ?? "text/plain" })
    : (last.preview ?? null);
}

/** Whether an update of a message waits for the server. */
export function isWaiting(updates: PendingUpdates, { chat_id, sequence }: MessageWithStatus): boolean {
  return updates.some(
    (update) => update.chatId === chat_id && update.sequence === sequence && update.ackedSequence === undefined,
  );
}

/** What decides about the updates that a user may make. */
export interface Rules {
  readonly myUserId: string;
  readonly chatType: "direct" | "group";
  readonly myRole: Member["role"];
  /** How long after a send its author may change it; 0 for no limit. Unknown until the server is asked. */
  readonly windowSeconds: number | undefined;
  readonly now: number;
}

/** Whether the user may edit a message. The server decides; this only hides what it would refuse. */
export function canEdit(message: MessageWithStatus, rules: Rules): boolean {
  return EDITABLE.includes(message.content_type) && isOwnAndYoung(message, rules);
}

/** Whether the user may delete a message for everyone. */
export function canDelete(message: MessageWithStatus, rules: Rules): boolean {
  return (rules.chatType === "group" && rules.myRole !== "member") || isOwnAndYoung(message, rules);
}

/** The last of the messages that the user may edit. */
export function lastEditable(messages: readonly MessageWithStatus[], rules: Rules): MessageWithStatus | undefined {
  return messages.findLast((message) => canEdit(message, rules));
}

/** The types of content that the composer writes. Others belong to applications. */
const EDITABLE: readonly string[] = ["text/plain", "text/markdown"];

function isOwnAndYoung(message: MessageWithStatus, { myUserId, windowSeconds = 0, now }: Rules): boolean {
  const isYoung = windowSeconds === 0 || now - Date.parse(message.created_at) < windowSeconds * 1000;
  return message.sender_id === myUserId && isYoung;
}

/** The reactions that the menu of a message offers at once. */
export const QUICK_REACTIONS = ["👍", "❤️", "😂", "😮", "😢", "🙏"] as const;

/** The reactions of the picker, in rows of eight. */
export const REACTIONS = [
  ...["👍", "👎", "❤️", "🔥", "🎉", "👏", "🙏", "💯"],
  ...["😂", "😀", "😊", "😍", "🤩", "😎", "😉", "🙂"],
  ...["😮", "🤔", "🙄", "😬", "😢", "😭", "😡", "😱"],
  ...["🤝", "💪", "👀", "🙌", "🫶", "✅", "❌", "❓"],
  ...["🚀", "⭐", "💡", "☕", "🍀", "🌹", "🎂", "👋"],
] as const;

/** Most bytes of a reaction. */
const REACTION_BYTES_MAX = 64;

/** The problem of a reaction that the user has typed, if there is one. */
export function reactionProblem(reaction: string): string | undefined {
  if (/[\p{White_Space}\p{Cc}]/u.test(reaction)) return "A reaction has no spaces.";
  const bytes = new TextEncoder().encode(reaction).length;
  return bytes > REACTION_BYTES_MAX ? "That is too long for a reaction." : undefined;
}

/** What a click on a reaction does: it adds the user's own, or removes it. */
export function toggleOf(message: MessageWithStatus, reaction: string): "react" | "unreact" {
  return message.state?.reactions?.some((one) => one.reaction === reaction && one.mine) ? "unreact" : "react";
}

/** The users of a reaction. */
export interface Reacted {
  readonly reaction: string;
  readonly userIds: readonly string[];
  /** How many more have it: members of later pages, and deleted accounts. */
  readonly more: number;
}

/** The users of each reaction, in the order of the reactions on the message. */
export function byReaction(
  members: readonly Schemas["Reactor"][],
  { state }: Pick<MessageWithStatus, "state">,
): Reacted[] {
  return (state?.reactions ?? []).map(({ reaction, count }) => {
    const userIds = members.filter(({ reactions }) => reactions.includes(reaction)).map(({ user_id }) => user_id);
    return { reaction, userIds, more: Math.max(0, count - userIds.length) };
  });
}
