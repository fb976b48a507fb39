import type { MessageWithStatus } from "@tidings/client";

import { intervalAt, withInterval, type Interval, type Intervals } from "./intervals.js";

/**
 * What this device has of one chat.
 *
 * `messages` has each sequence once, in order. `covered` says of which sequences it is known what they hold: inside
 * an interval nothing is missing, and a sequence without a message is one that has expired. Between intervals lies
 * what has not been asked for yet.
 */
export interface Timeline {
  readonly messages: readonly MessageWithStatus[];
  readonly covered: Intervals;
}

/** A timeline of a chat that nothing is known of. */
export const EMPTY: Timeline = { messages: [], covered: [] };

/** A piece of history, complete within `covered`. */
export interface Piece {
  readonly messages: readonly MessageWithStatus[];
  readonly covered: Interval;
}

/** Adds what was received. A message that is there already is replaced, so it shows once however often it comes. */
export function withPiece(timeline: Timeline, piece: Piece): Timeline {
  const bySequence = new Map(timeline.messages.map((message) => [message.sequence, message]));
  for (const message of piece.messages) {
    const known = bySequence.get(message.sequence);
    // A push says nothing of the status that a page of history has told before.
    bySequence.set(message.sequence, known?.status && !message.status ? { ...message, status: known.status } : message);
  }
  return {
    messages: [...bySequence.values()].sort((a, b) => a.sequence - b.sequence),
    covered: withInterval(timeline.covered, piece.covered),
  };
}

/** Adds one message that was pushed. */
export function withMessage(timeline: Timeline, message: MessageWithStatus): Timeline {
  return withPiece(timeline, { messages: [message], covered: { from: message.sequence, to: message.sequence } });
}

/** Takes messages away that are gone. Their sequences stay covered: it is known that they hold nothing. */
export function withoutSequences(timeline: Timeline, sequences: readonly number[]): Timeline {
  const gone = new Set(sequences);
  return { ...timeline, messages: timeline.messages.filter((message) => !gone.has(message.sequence)) };
}

/** The sequences of messages whose time is over at `now`. */
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

/** The piece without holes that a sequence lies in, if anything is known there. */
export function segmentAt(timeline: Timeline, sequence: number): Piece | undefined {
  const covered = intervalAt(timeline.covered, sequence);
  if (!covered) return undefined;
  const messages = timeline.messages.filter(({ sequence: at }) => covered.from <= at && at <= covered.to);
  return { messages, covered };
}

/** The newest piece without holes. */
export function lastSegment(timeline: Timeline): Piece | undefined {
  const last = timeline.covered.at(-1);
  return last && segmentAt(timeline, last.to);
}

/** What a page of history before `before` covers; without `before` it is the newest page of all. */
export function pieceBefore(
  messages: readonly MessageWithStatus[],
  hasMore: boolean,
  head: number,
  before = head + 1,
): Piece {
  const lowest = messages.reduce((least, message) => Math.min(least, message.sequence), before);
  return { messages, covered: { from: hasMore ? lowest : 1, to: before - 1 } };
}

/** What a page of history after `after` covers. */
export function pieceAfter(
  messages: readonly MessageWithStatus[],
  hasMore: boolean,
  head: number,
  after: number,
): Piece {
  const highest = messages.reduce((most, message) => Math.max(most, message.sequence), after);
  return { messages, covered: { from: after + 1, to: hasMore ? highest : Math.max(head, highest) } };
}

/** What a page of history around a sequence covers. */
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
