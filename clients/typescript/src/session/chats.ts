import { detailsOf } from "../errors.js";
import type { ChatUpdated, ErrorBody, Frames, Message } from "../wire.js";
import { Acks } from "./acks.js";
import type { Random } from "./backoff.js";
import { Feed } from "./feed.js";
import { LookUps } from "./look-ups.js";
import type { Out } from "./out.js";
import type { ListedChat, LookUpFailure } from "./outputs.js";
import { Syncs, type SyncRefused } from "./syncs.js";
import { earliest } from "./time.js";

/** An ack waits this long for others to join it. */
const ACK_DELAY_MS = 5000;
/** Messages in a page of a sync. */
const SYNC_PAGE_MAX = 500;

interface Chat {
  feed: Feed;
  acks: Acks;
}

/**
 * The chats of the user: what was handed out of each, what is missing, and what the server is told about it.
 *
 * A chat that is heard of is looked up, then tracked from one sequence on; that place is kept. From then on each of its
 * messages is handed out exactly once and in order.
 */
export class Chats {
  readonly #chats = new Map<string, Chat>();
  readonly #lookUps = new LookUps();
  readonly #syncs = new Syncs();
  /** The furthest read mark of each chat. They have no answer, so each connection begins by repeating them. */
  readonly #reads = new Map<string, number>();
  /** What is left to be done before the application can be told that it has everything. */
  #catchingUp: "no" | "listing" | "syncing" = "no";
  readonly #out: Out;
  readonly #random: Random;

  constructor(out: Out, random: Random) {
    this.#out = out;
    this.#random = random;
  }

  /** Goes on with a chat where this device was. */
  resume(chatId: string, sequence: number): void {
    this.#chats.set(chatId, chatAt(sequence));
  }

  /** Goes on with another session's read marks. */
  takeReads(other: Chats): void {
    other.#reads.forEach((sequence, chatId) => this.#reads.set(chatId, sequence));
  }

  /** Says that everything up to `sequence` has been read. */
  markRead(now: number, chatId: string, sequence: number): void {
    if (sequence > (this.#reads.get(chatId) ?? 0)) {
      this.#reads.set(chatId, sequence);
      this.#transmitRead(now, chatId, sequence);
    }
  }

  /** Says that the application has stored this message and all before it, which are acknowledged soon. */
  stored(now: number, chatId: string, sequence: number): void {
    const chat = this.#chats.get(chatId);
    if (chat === undefined) {
      return;
    }
    chat.acks.store(sequence);
    if (chat.acks.isBatch(chat.feed.watermark)) {
      this.#ack(now, chatId, chat);
    } else {
      this.#ackSoon(now, chat);
    }
  }

  /** The connection stands: what the last one may have lost is said again, and what was missed is asked for. */
  connected(now: number): void {
    this.#chats.forEach((chat) => this.#ackSoon(now, chat));
    this.#reads.forEach((sequence, chatId) => this.#transmitRead(now, chatId, sequence));
    this.resync();
  }

  /** What was under way on the connection is so no more. */
  disconnected(): void {
    this.#syncs.disconnected();
    this.#catchingUp = "no";
    for (const { acks } of this.#chats.values()) {
      acks.forgetUnconfirmed();
    }
  }

  /** Asks for everything that may have been missed: chats that are new, and every chat that is known. */
  resync(): void {
    this.#catchingUp = "listing";
    this.#out.push({ kind: "listChats" });
    for (const chatId of this.#chats.keys()) {
      this.#syncs.wantAnew(chatId);
    }
  }

  /**
   * The list of the user's chats is here. One that is not tracked is from now on, and is synced unless nothing was
   * missed: the head is where the user is, and no push came while the chat was unknown.
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

  /** This is how far the user has come in a chat on any device. */
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

  handleMessage(message: Message): void {
    const chat = this.#chats.get(message.chat_id);
    if (chat === undefined) {
      this.#discover(message.chat_id, message.sequence);
      return;
    }
    this.#handOut(chat, chat.feed.offer(message));
    if (chat.feed.hasHole) {
      this.#syncs.want(message.chat_id);
    }
  }

  handlePage(now: number, id: number, page: Frames["SyncResponse"]): void {
    const question = this.#syncs.answered(id);
    const chat = question && this.#chats.get(question.chatId);
    if (question === undefined || chat === undefined) {
      return;
    }
    const lastSent = page.messages.at(-1)?.sequence ?? question.after;
    const examined = page.has_more ? (page.next_sequence ? page.next_sequence - 1 : lastSent) : page.head_sequence;
    this.#handOut(chat, chat.feed.offerPage(page.messages, examined));
    const isComplete = !page.has_more && !chat.feed.hasHole;
    const hasMoved = chat.feed.watermark > question.after;
    this.#syncs.finish(now, question.chatId, isComplete ? "complete" : hasMoved ? "more" : "stuck", this.#random);
    // A range proven empty is acknowledged too, though the application has nothing to store.
    this.#ackSoon(now, chat);
  }

  /** A sync was refused. Returns what the connection has to do with it. */
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
      // Whatever is told of a chat is told to its members, so an unknown one is the user's.
      this.#discover(updated.chat_id);
    }
  }

  /** Asks as much as may be under way, and tells when there is nothing left to ask for. */
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

  /** Acknowledges everything that is stored. */
  flushAcks(now: number): void {
    this.#chats.forEach((chat, chatId) => this.#ack(now, chatId, chat));
    if (this.#out.link !== undefined) {
      this.#out.link.acksDueAt = undefined;
    }
  }

  /** Looks up again whatever could not be looked up before. */
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

  /** Takes note of a chat of the user's; one that is not tracked is looked up. */
  #discover(chatId: string, heard?: number): void {
    if (!this.#chats.has(chatId) && this.#lookUps.begin(chatId, heard)) {
      this.#out.push({ kind: "lookUp", chatId });
    }
  }

  /**
   * Tracks a chat from where the user is, or from the first push that this device heard, which another device of the
   * user may have acknowledged since. Tells whether anything was heard of the chat.
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

  #handOut(chat: Chat, messages: Message[]): void {
    for (const message of messages) {
      chat.acks.handOut(message.sequence);
      this.#out.tell("message", message);
    }
  }

  #ack(now: number, chatId: string, chat: Chat): void {
    const sequence = chat.acks.due(chat.feed.watermark);
    if (this.#out.link !== undefined && sequence !== undefined) {
      chat.acks.ack(sequence);
      this.#out.transmit(now, { type: "ack", payload: { chat_id: chatId, last_acked_sequence: sequence } });
    }
  }

  #ackSoon(now: number, chat: Chat): void {
    if (this.#out.link !== undefined && chat.acks.due(chat.feed.watermark) !== undefined) {
      this.#out.link.acksDueAt ??= now + ACK_DELAY_MS;
    }
  }

  #transmitRead(now: number, chatId: string, sequence: number): void {
    this.#out.transmit(now, { type: "mark_read", payload: { chat_id: chatId, last_read_sequence: sequence } });
  }
}

function chatAt(watermark: number): Chat {
  return { feed: new Feed(watermark), acks: new Acks(watermark) };
}
