import type { Outgoing, SendOptions } from "./client.js";
import { SendError } from "./errors.js";
import type { QueuedSend, Storage } from "./storage/storage.js";
import type { SendMessageAck } from "./wire.js";

/** Sends that may wait, at the most. */
const LENGTH_MAX = 1000;
/** Bytes of a message, at the most. */
const CONTENT_BYTES_MAX = 4096;

const HALF_CHARACTER = /[\uD800-\uDFFF]/u;

interface Outcome {
  clientMessageId: string;
  resolve: (ack: SendMessageAck) => void;
  reject: (error: SendError) => void;
}

/**
 * The sends that are kept until they are acknowledged, and who waits for them.
 *
 * Every change of the storage waits for the one before it, so sends are kept in the order of the calls, and a send is
 * kept before anybody tries to send it.
 */
export class Outbox {
  /** In the order of the calls: whoever repeats a send waits behind the first. */
  #outcomes: Outcome[] = [];
  #last: Promise<unknown> = Promise.resolve();
  /** The ids of what is kept, once they are known. */
  #kept: Set<string> | undefined;
  readonly #storage: Storage;

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  /** Keeps a send, then calls `onKept`; or calls `onFailed` if it cannot be kept. */
  add(
    chatId: string,
    content: string,
    options: SendOptions,
    onKept: (send: QueuedSend) => void,
    onFailed: (send: QueuedSend, error: SendError) => void,
  ): Outgoing {
    const { clientMessageId = crypto.randomUUID(), ...rest } = options;
    const send: QueuedSend = { clientMessageId, chatId, content, ...rest, queuedAt: Date.now() };
    let refuse: (error: SendError) => void = () => undefined;
    const acked = new Promise<SendMessageAck>((resolve, reject) => {
      const outcome = { clientMessageId, resolve, reject };
      this.#outcomes.push(outcome);
      refuse = (error) => {
        this.#outcomes = this.#outcomes.filter((other) => other !== outcome);
        reject(error);
      };
    });
    // Whoever does not wait for the outcome hears of a failure as an event.
    acked.catch(() => undefined);
    void this.#inOrder(async () => {
      try {
        await this.#keep(send);
      } catch (cause) {
        const error = cause instanceof SendError ? cause : notKept(cause);
        refuse(error);
        onFailed(send, error);
        return;
      }
      onKept(send);
    });
    return { clientMessageId, acked };
  }

  /** Everything that is kept, oldest first, when the calls before this one are done. */
  queued(): Promise<QueuedSend[]> {
    return this.#inOrder(() => this.#storage.sends());
  }

  /** Takes every send that is kept, in order and before any that is added from now on. */
  async load(onKept: (send: QueuedSend) => void): Promise<void> {
    await this.#inOrder(async () => {
      const sends = await this.#storage.sends();
      this.#kept = new Set(sends.map(({ clientMessageId }) => clientMessageId));
      sends.forEach(onKept);
    });
  }

  /** A send is durable. Resolves when it is kept here no longer. */
  async acked(ack: SendMessageAck): Promise<void> {
    this.#take(ack.client_message_id)?.resolve(ack);
    await this.#remove(ack.client_message_id);
  }

  /** A send was refused for good. Resolves when it is kept no longer. */
  async refused({ clientMessageId, error }: { clientMessageId: string; error: SendError }): Promise<void> {
    this.#take(clientMessageId)?.reject(error);
    await this.#remove(clientMessageId);
  }

  /** Nobody sends any more. What is kept stays so. */
  close(): void {
    for (const { reject } of this.#outcomes.splice(0)) {
      reject(new SendError("the client was closed first; the message is kept for the next connect", "CLOSED"));
    }
  }

  /** The storage was cleared. */
  forget(): void {
    this.close();
    this.#kept = undefined;
  }

  async #keep(send: QueuedSend): Promise<void> {
    checkContent(send.content);
    this.#kept ??= new Set((await this.#storage.sends()).map(({ clientMessageId }) => clientMessageId));
    if (this.#kept.size >= LENGTH_MAX) {
      throw new SendError(`${this.#kept.size} sends are waiting, which is the limit; wait for an ack`, "QUEUE_FULL");
    }
    await this.#storage.addSend(send);
    this.#kept.add(send.clientMessageId);
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
 * Refuses what the server would refuse without naming the send, or with the end of the connection: repeated for ever,
 * it would block everything behind it.
 */
function checkContent(content: string): void {
  const bytes = new TextEncoder().encode(content).length;
  if (bytes === 0 || content.includes("\0") || HALF_CHARACTER.test(content)) {
    throw new SendError("a message needs a character, and has no NUL and no half of a pair", "INVALID_MESSAGE");
  }
  if (bytes > CONTENT_BYTES_MAX) {
    throw new SendError(`the message has ${bytes} bytes, limit is ${CONTENT_BYTES_MAX}`, "MESSAGE_TOO_LARGE");
  }
}
