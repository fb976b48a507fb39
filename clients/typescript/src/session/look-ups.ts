import { pause, type Random } from "./backoff.js";
import { earliest } from "./time.js";

interface LookUp {
  failures: number;
  /** Absent while the question is under way. */
  againAt: number | undefined;
  /** The lowest sequence that was pushed while the chat was unknown. */
  heard: number;
}

/** Chats that are heard of but not tracked yet: each is asked about once at a time, again after a pause if it fails. */
export class LookUps {
  readonly #chats = new Map<string, LookUp>();

  /** Notes that the chat is to be looked up, and tells whether the question is new. */
  begin(chatId: string, heard = Infinity): boolean {
    const known = this.#chats.get(chatId);
    if (known === undefined) {
      this.#chats.set(chatId, { failures: 0, againAt: undefined, heard });
      return true;
    }
    known.heard = Math.min(known.heard, heard);
    return false;
  }

  /** The chat is known now. Returns the lowest sequence that was pushed meanwhile, if somebody wanted to know. */
  end(chatId: string): number | undefined {
    const heard = this.#chats.get(chatId)?.heard;
    this.#chats.delete(chatId);
    return heard;
  }

  /** The chat could not be looked up this time. */
  postpone(now: number, chatId: string, random: Random): void {
    const lookUp = this.#chats.get(chatId);
    if (lookUp !== undefined) {
      lookUp.failures += 1;
      lookUp.againAt = now + pause(lookUp.failures, random);
    }
  }

  /** A chat whose pause is over; the question is under way again. */
  nextDue(now: number): string | undefined {
    for (const [chatId, lookUp] of this.#chats) {
      if (lookUp.againAt !== undefined && lookUp.againAt <= now) {
        lookUp.againAt = undefined;
        return chatId;
      }
    }
    return undefined;
  }

  pollTimeout(): number | undefined {
    return earliest(...[...this.#chats.values()].map(({ againAt }) => againAt));
  }
}
