import type { MessageWithStatus } from "@tidings/client";

import { intervalAt, withInterval, type Interval, type Intervals } from "./intervals.js";

/**
 * The messages of one chat on this device.
 *
 * `messages` has each sequence once, in order. `covered` are the intervals of sequences that are fully known: inside
 * one nothing is missing, and a sequence without a message has expired. Sequences between intervals have not been
 * loaded yet.
 */
export interface Timeline {
  readonly messages: readonly MessageWithStatus[];
  readonly covered: Intervals;
}

/** A timeline without any known sequence. */
export const EMPTY: Timeline = { messages: [], covered: [] };

/** A part of the history, complete within `covered`. */
export interface Piece {
  readonly messages: readonly MessageWithStatus[];
  readonly covered: Interval;
}

/** Adds received messages. A known message is replaced, so it shows once however often it arrives. */
export function withPiece(timeline: Timeline, piece: Piece): Timeline {
  const bySequence = new Map(timeline.messages.map((message) => [message.sequence, message]));
  for (const message of piece.messages) {
    const known = bySequence.get(message.sequence);
    // A push has no status, so keep the status from a page of history.
    bySequence.set(message.sequence, known?.status && !message.status ? { ...message, status: known.status } : message);
  }
  return {
    messages: [...bySequence.values()].sort((a, b) => a.sequence - b.sequence),
    covered: withInterval(timeline.covered, piece.covered),
  };
}

/** Adds one pushed message. */
export function withMessage(timeline: Timeline, message: MessageWithStatus): Timeline {
  return withPiece(timeline, { messages: [message], covered: { from: message.sequence, to: message.sequence } });
}

/** Removes expired messages. Their sequences stay covered, because they are known to be empty. */
export function withoutSequences(timeline: Timeline, sequences: readonly number[]): Timeline {
  const gone = new Set(sequences);
  return { ...timeline, messages: timeline.messages.filter((message) => !gone.has(message.sequence)) };
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
