import { signal, type Signal } from "@preact/signals";
import type { MessageWithStatus } from "@tidings/client";

import { cache } from "../local/cache.js";
import { client } from "../sdk.js";
import {
  EMPTY,
  expiredAt,
  nextExpiry,
  pieceAfter,
  pieceAround,
  pieceBefore,
  segmentAt,
  withMessage,
  withPiece,
  withoutSequences,
  type Piece,
  type Timeline,
} from "../store/timeline.js";

const PAGE = 50;
/** A browser's timers count in 32 bits. */
const TIMER_MS_MAX = 2 ** 31 - 1;

const timelines = new Map<string, Signal<Timeline>>();
const restored = new Map<string, Promise<void>>();
const expiryTimers = new Map<string, ReturnType<typeof setTimeout>>();

/** What this device has of a chat, as it changes. */
export function timelineOf(chatId: string): Signal<Timeline> {
  let timeline = timelines.get(chatId);
  if (!timeline) timelines.set(chatId, (timeline = signal(EMPTY)));
  return timeline;
}

/** Brings back what the page had of a chat, once. */
export function restoreTimeline(chatId: string): Promise<void> {
  let restoring = restored.get(chatId);
  if (!restoring) {
    restoring = (async () => {
      await cache.trim(chatId);
      const kept = await cache.timeline(chatId);
      await drop(chatId, kept, expiredAt(kept.messages, Date.now()));
    })();
    restored.set(chatId, restoring);
  }
  return restoring;
}

/** Takes a message that was pushed. Resolves when it is kept. */
export async function receive(message: MessageWithStatus): Promise<void> {
  await restoreTimeline(message.chat_id);
  const next = withMessage(timelineOf(message.chat_id).peek(), message);
  show(message.chat_id, next);
  await cache.keepMessages(message.chat_id, [message], next.covered);
}

/** Takes messages out that are gone. */
export async function forget(chatId: string, sequences: readonly number[]): Promise<void> {
  await restoreTimeline(chatId);
  await drop(chatId, timelineOf(chatId).peek(), sequences);
}

/** Asks for the page of messages before a sequence. */
export async function loadBefore(chatId: string, before: number): Promise<void> {
  const { data, pagination } = await client.api.history(chatId, { before, limit: PAGE });
  await put(chatId, pieceBefore(data.messages, pagination.has_more, data.head_sequence, before));
}

/** Asks for the page of messages after a sequence. */
export async function loadAfter(chatId: string, after: number): Promise<void> {
  let { data, pagination } = await client.api.history(chatId, { after, limit: PAGE });
  const messages = [...data.messages];
  // A page may hold nothing but what has expired.
  while (messages.length === 0 && pagination.has_more && pagination.next_cursor) {
    ({ data, pagination } = await client.api.history(chatId, { cursor: pagination.next_cursor, limit: PAGE }));
    messages.push(...data.messages);
  }
  await put(chatId, pieceAfter(messages, pagination.has_more, data.head_sequence, after));
}

/** Asks for the newest page. */
export async function loadNewest(chatId: string): Promise<void> {
  const { data, pagination } = await client.api.history(chatId, { limit: PAGE });
  await put(chatId, pieceBefore(data.messages, pagination.has_more, data.head_sequence));
}

/** Asks for the messages on both sides of a sequence. */
export async function loadAround(chatId: string, sequence: number): Promise<void> {
  await put(chatId, pieceAround(await client.api.around(chatId, sequence, PAGE)));
}

/** Forgets what is known of a chat: the server knows less than this device did. */
export async function resetTimeline(chatId: string): Promise<void> {
  await cache.forgetMessages(chatId);
  show(chatId, EMPTY);
}

/** How many messages of others lie above a sequence, if everything up to the head is known here. */
export function countUnread(chatId: string, above: number, head: number, myUserId: string): number | undefined {
  const segment = segmentAt(timelineOf(chatId).peek(), head);
  if (!segment || segment.covered.from > above + 1) return undefined;
  return segment.messages.filter((message) => message.sequence > above && message.sender_id !== myUserId).length;
}

/** Forgets every timeline. */
export function forgetTimelines(): void {
  expiryTimers.forEach(clearTimeout);
  expiryTimers.clear();
  timelines.clear();
  restored.clear();
}

async function put(chatId: string, piece: Piece): Promise<void> {
  await restoreTimeline(chatId);
  const next = withPiece(timelineOf(chatId).peek(), piece);
  show(chatId, next);
  await cache.keepMessages(chatId, piece.messages, next.covered);
}

async function drop(chatId: string, timeline: Timeline, sequences: readonly number[]): Promise<void> {
  show(chatId, withoutSequences(timeline, sequences));
  if (sequences.length > 0) await cache.removeMessages(chatId, sequences);
}

/** Shows a timeline, and has what expires next taken away at its moment. */
function show(chatId: string, timeline: Timeline): void {
  timelineOf(chatId).value = timeline;
  clearTimeout(expiryTimers.get(chatId));
  const moment = nextExpiry(timeline.messages);
  if (moment === Infinity) return;
  const wait = Math.min(Math.max(0, moment - Date.now()), TIMER_MS_MAX);
  const timer = setTimeout(() => {
    const current = timelineOf(chatId).peek();
    void drop(chatId, current, expiredAt(current.messages, Date.now()));
  }, wait);
  expiryTimers.set(chatId, timer);
}
