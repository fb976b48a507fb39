import type { SendError } from "./errors.js";
import type {
  ChatUpdated,
  ErrorBody,
  Message,
  MessageUpdated,
  Presence,
  Receipt,
  SendMessageAck,
  TypingIndicator,
} from "./wire.js";

/** Why a client no longer reconnects. */
export type StopReason =
  /** The application closed it. */
  | "closed"
  /** The user has to sign in again: the session was revoked, or its token cannot be renewed. */
  | "signedOut"
  /** The same device opened a newer connection, which replaces this one. */
  | "duplicateConnection";

/** The events of a client, with the argument of their listeners. */
export interface ClientEvents {
  /** The connection is established; missed messages follow. */
  connected: { connectionId: string; userId: string };
  /** The connection is lost; the client reconnects after `retryInMs`. */
  disconnected: { retryInMs: number };
  /** All missed messages were delivered. Once per connection, and after each `resync` of the server. */
  caughtUp: Record<string, never>;
  /** The next message of a chat: each exactly once and in order, including the user's own. */
  message: Message;
  /**
   * The next update of a message of a chat, in one order with its messages: an edit, a deletion, a reaction.
   * `withUpdated` applies it to your copy of the message.
   */
  updated: MessageUpdated;
  /** A send or an update is durable. */
  sent: SendMessageAck;
  /** A send or an update was refused permanently, and is no longer queued. */
  failed: { clientMessageId: string; chatId: string; error: SendError };
  /** A member's watermarks have moved. */
  receipt: Receipt;
  /** Messages have expired. */
  expired: { chatId: string; sequences: number[] };
  /** A chat or its members have changed. */
  chatUpdated: ChatUpdated;
  /** The user is no longer a member of the chat; no more messages follow. */
  chatGone: { chatId: string };
  /**
   * The head of a chat is below this device's position, for example after a restore from a backup. Messages continue
   * after `sequence`.
   */
  chatReset: { chatId: string; sequence: number };
  /** A member is typing, or has stopped. */
  typing: TypingIndicator;
  /** The presence of users has changed. */
  presence: Presence[];
  /** The server refused a request that has no reply of its own: an ack, a read mark, a sync. */
  refused: ErrorBody;
  /** A listener has failed. A message or an update is delivered again after `retryInMs`, and no event overtakes it. */
  listenerFailed: { event: string; error: unknown; retryInMs?: number };
  /** A change of the storage failed. Until one succeeds again, this device may repeat its actions. */
  storageFailed: { error: unknown };
  /** The session has ended. `connect` begins another one. */
  stopped: { reason: StopReason };
}

/** One event with its name. */
export type ClientEvent = {
  [Name in keyof ClientEvents]: { name: Name; detail: ClientEvents[Name] };
}[keyof ClientEvents];

/** A listener. The next event waits for the promise that it may return. */
export type Listener<Name extends keyof ClientEvents> = (detail: ClientEvents[Name]) => unknown;

/** The registered listeners. */
export class Emitter {
  readonly #listeners = new Map<string, Set<(detail: never) => unknown>>();

  /** Calls `listener` with every event of this name, until the returned function is called. */
  on<Name extends keyof ClientEvents>(name: Name, listener: Listener<Name>): () => void {
    const listeners = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, listeners.add(listener));
    return () => void listeners.delete(listener);
  }

  /** Calls every listener and waits for all of them. Rejects with the first failure. */
  async emit({ name, detail }: ClientEvent): Promise<void> {
    const listeners = [...(this.#listeners.get(name) ?? [])];
    await Promise.all(listeners.map(async (listener) => listener(detail as never)));
  }
}
