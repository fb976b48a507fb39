import type { Outgoing } from "./client.js";
import { SendError } from "./errors.js";
import { isReaction } from "./reaction.js";
import { isUpdate, type QueuedEntry, type Storage } from "./storage/storage.js";
import type { ContentType, SendMessageAck } from "./wire.js";

/** Most queued sends and updates. */
const LENGTH_MAX = 1000;
/** Most bytes of a message. */
const CONTENT_BYTES_MAX = 4096;

const HALF_CHARACTER = /[\uD800-\uDFFF]/u;

interface Outcome {
  clientMessageId: string;
  resolve: (ack: SendMessageAck) => void;
  reject: (error: SendError) => void;
}

/**
 * The stored sends and updates without an acknowledgement, and the promises of their callers.
 *
 * Changes of the storage run one after another, so entries are stored in the order of the calls, and each is stored
 * before its first attempt.
 */
export class Outbox {
  /** In the order of the calls: a repeated send is settled after the first one. */
  #outcomes: Outcome[] = [];
  #last: Promise<unknown> = Promise.resolve();
  /** The ids of the stored entries, once they are loaded. */
  #kept: Set<string> | undefined;
  readonly #storage: Storage;

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  /** Stores a send or an update, then calls `onKept`; or calls `onFailed` if it cannot be stored. */
  add(entry: QueuedEntry, onKept: () => void, onFailed: (error: SendError) => void): Outgoing {
    const { clientMessageId } = entry;
    let refuse: (error: SendError) => void = () => undefined;
    const acked = new Promise<SendMessageAck>((resolve, reject) => {
      const outcome = { clientMessageId, resolve, reject };
      this.#outcomes.push(outcome);
      refuse = (error) => {
        this.#outcomes = this.#outcomes.filter((other) => other !== outcome);
        reject(error);
      };
    });
    // Prevents an unhandled rejection: callers that ignore the promise get a `failed` event.
    acked.catch(() => undefined);
    void this.#inOrder(async () => {
      try {
        await this.#keep(entry);
      } catch (cause) {
        const error = cause instanceof SendError ? cause : notKept(cause);
        refuse(error);
        onFailed(error);
        return;
      }
      onKept();
    });
    return { clientMessageId, acked };
  }

  /** All stored entries, oldest first, after the earlier calls are done. */
  queued(): Promise<QueuedEntry[]> {
    return this.#inOrder(() => this.#storage.sends());
  }

  /** Loads all stored entries, in order. Earlier additions are among them; `onKept` of a later one is called after this. */
  async load(onLoaded: (entries: QueuedEntry[]) => void): Promise<void> {
    await this.#inOrder(async () => {
      const entries = await this.#storage.sends();
      this.#kept = new Set(entries.map(({ clientMessageId }) => clientMessageId));
      onLoaded(entries);
    });
  }

  /** Settles a durable entry. Resolves once it is removed from the storage. */
  async acked(ack: SendMessageAck): Promise<void> {
    this.#take(ack.client_message_id)?.resolve(ack);
    await this.#remove(ack.client_message_id);
  }

  /** Settles a permanently refused entry. Resolves once it is removed from the storage. */
  async refused({ clientMessageId, error }: { clientMessageId: string; error: SendError }): Promise<void> {
    this.#take(clientMessageId)?.reject(error);
    await this.#remove(clientMessageId);
  }

  /** Rejects all pending promises. Stored entries stay in the storage. */
  close(): void {
    for (const { reject } of this.#outcomes.splice(0)) {
      reject(new SendError("the client was closed first; the message is kept for the next connect", "CLOSED"));
    }
  }

  /** Resets the outbox after the storage was cleared. */
  forget(): void {
    this.close();
    this.#kept = undefined;
  }

  async #keep(entry: QueuedEntry): Promise<void> {
    check(entry);
    this.#kept ??= new Set((await this.#storage.sends()).map(({ clientMessageId }) => clientMessageId));
    if (this.#kept.size >= LENGTH_MAX) {
      throw new SendError(`${this.#kept.size} sends are waiting, which is the limit; wait for an ack`, "QUEUE_FULL");
    }
    await this.#storage.addSend(entry);
    this.#kept.add(entry.clientMessageId);
  }

  #remove(clientMessageId: string): Promise<void> {
    return this.#inOrder(async () => {
      await this.#storage.removeSend(clientMessageId);
      this.#kept?.delete(clientMessageId);
    });
  }

  #take(clientMessageId: string): Outcome | undefined {
    const at = this.#outcomes.findIndex((outcome) => outcome.clientMessageId === clientMessageId);
    return at === -1 ? undefined : this.#outcomes.splice(at, 1)[0];
  }

  #inOrder<T>(act: () => Promise<T>): Promise<T> {
    const result = this.#last.then(act);
    this.#last = result.catch(() => undefined);
    return result;
  }
}

function notKept(cause: unknown): SendError {
  return new SendError("the storage did not take the message, so it was not sent", "NOT_KEPT", {}, cause);
}

/**
 * Refuses an entry that the server would refuse without naming it, or by closing the connection: it would be retried
 * without end and block all later ones.
 */
function check(entry: QueuedEntry): void {
  if (!isUpdate(entry) || entry.action === "edit") {
    checkContent(entry.content);
    checkJson(entry);
  } else if (entry.action !== "delete") {
    checkReaction(entry.reaction);
  }
}

function checkReaction(reaction: string): void {
  if (!isReaction(reaction)) {
    throw new SendError(
      "a reaction is an emoji or a short code of 1 to 64 bytes, without spaces and invisible characters",
      "INVALID_MESSAGE",
    );
  }
}

function checkContent(content: string): void {
  const bytes = new TextEncoder().encode(content).length;
  if (bytes === 0 || content.includes("\0") || HALF_CHARACTER.test(content)) {
    throw new SendError("a message needs a character, and has no NUL and no half of a pair", "INVALID_MESSAGE");
  }
  if (bytes > CONTENT_BYTES_MAX) {
    throw new SendError(`the message has ${bytes} bytes, limit is ${CONTENT_BYTES_MAX}`, "MESSAGE_TOO_LARGE");
  }
}

/** Refuses content that is not what its type says: the server would refuse it too, and disconnect after ten of these. */
function checkJson({ content, contentType }: { content: string; contentType?: ContentType }): void {
  if (contentType !== "application/json") {
    return;
  }
  try {
    JSON.parse(content);
  } catch (cause) {
    throw new SendError("the message is not the JSON that its content type says", "INVALID_MESSAGE", {}, cause);
  }
}
