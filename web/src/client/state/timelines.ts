import { signal, type Signal } from "@preact/signals";
import type { MessageUpdated, MessageWithStatus } from "@tidings/client";

import { cache } from "../local/cache.js";
import { client } from "../sdk.js";
import {
  EMPTY,
  expiredAt,
  messageAt,
  nextExpiry,
  pieceAfter,
  pieceAround,
  pieceBefore,
  segmentAt,
  withMessage,
  withPiece,
  withUpdate,
  withoutSequences,
  type Piece,
  type Timeline,
} from "../store/timeline.js";
import { endEditOf } from "./composing.js";

const PAGE = 50;
/** Browser timers are limited to 32 bits. */
const TIMER_MS_MAX = 2 ** 31 - 1;

const timelines = new Map<string, Signal<Timeline>>();
const restored = new Map<string, Promise<void>>();
const expiryTimers = new Map<string, ReturnType<typeof setTimeout>>();

/** The timeline of a chat, as a signal. */
export function timelineOf(chatId: string): Signal<Timeline> {
  let timeline = timelines.get(chatId);
  if (!timeline) timelines.set(chatId, (timeline = signal(EMPTY)));
  return timeline;
}

/** Restores the timeline of a chat from the cache, once. */
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

/** Applies a pushed message. Resolves when it is cached. */
export async function receive(message: MessageWithStatus): Promise<void> {
  await restoreTimeline(message.chat_id);
  await apply(message.chat_id, withMessage(timelineOf(message.chat_id).peek(), message), [message.sequence]);
}

/** Applies an update of a message. Resolves when it is cached, and the content of a deleted message is not. */
export async function receiveUpdate(updated: MessageUpdated, myUserId: string): Promise<void> {
  const { chat_id: chatId, target_sequence: target } = updated.update;
  await restoreTimeline(chatId);
  await apply(chatId, withUpdate(timelineOf(chatId).peek(), updated, myUserId), [target]);
}

/** Removes expired messages. */
export async function forget(chatId: string, sequences: readonly number[]): Promise<void> {
  await restoreTimeline(chatId);
  await drop(chatId, timelineOf(chatId).peek(), sequences);
}

/** Loads the page of messages before a sequence. */
export async function loadBefore(chatId: string, before: number): Promise<void> {
  const { data, pagination } = await client.api.history(chatId, { before, limit: PAGE });
  await put(chatId, pieceBefore(data.messages, pagination.has_more, data.head_sequence, before));
}

/** Loads the page of messages after a sequence. */
export async function loadAfter(chatId: string, after: number): Promise<void> {
  let { data, pagination } = await client.api.history(chatId, { after, limit: PAGE });
  const messages = [...data.messages];
  // All messages of a page may have expired.
  while (messages.length === 0 && pagination.has_more && pagination.next_cursor) {
    ({ data, pagination } = await client.api.history(chatId, { cursor: pagination.next_cursor, limit: PAGE }));
    messages.push(...data.messages);
  }
  await put(chatId, pieceAfter(messages, pagination.has_more, data.head_sequence, after));
}

/** Loads the newest page. */
export async function loadNewest(chatId: string): Promise<void> {
  const { data, pagination } = await client.api.history(chatId, { limit: PAGE });
  await put(chatId, pieceBefore(data.messages, pagination.has_more, data.head_sequence));
}

/** Loads the messages around a sequence. */
export async function loadAround(chatId: string, sequence: number): Promise<void> {
  await put(chatId, pieceAround(await client.api.around(chatId, sequence, PAGE)));
}

/** Clears the timeline of a chat after its head on the server went back. */
export async function resetTimeline(chatId: string): Promise<void> {
  await cache.forgetMessages(chatId);
  show(chatId, EMPTY);
}

/** The last message below a sequence, if nothing between them is missing here. */
export function newestOf(chatId: string, below: number): MessageWithStatus | undefined {
  return segmentAt(timelineOf(chatId).peek(), below)?.messages.findLast(({ sequence }) => sequence < below);
}

/** The number of messages of other members above a sequence, if all messages up to the head are known here. */
export function countUnread(chatId: string, above: number, head: number, myUserId: string): number | undefined {
  const segment = segmentAt(timelineOf(chatId).peek(), head);
  if (!segment || segment.covered.from > above + 1) return undefined;
  return segment.messages.filter((message) => message.sequence > above && message.sender_id !== myUserId).length;
}

/** Clears every timeline. */
export function forgetTimelines(): void {
  expiryTimers.forEach(clearTimeout);
  expiryTimers.clear();
  timelines.clear();
  restored.clear();
}

async function put(chatId: string, piece: Piece): Promise<void> {
  await restoreTimeline(chatId);
  const sequences = piece.messages.map((message) => message.sequence);
  await apply(chatId, withPiece(timelineOf(chatId).peek(), piece), sequences);
}

/** Shows a timeline, and caches the messages of the sequences that may have changed. */
async function apply(chatId: string, next: Timeline, sequences: readonly number[]): Promise<void> {
  show(chatId, next);
  const kept = sequences.flatMap((sequence) => messageAt(next, sequence) ?? []);
  const removed = sequences.filter((sequence) => next.removed.has(sequence));
  endEditOf(chatId, removed);
  await cache.keepMessages(chatId, kept, removed, next.covered);
}

async function drop(chatId: string, timeline: Timeline, sequences: readonly number[]): Promise<void> {
  show(chatId, withoutSequences(timeline, sequences));
  endEditOf(chatId, sequences);
  if (sequences.length > 0) await cache.removeMessages(chatId, sequences);
}

/** Shows a timeline, and schedules the removal of the next expiring message. */
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
