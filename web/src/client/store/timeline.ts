import { newer, withUpdated, type MessageUpdated, type MessageWithStatus } from "@tidings/client";

import { intervalAt, withInterval, type Interval, type Intervals } from "./intervals.js";

/**
 * The messages of one chat on this device.
 *
 * `messages` has each sequence once, in order, in the latest state that this device has seen. `covered` are the
 * intervals of sequences that are fully known: inside one nothing is missing, and a sequence without a message is that
 * of an update, or its message was deleted or has expired. Sequences between intervals have not been loaded yet. A
 * message between intervals was updated before its page was loaded.
 */
export interface Timeline {
  readonly messages: readonly MessageWithStatus[];
  readonly covered: Intervals;
  /** The removed sequences: a page of history that was requested before a removal may still contain its message. */
  readonly removed: ReadonlySet<number>;
}

/** A timeline without any known sequence. */
export const EMPTY: Timeline = { messages: [], covered: [], removed: new Set() };

/** A part of the history, complete within `covered`. */
export interface Piece {
  readonly messages: readonly MessageWithStatus[];
  readonly covered: Interval;
}

/**
 * Adds received messages. A message shows once however often it arrives, and of two copies the one in the later state.
 */
export function withPiece(timeline: Timeline, piece: Piece): Timeline {
  const bySequence = new Map(timeline.messages.map((message) => [message.sequence, message]));
  for (const message of piece.messages) {
    if (timeline.removed.has(message.sequence)) continue;
    bySequence.set(message.sequence, newer(bySequence.get(message.sequence), message));
  }
  return {
    ...timeline,
    messages: [...bySequence.values()].sort((a, b) => a.sequence - b.sequence),
    covered: withInterval(timeline.covered, piece.covered),
  };
}

/** Adds one pushed message. */
export function withMessage(timeline: Timeline, message: MessageWithStatus): Timeline {
  return withPiece(timeline, { messages: [message], covered: { from: message.sequence, to: message.sequence } });
}

/** Applies an update of a message. The update has a sequence of its own, which is covered and has no message. */
export function withUpdate(timeline: Timeline, updated: MessageUpdated, myUserId: string): Timeline {
  const { sequence, target_sequence: target } = updated.update;
  const message = withUpdated(messageAt(timeline, target), updated, myUserId);
  const left = message ? timeline : withoutSequences(timeline, [target]);
  return withPiece(left, { messages: message ? [message] : [], covered: { from: sequence, to: sequence } });
}

/** Removes deleted and expired messages. Their sequences stay covered, because they are known to be empty. */
export function withoutSequences(timeline: Timeline, sequences: readonly number[]): Timeline {
  const gone = new Set(sequences);
  const messages = timeline.messages.filter((message) => !gone.has(message.sequence));
  return { ...timeline, messages, removed: new Set([...timeline.removed, ...gone]) };
}

/** The message with a sequence, if this device has it. */
export function messageAt(timeline: Timeline, sequence: number): MessageWithStatus | undefined {
  return timeline.messages.find((message) => message.sequence === sequence);
}

/** The sequences of messages that have expired at `now`. */
export function expiredAt(messages: readonly MessageWithStatus[], now: number): number[] {
  return messages.filter((message) => expiry(message) <= now).map((message) => message.sequence);
}

/** When the first of the messages expires, in milliseconds of the Unix epoch; infinity if none does. */
export function nextExpiry(messages: readonly MessageWithStatus[]): number {
  return messages.reduce((first, message) => Math.min(first, expiry(message)), Infinity);
}

function expiry(message: MessageWithStatus): number {
  return message.expires_at ? Date.parse(message.expires_at) : Infinity;
}

/** The interval without gaps that contains a sequence, if there is one. */
export function segmentAt(timeline: Timeline, sequence: number): Piece | undefined {
  const covered = intervalAt(timeline.covered, sequence);
  if (!covered) return undefined;
  const messages = timeline.messages.filter(({ sequence: at }) => covered.from <= at && at <= covered.to);
  return { messages, covered };
}

/** The newest interval without gaps. */
export function lastSegment(timeline: Timeline): Piece | undefined {
  const last = timeline.covered.at(-1);
  return last && segmentAt(timeline, last.to);
}

/** The interval that a page of history before `before` covers; without `before` it is the newest page. */
export function pieceBefore(
  messages: readonly MessageWithStatus[],
  hasMore: boolean,
  head: number,
  before = head + 1,
): Piece {
  const lowest = messages.reduce((least, message) => Math.min(least, message.sequence), before);
  return { messages, covered: { from: hasMore ? lowest : 1, to: before - 1 } };
}

/** The interval that a page of history after `after` covers. */
export function pieceAfter(
  messages: readonly MessageWithStatus[],
  hasMore: boolean,
  head: number,
  after: number,
): Piece {
  const highest = messages.reduce((most, message) => Math.max(most, message.sequence), after);
  return { messages, covered: { from: after + 1, to: hasMore ? highest : Math.max(head, highest) } };
}

/** The interval that a page of history around a sequence covers. */
export function pieceAround(page: {
  messages: readonly MessageWithStatus[];
  head_sequence: number;
  target_sequence: number;
  has_more_before: boolean;
  has_more_after: boolean;
}): Piece {
  const { messages, target_sequence: target } = page;
  const first = Math.min(target, messages[0]?.sequence ?? target);
  const last = Math.max(target, messages.at(-1)?.sequence ?? target);
  const covered = { from: page.has_more_before ? first : 1, to: page.has_more_after ? last : page.head_sequence };
  return { messages, covered };
}
