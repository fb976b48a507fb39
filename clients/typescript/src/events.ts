import type { SendError } from "./errors.js";
import type { ChatUpdated, ErrorBody, Message, Presence, Receipt, SendMessageAck, TypingIndicator } from "./wire.js";

/** Why a client does not reconnect by itself any more. */
export type StopReason =
  /** The application closed it. */
  | "closed"
  /** The user has to sign in again: the session was revoked, or its token cannot be renewed. */
  | "signedOut"
  /** The same device has connected from elsewhere, and the newer connection wins. */
  | "duplicateConnection";

/** What an application can listen to, with what each listener is given. */
export interface ClientEvents {
  /** The connection stands; what was missed follows. */
  connected: { connectionId: string; userId: string };
  /** There is no connection; the next try comes by itself after `retryInMs`. */
  disconnected: { retryInMs: number };
  /** Everything that was missed has been told. Once for each connection, and after each `resync` of the server. */
  caughtUp: Record<string, never>;
  /** The next message of a chat: each exactly once, in order, one's own among them. */
  message: Message;
  /** A send is durable. */
  sent: SendMessageAck;
  /** A send was refused for good, and is no longer queued. */
  failed: { clientMessageId: string; chatId: string; error: SendError };
  /** A member's watermarks have moved. */
  receipt: Receipt;
  /** Messages are gone. */
  expired: { chatId: string; sequences: number[] };
  /** A chat or its members have changed. */
  chatUpdated: ChatUpdated;
  /** The chat is no longer the user's: nothing more comes from it. */
  chatGone: { chatId: string };
  /** The server knows less of a chat than this device did (a restored backup); messages go on after `sequence`. */
  chatReset: { chatId: string; sequence: number };
  /** A member types, or no longer does. */
  typing: TypingIndicator;
  /** Users came or went. */
  presence: Presence[];
  /** Something was refused that has no answer of its own: an ack, a read mark, a sync. */
  refused: ErrorBody;
  /** A listener has failed. A `message` is told again after `retryInMs`, and nothing overtakes it. */
  listenerFailed: { event: string; error: unknown; retryInMs?: number };
  /** The storage has refused a change. Until it takes one again, this device may repeat what it has done. */
  storageFailed: { error: unknown };
  /** The session is over. `connect` begins another one. */
  stopped: { reason: StopReason };
}

/** One event with its name. */
export type ClientEvent = {
  [Name in keyof ClientEvents]: { name: Name; detail: ClientEvents[Name] };
}[keyof ClientEvents];

/** What is called with an event. The next event waits for the promise it may return. */
export type Listener<Name extends keyof ClientEvents> = (detail: ClientEvents[Name]) => unknown;

/** Who listens to what. */
export class Emitter {
  readonly #listeners = new Map<string, Set<(detail: never) => unknown>>();

  /** Calls `listener` with every event of this name, until the function that is returned is called. */
  on<Name extends keyof ClientEvents>(name: Name, listener: Listener<Name>): () => void {
    const listeners = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, listeners.add(listener));
    return () => void listeners.delete(listener);
  }

  /** Calls every listener, and waits for all of them. Fails with the first that fails. */
  async emit({ name, detail }: ClientEvent): Promise<void> {
    const listeners = [...(this.#listeners.get(name) ?? [])];
    await Promise.all(listeners.map(async (listener) => listener(detail as never)));
  }
}
