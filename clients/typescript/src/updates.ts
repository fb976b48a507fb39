import { normalReaction } from "./reaction.js";
import type { QueuedUpdate } from "./storage/storage.js";
import type { Message, MessageState, MessageUpdated, MessageWithStatus, Reaction } from "./wire.js";

/** The sequence of the last update that a copy of a message contains; 0 if there is none. */
export function revisionOf(message: Message): number {
  return message.state?.revision ?? 0;
}

/**
 * Of two copies of a message, the one in the later state: so copies from pushes, syncs and history converge in any
 * order. Only history says which reactions are the reader's own, and the status of an own message. That is kept from the
 * other copy.
 */
export function newer(known: MessageWithStatus | undefined, received: MessageWithStatus): MessageWithStatus {
  if (known === undefined) {
    return received;
  }
  const [later, earlier] = revisionOf(received) >= revisionOf(known) ? [received, known] : [known, received];
  const status = received.status ?? known.status;
  const own = ({ reaction, mine }: Reaction) => {
    const before = reactionOf(earlier, reaction);
    // A reaction that nobody had is not the reader's, until an update says so.
    return mine ?? (before ? before.mine : false);
  };
  return { ...withReactions(later, own), ...(status && { status }) };
}

/**
 * The message after an `updated` event, from the copy that the application holds; nothing if the message was deleted or
 * has expired. Updates have to be applied in the order of their events.
 */
export function withUpdated(
  known: MessageWithStatus | undefined,
  { update, message }: MessageUpdated,
  userId: string,
): MessageWithStatus | undefined {
  if (!message) {
    return undefined;
  }
  const { user_id: author, kind, reaction } = update;
  const isReaction = kind === "reacted" || kind === "unreacted";
  const isOwn = (one: Reaction) => isReaction && author === userId && one.reaction === reaction;
  const own = (one: Reaction) => (isOwn(one) ? kind === "reacted" : one.mine);
  return withReactions(newer(known, message), own);
}

/**
 * The message as it will be after those of the user's queued updates that are about it, oldest first; nothing if one
 * deletes it. An update that
 * the message contains already changes nothing, so a page can show queued updates at once: if one is refused, it is no
 * longer in the queue, and the message is as before.
 */
export function withQueued(
  message: MessageWithStatus,
  updates: readonly QueuedUpdate[],
): MessageWithStatus | undefined {
  let shown = message;
  for (const update of updates) {
    if (update.chatId !== message.chat_id || update.sequence !== message.sequence) {
      continue;
    }
    if (update.action === "delete") {
      return undefined;
    }
    shown = update.action === "edit" ? edited(shown, update) : reacted(shown, update);
  }
  return shown;
}

function edited(message: MessageWithStatus, edit: Extract<QueuedUpdate, { action: "edit" }>): MessageWithStatus {
  const { metadata: _, ...rest } = message;
  const { content, contentType = "text/plain", metadata, queuedAt } = edit;
  const edits = { edited_at: new Date(queuedAt).toISOString(), edit_count: (message.state?.edit_count ?? 0) + 1 };
  const state = { ...stateOf(message), ...edits };
  return { ...rest, content, content_type: contentType, ...(metadata && { metadata }), state };
}

function reacted(
  message: MessageWithStatus,
  update: Extract<QueuedUpdate, { reaction: string }>,
): MessageWithStatus {
  const mine = update.action === "react";
  const reaction = normalReaction(update.reaction);
  const known = reactionOf(message, reaction);
  if (mine === (known?.mine ?? false)) {
    return message;
  }
  const state = stateOf(message);
  const all = known ? (state.reactions ?? []) : [...(state.reactions ?? []), { reaction, count: 0 }];
  const changed = (one: Reaction) => ({ ...one, count: one.count + (mine ? 1 : -1), mine });
  const reactions = all.map((one) => (one.reaction === reaction ? changed(one) : one)).filter(({ count }) => count > 0);
  return { ...message, state: { ...state, reactions } };
}

function stateOf(message: Message): MessageState {
  return message.state ?? { revision: 0 };
}

function reactionOf(message: Message, reaction: string): Reaction | undefined {
  return message.state?.reactions?.find((one) => one.reaction === reaction);
}

/** The message with these own reactions. */
function withReactions(
  message: MessageWithStatus,
  own: (reaction: Reaction) => boolean | null | undefined,
): MessageWithStatus {
  const { state } = message;
  if (!state?.reactions) {
    return message;
  }
  const reactions = state.reactions.map((one): Reaction => {
    const mine = own(one);
    return mine === undefined ? one : { ...one, mine };
  });
  return { ...message, state: { ...state, reactions } };
}
