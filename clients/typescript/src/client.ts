import { Access } from "./access.js";
import { Api } from "./api.js";
import { Driver } from "./driver.js";
import { ApiError } from "./errors.js";
import { Emitter, type ClientEvents, type Listener } from "./events.js";
import { Http } from "./http.js";
import { memoryStorage } from "./storage/memory.js";
import { isUpdate, type QueuedSend, type QueuedUpdate, type Storage, type UpdateAction } from "./storage/storage.js";
import type { ContentType, SendMessageAck, Tokens } from "./wire.js";

/** The options of a client. */
export interface ClientOptions {
  /** The base URL of the server: `https://chat.example`. */
  baseUrl: string;
  /** The id of this device; another id is another device. Generated once and stored by default. */
  deviceId?: string;
  /** Stores the device id, tokens, queue of sends and positions; in memory by default. */
  storage?: Storage;
  /**
   * The tokens of an earlier run, instead of a sign-in. Tokens in the storage take precedence, because they are newer.
   */
  tokens?: Tokens;
  /** Returns your own JWTs (`[auth.external]`): called for every token, and again after a refusal. */
  token?: () => Promise<string>;
  /** The `WebSocket` to use where there is no global one, as in Node before 22. */
  webSocket?: typeof WebSocket;
  /** The `fetch` to use instead of the global one. */
  fetch?: typeof fetch;
  /**
   * Initial reconnect delay, 1000 by default; it doubles with every failure up to 30 s. Use a shorter one only for a
   * client that does not share its server: many clients of a failed server would reconnect at once.
   */
  reconnectPauseMs?: number;
}

/** The options of a send. */
export interface SendOptions {
  /** Defaults to `text/plain`. */
  contentType?: ContentType;
  /** A JSON object of your application, of at most 1024 bytes as compact JSON. Every member reads it with the message. */
  metadata?: Record<string, unknown>;
  /** Lifetime of the message; defaults to that of its chat. */
  ttlSeconds?: number;
  /** The sender's id for the send, a UUID. Sends with the same id create one message. */
  clientMessageId?: string;
}

/** The options of an update. */
export interface UpdateOptions {
  /** The user's id for the update, a UUID. Calls with the same id make one update. */
  clientMessageId?: string;
}

/** The options of an edit. They replace those of the message. */
export interface EditOptions extends UpdateOptions {
  /** Defaults to `text/plain`. */
  contentType?: ContentType;
  /** A JSON object of your application, of at most 1024 bytes as compact JSON. */
  metadata?: Record<string, unknown>;
}

/** A queued send or update. */
export interface Outgoing {
  clientMessageId: string;
  /** Resolves when the entry is durable; rejects with a `SendError` if it is refused or the client closes first. */
  acked: Promise<SendMessageAck>;
}

/** One device of one user. */
export class Client {
  /** The REST calls, including sign-in. */
  readonly api: Api;
  readonly #access: Access;
  readonly #events = new Emitter();
  readonly #driver: Driver;

  constructor(options: ClientOptions) {
    const baseUrl = checked(options.baseUrl);
    const storage = options.storage ?? memoryStorage();
    const http = new Http(baseUrl, options.fetch ?? ((input, init) => fetch(input, init)));
    this.#access = new Access(http, storage, {
      deviceId: options.deviceId,
      tokens: options.tokens,
      external: options.token,
      onForget: () => this.#driver.forget(),
    });
    this.api = new Api(http, this.#access);
    this.#driver = new Driver({
      baseUrl,
      api: this.api,
      access: this.#access,
      storage,
      events: this.#events,
      webSocket: options.webSocket ?? globalThis.WebSocket,
      reconnectPauseMs: options.reconnectPauseMs,
    });
  }

  /** The id of this device. */
  deviceId(): Promise<string> {
    return this.#access.deviceId();
  }

  /** Whether this device is signed in, as far as it knows. */
  isSignedIn(): Promise<boolean> {
    return this.#access.isSignedIn();
  }

  /**
   * Connects, and reconnects until `close` is called or the user is signed out. It returns at once; `connected` arrives
   * as an event. The session tracks every chat of the user: from this device's position, or else from the user's
   * delivered watermark over all devices.
   */
  connect(): void {
    this.#driver.connect();
  }

  /** Acknowledges the processed messages, and closes the connection. Queued sends stay in the storage. */
  close(): Promise<void> {
    return this.#driver.close();
  }

  /**
   * Queues a message. It is stored before the first attempt, and sent until the server has accepted it or refused it
   * permanently. Messages in one chat keep the order of these calls.
   */
  send(chatId: string, content: string, options: SendOptions = {}): Outgoing {
    return this.#driver.send({ chatId, content, ...identified(options) });
  }

  /**
   * Replaces content, content type and metadata of one of the user's own messages. Like every update it is queued and
   * retried as `send` does it, in one order with the sends of its chat. `updated` has the new state of the message, and
   * `withQueued` shows it before.
   */
  editMessage(chatId: string, sequence: number, content: string, options: EditOptions = {}): Outgoing {
    return this.#update(chatId, sequence, { action: "edit", content }, options);
  }

  /** Deletes a message for everyone: one of the user's own, or as an admin of a group any message. */
  deleteMessage(chatId: string, sequence: number, options: UpdateOptions = {}): Outgoing {
    return this.#update(chatId, sequence, { action: "delete" }, options);
  }

  /** Adds a reaction of the user to a message: an emoji or a short code. */
  addReaction(chatId: string, sequence: number, reaction: string, options: UpdateOptions = {}): Outgoing {
    return this.#update(chatId, sequence, { action: "react", reaction }, options);
  }

  /** Removes a reaction of the user from a message. */
  removeReaction(chatId: string, sequence: number, reaction: string, options: UpdateOptions = {}): Outgoing {
    return this.#update(chatId, sequence, { action: "unreact", reaction }, options);
  }

  /** The sends that are not acknowledged yet, oldest first. */
  async queued(): Promise<QueuedSend[]> {
    return (await this.#driver.queued()).filter((entry): entry is QueuedSend => !isUpdate(entry));
  }

  /** The updates that are not acknowledged yet, oldest first. */
  async queuedUpdates(): Promise<QueuedUpdate[]> {
    return (await this.#driver.queued()).filter(isUpdate);
  }

  /** Marks all messages up to `sequence` as read, now or on the next connection. */
  markRead(chatId: string, sequence: number): void {
    this.#driver.act((session, now) => session.markRead(now, chatId, sequence));
  }

  /** Announces that the user is typing, or has stopped. Dropped while there is no connection. */
  typing(chatId: string, isTyping: boolean): void {
    this.#driver.act((session, now) => session.typing(now, chatId, isTyping));
  }

  /** Subscribes to the presence of users, on this connection and all later ones: at most 1000. */
  watch(userIds: string[]): void {
    this.#driver.act((session, now) => session.watch(now, userIds));
  }

  /** Ends presence subscriptions. */
  unwatch(userIds: string[]): void {
    this.#driver.act((session, now) => session.unwatch(now, userIds));
  }

  /**
   * Calls `listener` with every event of this name, one event at a time. A listener may return a promise: the next
   * event waits for it, and only then is a message or an update acknowledged to the server. Returns a function that
   * removes the listener.
   */
  on<Name extends keyof ClientEvents>(name: Name, listener: Listener<Name>): () => void {
    return this.#events.on(name, listener);
  }

  /**
   * Ends the session and deletes all data of the user on this device. If the server cannot be reached, the data is
   * deleted all the same, and the error is thrown: the session then lasts until it expires or is revoked elsewhere.
   */
  async signOut(): Promise<void> {
    await this.close();
    try {
      await this.api.logout();
    } catch (error) {
      if (!(error instanceof ApiError && error.isFinal)) {
        throw error;
      }
      // The session is already revoked, so there is nothing to end.
    } finally {
      await this.#access.forget();
    }
  }

  /**
   * Deletes the account of the user permanently, and then all data of the user on this device. The name becomes "Deleted
   * account"; with `eraseMessages` the user's messages are erased too. If the server refuses or cannot be reached, the
   * error is thrown and nothing is deleted.
   */
  async deleteAccount(options: { eraseMessages?: boolean } = {}): Promise<void> {
    const { user_id: confirm } = await this.api.me();
    await this.api.deleteMe({ confirm, erase_messages: options.eraseMessages ?? false });
    await this.#access.forget();
  }

  #update(chatId: string, sequence: number, action: UpdateAction, options: UpdateOptions): Outgoing {
    return this.#driver.send({ chatId, sequence, ...action, ...identified(options) });
  }
}

/** Options with an id for all retries, and the time of the call. */
function identified<Options extends UpdateOptions>(options: Options) {
  const { clientMessageId = crypto.randomUUID(), ...rest } = options;
  return { ...rest, clientMessageId, queuedAt: Date.now() };
}

function checked(baseUrl: string): string {
  if (!/^https?:\/\//.test(baseUrl)) {
    throw new TypeError(`\`${baseUrl}\` begins neither with http:// nor with https://`);
  }
  return baseUrl.replace(/\/+$/, "");
}
