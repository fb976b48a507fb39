import { pause, type Random } from "./backoff.js";
import { earliest } from "./time.js";

interface LookUp {
  failures: number;
  /** Time of the retry; absent while the look-up is in flight. */
  againAt: number | undefined;
  /** The lowest sequence that was pushed while the chat was not tracked. */
  heard: number;
}

/**
 * Chats that were mentioned by the server but are not tracked yet. Each has at most one look-up in flight, which is
 * retried with backoff.
 */
export class LookUps {
  readonly #chats = new Map<string, LookUp>();

  /** Records that the chat has to be looked up, and returns whether that is new. */
  begin(chatId: string, heard = Infinity): boolean {
    const known = this.#chats.get(chatId);
    if (known === undefined) {
      this.#chats.set(chatId, { failures: 0, againAt: undefined, heard });
      return true;
    }
    known.heard = Math.min(known.heard, heard);
    return false;
  }

  /** Ends the look-up of a chat. Returns the lowest sequence that was pushed for it, if it was being looked up. */
  end(chatId: string): number | undefined {
    const heard = this.#chats.get(chatId)?.heard;
    this.#chats.delete(chatId);
    return heard;
  }

  /** Schedules a retry after a failed look-up. */
  postpone(now: number, chatId: string, random: Random): void {
    const lookUp = this.#chats.get(chatId);
    if (lookUp !== undefined) {
      lookUp.failures += 1;
      lookUp.againAt = now + pause(lookUp.failures, random);
    }
  }

  /** A chat with a due retry; its look-up counts as in flight again. */
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
