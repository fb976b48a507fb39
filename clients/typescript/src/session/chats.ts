import { detailsOf } from "../errors.js";
import type { ChatUpdated, ErrorBody, Frames } from "../wire.js";
import type { AckSchedule } from "./ack-schedule.js";
import { Acks } from "./acks.js";
import type { Random } from "./backoff.js";
import { entriesOf, positionOf, type Entry } from "./entries.js";
import { Feed } from "./feed.js";
import { LookUps } from "./look-ups.js";
import type { Out } from "./out.js";
import type { ListedChat, LookUpFailure } from "./outputs.js";
import { Syncs, type SyncRefused } from "./syncs.js";
import { earliest } from "./time.js";

/** Most entries in a sync page. */
const SYNC_PAGE_MAX = 500;

interface Chat {
  feed: Feed;
  acks: Acks;
}

/**
 * The chats of the user: their feeds, acks, read marks and pending syncs.
 *
 * A chat that the server mentions is looked up, then tracked from one sequence on; that position is stored. From then
 * on each of its messages and updates is handed out exactly once and in order.
 */
export class Chats {
  readonly #chats = new Map<string, Chat>();
  readonly #lookUps = new LookUps();
  readonly #syncs = new Syncs();
  /** The highest read mark of each chat. Read marks have no reply, so each connection begins by repeating them. */
  readonly #reads = new Map<string, number>();
  /** The remaining step before `caughtUp` is emitted. */
  #catchingUp: "no" | "listing" | "syncing" = "no";
  readonly #out: Out;
  readonly #random: Random;

  constructor(out: Out, random: Random) {
    this.#out = out;
    this.#random = random;
  }

  /** Resumes a chat at this device's position. */
  resume(chatId: string, sequence: number): void {
    this.#chats.set(chatId, chatAt(sequence));
  }

  /** Takes over another session's read marks. */
  takeReads(other: Chats): void {
    other.#reads.forEach((sequence, chatId) => this.#reads.set(chatId, sequence));
  }

  /** Marks all messages up to `sequence` as read. */
  markRead(now: number, chatId: string, sequence: number): void {
    if (sequence > (this.#reads.get(chatId) ?? 0)) {
      this.#reads.set(chatId, sequence);
      this.#transmitRead(now, chatId, sequence);
    }
  }

  /** Records that the application has stored this entry and all before it; they are acknowledged soon. */
  stored(now: number, chatId: string, sequence: number): void {
    const chat = this.#chats.get(chatId);
    if (chat === undefined) {
      return;
    }
    chat.acks.store(sequence);
    if (chat.acks.isBatch(chat.feed.watermark)) {
      this.#ack(now, chatId, chat);
    } else {
      this.#schedule(chat, (acks) => acks.stored(now, chatId));
    }
  }

  /** Starts a connection: repeats acks and read marks that the last one may have lost, and syncs missed messages. */
  connected(now: number): void {
    this.#chats.forEach((chat, chatId) => this.#schedule(chat, (acks) => acks.repeat(now, chatId)));
    this.#reads.forEach((sequence, chatId) => this.#transmitRead(now, chatId, sequence));
    this.resync();
  }

  /** Resets the state of requests that were in flight on the connection. */
  disconnected(): void {
    this.#syncs.disconnected();
    this.#catchingUp = "no";
    for (const { acks } of this.#chats.values()) {
      acks.forgetUnconfirmed();
    }
  }

  /** Requests everything that may have been missed: the list of chats, and a sync of every tracked chat. */
  resync(): void {
    this.#catchingUp = "listing";
    this.#out.push({ kind: "listChats" });
    for (const chatId of this.#chats.keys()) {
      this.#syncs.wantAnew(chatId);
    }
  }

  /**
   * Takes the list of the user's chats, and tracks the new ones. A new chat is synced unless nothing was missed: the
   * head equals the user's watermark, and no push arrived while the chat was not tracked.
   */
  handleList(chats: ListedChat[]): void {
    for (const { chatId, delivered, head } of chats) {
      if (!this.#chats.has(chatId)) {
        const wasHeardOf = this.#begin(chatId, delivered);
        if (wasHeardOf || head > delivered) {
          this.#syncs.want(chatId);
        }
      }
    }
    if (this.#catchingUp === "listing") {
      this.#catchingUp = "syncing";
    }
  }

  /** Takes the user's delivered watermark of a chat. */
  handleLookedUp(chatId: string, delivered: number): void {
    if (!this.#chats.has(chatId)) {
      this.#begin(chatId, delivered);
    }
    this.#syncs.want(chatId);
  }

  handleLookUpFailed(now: number, chatId: string, failure: LookUpFailure): void {
    if (failure === "gone") {
      this.#lookUps.end(chatId);
    } else {
      this.#lookUps.postpone(now, chatId, this.#random);
    }
  }

  /** Takes a pushed message or update. */
  handleEntry(entry: Entry): void {
    const { chatId, sequence } = positionOf(entry);
    const chat = this.#chats.get(chatId);
    if (chat === undefined) {
      this.#discover(chatId, sequence);
      return;
    }
    this.#handOut(chat, chat.feed.offer(entry));
    if (chat.feed.hasHole) {
      this.#syncs.want(chatId);
    }
  }

  handlePage(now: number, id: number, page: Frames["SyncResponse"]): void {
    const question = this.#syncs.answered(id);
    const chat = question && this.#chats.get(question.chatId);
    if (question === undefined || chat === undefined) {
      return;
    }
    const entries = entriesOf(page);
    const last = entries.at(-1);
    const lastSent = last === undefined ? question.after : positionOf(last).sequence;
    const examined = page.has_more ? (page.next_sequence ? page.next_sequence - 1 : lastSent) : page.head_sequence;
    this.#handOut(chat, chat.feed.offerPage(entries, examined));
    const isComplete = !page.has_more && !chat.feed.hasHole;
    const hasMoved = chat.feed.watermark > question.after;
    this.#syncs.finish(now, question.chatId, isComplete ? "complete" : hasMoved ? "more" : "stuck", this.#random);
    // A range proven empty is acknowledged too, although the application stores nothing for it.
    this.#schedule(chat, (acks) => acks.proven(now, question.chatId));
  }

  /** Takes the refusal of a sync. Returns its consequence for the connection. */
  handleSyncRefused(now: number, id: number, error: ErrorBody): SyncRefused {
    const question = this.#syncs.answered(id);
    if (question === undefined) {
      return "giveUp";
    }
    const { chatId } = question;
    const refused = this.#syncs.refused(now, chatId, error, this.#random);
    if (refused === "giveUp") {
      this.#giveUp(chatId, error);
    }
    return refused;
  }

  handleUpdated(updated: ChatUpdated, userId: string | undefined): void {
    this.#out.tell("chatUpdated", updated);
    if (updated.change === "member_removed" && updated.user_id === userId) {
      this.#drop(updated.chat_id);
    } else {
      // The server announces changes of a chat only to its members, so an unknown chat is one of the user's.
      this.#discover(updated.chat_id);
    }
  }

  /** Sends queued syncs up to the in-flight bound, and emits `caughtUp` once none is left. */
  pump(now: number): void {
    if (this.#out.link === undefined) {
      return;
    }
    const watermark = (chatId: string) => this.#chats.get(chatId)?.feed.watermark;
    for (let asked = this.#syncs.next(now, watermark); asked; asked = this.#syncs.next(now, watermark)) {
      const { chatId, after } = asked.question;
      const payload = { chat_id: chatId, last_acked_sequence: after, limit: SYNC_PAGE_MAX };
      this.#out.transmit(now, { type: "sync_request", request_id: `y${asked.id}`, payload });
    }
    if (this.#catchingUp === "syncing" && this.#syncs.isIdle) {
      this.#catchingUp = "no";
      this.#out.tell("caughtUp", {});
    }
  }

  /** Acknowledges all stored messages. */
  flushAcks(now: number): void {
    this.sendAcks(now, [...this.#chats.keys()]);
  }

  /** Acknowledges the stored messages of these chats. */
  sendAcks(now: number, chatIds: readonly string[]): void {
    for (const chatId of chatIds) {
      const chat = this.#chats.get(chatId);
      if (chat === undefined) {
        this.#out.link?.acks.remove(chatId);
      } else {
        this.#ack(now, chatId, chat);
      }
    }
  }

  /** Retries the failed look-ups that are due. */
  retryLookUps(now: number): void {
    for (let chatId = this.#lookUps.nextDue(now); chatId !== undefined; chatId = this.#lookUps.nextDue(now)) {
      this.#out.push({ kind: "lookUp", chatId });
    }
  }

  oldestInFlight(): number | undefined {
    return this.#syncs.oldestInFlight();
  }

  pollTimeout(): number | undefined {
    return earliest(this.#lookUps.pollTimeout(), this.#out.link && this.#syncs.pollTimeout());
  }

  /** Looks up a chat of the user's if it is not tracked yet. */
  #discover(chatId: string, heard?: number): void {
    if (!this.#chats.has(chatId) && this.#lookUps.begin(chatId, heard)) {
      this.#out.push({ kind: "lookUp", chatId });
    }
  }

  /**
   * Tracks a chat from the user's delivered watermark, or from the first message that was pushed to this device, which
   * another device of the user may have acknowledged since. Returns whether a push arrived before.
   */
  #begin(chatId: string, delivered: number): boolean {
    const heard = this.#lookUps.end(chatId);
    const sequence = Math.min(delivered, (heard ?? Infinity) - 1);
    this.#chats.set(chatId, chatAt(sequence));
    this.#out.push({ kind: "keepPosition", chatId, sequence });
    return heard !== undefined;
  }

  #giveUp(chatId: string, error: ErrorBody): void {
    const head = detailsOf(error)["head_sequence"];
    if (error.code === "INVALID_SEQUENCE" && Number.isSafeInteger(head)) {
      const sequence = head as number;
      this.#chats.set(chatId, chatAt(sequence));
      this.#reads.delete(chatId);
      this.#out.push({ kind: "keepPosition", chatId, sequence });
      this.#out.tell("chatReset", { chatId, sequence });
    } else if (error.code === "NOT_A_MEMBER" || error.code === "NOT_FOUND") {
      this.#drop(chatId);
    } else {
      this.#out.tell("refused", error);
    }
  }

  #drop(chatId: string): void {
    this.#lookUps.end(chatId);
    this.#syncs.forget(chatId);
    this.#reads.delete(chatId);
    if (this.#chats.delete(chatId)) {
      this.#out.push({ kind: "forgetPosition", chatId });
      this.#out.tell("chatGone", { chatId });
    }
  }

  #handOut(chat: Chat, entries: Entry[]): void {
    for (const entry of entries) {
      chat.acks.handOut(positionOf(entry).sequence);
      this.#out.push({ kind: "event", event: entry });
    }
  }

  #ack(now: number, chatId: string, chat: Chat): void {
    const sequence = chat.acks.due(chat.feed.watermark);
    this.#out.link?.acks.remove(chatId);
    if (this.#out.link !== undefined && sequence !== undefined) {
      chat.acks.ack(sequence);
      this.#out.transmit(now, { type: "ack", payload: { chat_id: chatId, last_acked_sequence: sequence } });
    }
  }

  /** Schedules the ack of a chat, if there is one to send. */
  #schedule(chat: Chat, how: (acks: AckSchedule) => void): void {
    if (this.#out.link !== undefined && chat.acks.due(chat.feed.watermark) !== undefined) {
      how(this.#out.link.acks);
    }
  }

  #transmitRead(now: number, chatId: string, sequence: number): void {
    this.#out.transmit(now, { type: "mark_read", payload: { chat_id: chatId, last_read_sequence: sequence } });
  }
}

function chatAt(watermark: number): Chat {
  return { feed: new Feed(watermark), acks: new Acks(watermark) };
}
