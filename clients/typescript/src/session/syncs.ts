import type { ErrorBody } from "../wire.js";
import { pause, type Random } from "./backoff.js";
import { judge } from "./retry.js";
import { earliest } from "./time.js";

/** Most sync requests in flight. */
const IN_FLIGHT_MAX = 4;
/** Responses without progress before a chat is abandoned. */
const STUCK_MAX = 3;
/**
 * Shortest time for which a chat is abandoned. Without a new attempt, a chat in which nobody writes would stay behind
 * until the next connection; with an earlier one, its failures would delay the syncs of all other chats.
 */
const GIVEN_UP_MS = 30_000;

interface Progress {
  phase: "waiting" | "asked";
  /** Whether messages may have been missed after the request was sent. */
  again: boolean;
  failures: number;
}

/** A sync request in flight. */
export interface Question {
  chatId: string;
  after: number;
  sentAt: number;
}

/** The result of a sync response: everything, a part, or no progress although messages are missing. */
export type Outcome = "complete" | "more" | "stuck";

/** The consequence of a refused sync: a retry after a delay, none, with a new token, or on a new connection. */
export type SyncRefused = "paused" | "giveUp" | "needsRefresh" | "needsReconnect";

/** Schedules sync requests: at most one per chat and a few in total are in flight. */
export class Syncs {
  /** Chats with a sync in flight or queued; all others are up to date. */
  readonly #chats = new Map<string, Progress>();
  /** The queue of chats to sync. It may still contain a forgotten chat. */
  #turns: string[] = [];
  readonly #inFlight = new Map<number, Question>();
  /** Chats whose sync was given up because of a failure of the server, and when it is tried again. */
  readonly #givenUp = new Map<string, number>();
  #nextId = 0;
  /** No sync is sent before this time, because the server asked for a delay or a sync made no progress. */
  #pausedUntil: number | undefined;

  /** Whether every chat is up to date. */
  get isIdle(): boolean {
    return this.#chats.size === 0;
  }

  /**
   * Requests a sync because the chat has a gap. A response in flight may fill it; the gap is checked again when that
   * arrives.
   */
  want(chatId: string): void {
    this.#givenUp.delete(chatId);
    if (!this.#chats.has(chatId)) {
      this.#chats.set(chatId, { phase: "waiting", again: false, failures: 0 });
      this.#turns.push(chatId);
    }
  }

  /** Requests a sync that a response already in flight cannot replace. */
  wantAnew(chatId: string): void {
    this.want(chatId);
    const progress = this.#chats.get(chatId);
    if (progress?.phase === "asked") {
      progress.again = true;
    }
  }

  /** Drops the pending syncs of a chat. */
  forget(chatId: string): void {
    this.#chats.delete(chatId);
    this.#givenUp.delete(chatId);
    for (const [id, question] of this.#inFlight) {
      if (question.chatId === chatId) {
        this.#inFlight.delete(id);
      }
    }
  }

  /** The next sync request and its number, if one may be sent. */
  next(now: number, watermark: (chatId: string) => number | undefined): { id: number; question: Question } | undefined {
    for (const [chatId, until] of this.#givenUp) {
      if (until <= now) {
        this.want(chatId);
      }
    }
    if (this.#pausedUntil !== undefined && now < this.#pausedUntil) {
      return undefined;
    }
    this.#pausedUntil = undefined;
    if (this.#inFlight.size >= IN_FLIGHT_MAX) {
      return undefined;
    }
    for (let chatId = this.#turns.shift(); chatId !== undefined; chatId = this.#turns.shift()) {
      const progress = this.#chats.get(chatId);
      const after = watermark(chatId);
      if (progress?.phase !== "waiting" || after === undefined) {
        continue;
      }
      progress.phase = "asked";
      progress.again = false;
      const id = this.#nextId;
      this.#nextId += 1;
      const question = { chatId, after, sentAt: now };
      this.#inFlight.set(id, question);
      return { id, question };
    }
    return undefined;
  }

  /** Takes the request that a response belongs to. `finish` or `refused` must follow. */
  answered(id: number): Question | undefined {
    const question = this.#inFlight.get(id);
    this.#inFlight.delete(id);
    return question;
  }

  finish(now: number, chatId: string, outcome: Outcome, random: Random): void {
    const progress = this.#chats.get(chatId);
    if (progress === undefined) {
      return;
    }
    const isOver =
      (outcome === "complete" && !progress.again) || (outcome === "stuck" && progress.failures >= STUCK_MAX);
    if (isOver) {
      this.#chats.delete(chatId);
      if (outcome === "stuck") {
        this.#giveUp(now, chatId, progress.failures, random);
      }
      return;
    }
    if (outcome === "stuck") {
      progress.failures += 1;
      this.#pausedUntil = now + pause(progress.failures, random);
    } else {
      progress.failures = 0;
    }
    progress.phase = "waiting";
    this.#turns.push(chatId);
  }

  refused(now: number, chatId: string, error: ErrorBody, random: Random): SyncRefused {
    const progress = this.#chats.get(chatId);
    if (progress === undefined) {
      return "giveUp";
    }
    progress.failures += 1;
    const verdict = judge(error, progress.failures, random);
    if (verdict === "giveUp") {
      this.#chats.delete(chatId);
      if (error.code === "INTERNAL_ERROR") {
        this.#giveUp(now, chatId, progress.failures, random);
      }
    }
    if (typeof verdict === "string") {
      return verdict;
    }
    this.#pausedUntil = Math.max(this.#pausedUntil ?? 0, now + verdict);
    progress.phase = "waiting";
    // A refused chat goes back to the front of the queue, so it does not lose its turn.
    this.#turns.unshift(chatId);
    return "paused";
  }

  /** Drops all syncs of a lost connection. The next connection begins with a sync of every chat. */
  disconnected(): void {
    this.#chats.clear();
    this.#givenUp.clear();
    this.#turns = [];
    this.#inFlight.clear();
  }

  /** When the oldest request in flight was sent. */
  oldestInFlight(): number | undefined {
    return earliest(...[...this.#inFlight.values()].map(({ sentAt }) => sentAt));
  }

  /** When the delay is over, if a chat is queued, or a chat that was given up is tried again. */
  pollTimeout(): number | undefined {
    return earliest(this.#turns.length === 0 ? undefined : this.#pausedUntil, ...this.#givenUp.values());
  }

  #giveUp(now: number, chatId: string, failures: number, random: Random): void {
    this.#givenUp.set(chatId, now + GIVEN_UP_MS + pause(failures, random));
  }
}
