import type { ErrorBody } from "../wire.js";
import { pause, type Random } from "./backoff.js";
import { judge } from "./retry.js";
import { earliest } from "./time.js";

/** Questions under way, at the most. */
const IN_FLIGHT_MAX = 4;
/** Answers without progress before a chat is given up. */
const STUCK_MAX = 3;

interface Progress {
  phase: "waiting" | "asked";
  /** Whether something may have been missed after the question went out. */
  again: boolean;
  failures: number;
}

/** A question under way. */
export interface Question {
  chatId: string;
  after: number;
  sentAt: number;
}

/** What an answer has brought: everything, a part, or nothing although there is more. */
export type Outcome = "complete" | "more" | "stuck";

/** What a refusal leads to: it is asked again after a pause, not at all, with a new token, or on a new connection. */
export type SyncRefused = "paused" | "giveUp" | "needsRefresh" | "needsReconnect";

/** Which chats ask for what they have missed: one question per chat and a few in all are under way. */
export class Syncs {
  /** Chats that wait for an answer or for their turn; the others are up to date. */
  readonly #chats = new Map<string, Progress>();
  /** The turns. A chat that was forgotten meanwhile may still be in here. */
  #turns: string[] = [];
  readonly #inFlight = new Map<number, Question>();
  #nextId = 0;
  /** Nothing is asked before, because the server said so. */
  #pausedUntil: number | undefined;

  /** Whether no chat is behind. */
  get isIdle(): boolean {
    return this.#chats.size === 0;
  }

  /** The chat has a hole. An answer under way may fill it, and is judged when it comes. */
  want(chatId: string): void {
    if (!this.#chats.has(chatId)) {
      this.#chats.set(chatId, { phase: "waiting", again: false, failures: 0 });
      this.#turns.push(chatId);
    }
  }

  /** The chat may lack something that an answer under way does not bring. */
  wantAnew(chatId: string): void {
    this.want(chatId);
    const progress = this.#chats.get(chatId);
    if (progress?.phase === "asked") {
      progress.again = true;
    }
  }

  /** The chat is no longer of interest. */
  forget(chatId: string): void {
    this.#chats.delete(chatId);
    for (const [id, question] of this.#inFlight) {
      if (question.chatId === chatId) {
        this.#inFlight.delete(id);
      }
    }
  }

  /** The next question to go out with its number, if one may. */
  next(now: number, watermark: (chatId: string) => number | undefined): { id: number; question: Question } | undefined {
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

  /** The question that an answer belongs to. It is followed by `finish` or `refused`. */
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
    }
    if (typeof verdict === "string") {
      return verdict;
    }
    this.#pausedUntil = Math.max(this.#pausedUntil ?? 0, now + verdict);
    progress.phase = "waiting";
    // It keeps its place: who is refused does not also lose their turn.
    this.#turns.unshift(chatId);
    return "paused";
  }

  /** The connection is gone. The next one begins with a sync of every chat. */
  disconnected(): void {
    this.#chats.clear();
    this.#turns = [];
    this.#inFlight.clear();
  }

  /** When the question that has waited longest for its answer went out. */
  oldestInFlight(): number | undefined {
    return earliest(...[...this.#inFlight.values()].map(({ sentAt }) => sentAt));
  }

  /** When the pause is over, if somebody waits for that. */
  pollTimeout(): number | undefined {
    return this.#turns.length === 0 ? undefined : this.#pausedUntil;
  }
}
