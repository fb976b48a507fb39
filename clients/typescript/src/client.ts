import { Access } from "./access.js";
import { Api } from "./api.js";
import { Driver } from "./driver.js";
import { ApiError } from "./errors.js";
import { Emitter, type ClientEvents, type Listener } from "./events.js";
import { Http } from "./http.js";
import { memoryStorage } from "./storage/memory.js";
import type { QueuedSend, Storage } from "./storage/storage.js";
import type { ContentType, SendMessageAck, Tokens } from "./wire.js";

/** What a client is made of. */
export interface ClientOptions {
  /** Where the server is: `https://chat.example`. */
  baseUrl: string;
  /** The device's own id. Another one is another device. Unless given it is made once and kept in the storage. */
  deviceId?: string;
  /** Where the device keeps its id, tokens, queue of sends and positions; in memory unless given. */
  storage?: Storage;
  /** The tokens of an earlier run, instead of signing in. Those in the storage, if any, are newer. */
  tokens?: Tokens;
  /** Your own JWTs (`[auth.external]`): called whenever a token is needed, again when one was refused. */
  token?: () => Promise<string>;
  /** The `WebSocket` to use where there is no global one, as in Node before 22. */
  webSocket?: typeof WebSocket;
  /** The `fetch` to use instead of the global one. */
  fetch?: typeof fetch;
  /**
   * The first pause before a reconnect, 1000 unless given; it doubles with every failure, to 30 s. Something shorter is
   * for a client that is alone with its server: a thousand that lost the same server would all come back at once.
   */
  reconnectPauseMs?: number;
}

/** What a send may say beside its content. */
export interface SendOptions {
  /** `text/plain` unless given. */
  contentType?: ContentType;
  /** How long the message lives; unless given as long as its chat says. */
  ttlSeconds?: number;
  /** The sender's name for the send, a UUID. Sends with the same one make one message. */
  clientMessageId?: string;
}

/** A send on its way. */
export interface Outgoing {
  clientMessageId: string;
  /** Resolves when the message is durable; rejects with a `SendError` if it is refused or the client closes first. */
  acked: Promise<SendMessageAck>;
}

/** One device of one user. */
export class Client {
  /** The REST calls: signing in among them. */
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

  /** The device that this is. */
  deviceId(): Promise<string> {
    return this.#access.deviceId();
  }

  /** Whether somebody is signed in here, as far as this device knows. */
  isSignedIn(): Promise<boolean> {
    return this.#access.isSignedIn();
  }

  /**
   * Connects, and stays so until `close` is called or the user is signed out. It returns at once; `connected` comes as
   * an event. Every chat of the user is followed: from where this device was, or else from the place up to which the
   * user has received it on any device.
   */
  connect(): void {
    this.#driver.connect();
  }

  /** Acknowledges what the listeners have taken, and ends the connection. Sends that are queued stay in the storage. */
  close(): Promise<void> {
    return this.#driver.close();
  }

  /**
   * Queues a message. It is kept in the storage before the first try, and sent until the server has taken it or refused
   * it for good. Messages into one chat keep the order of these calls.
   */
  send(chatId: string, content: string, options: SendOptions = {}): Outgoing {
    return this.#driver.send(chatId, content, options);
  }

  /** The sends that are not acknowledged yet, oldest first. */
  queued(): Promise<QueuedSend[]> {
    return this.#driver.queued();
  }

  /** Says that everything up to `sequence` has been read, now or with the next connection. */
  markRead(chatId: string, sequence: number): void {
    this.#driver.act((session, now) => session.markRead(now, chatId, sequence));
  }

  /** Says that the user types, or no longer does. Without a connection nobody needs to know. */
  typing(chatId: string, isTyping: boolean): void {
    this.#driver.act((session, now) => session.typing(now, chatId, isTyping));
  }

  /** Asks for the presence of users and for its changes, on this connection and all that follow: 1000 at the most. */
  watch(userIds: string[]): void {
    this.#driver.act((session, now) => session.watch(now, userIds));
  }

  /** Ends that. */
  unwatch(userIds: string[]): void {
    this.#driver.act((session, now) => session.unwatch(now, userIds));
  }

  /**
   * Calls `listener` with every event of this name, one event at a time. A listener may return a promise: the next
   * event waits for it, and a message is acknowledged to the server only then. Returns a function that ends it.
   */
  on<Name extends keyof ClientEvents>(name: Name, listener: Listener<Name>): () => void {
    return this.#events.on(name, listener);
  }

  /**
   * Ends the session and forgets everything of the user on this device. If the server cannot be told, everything is
   * forgotten all the same, and the error is thrown: the session then lives until it expires or is revoked elsewhere.
   */
  async signOut(): Promise<void> {
    await this.close();
    try {
      await this.api.logout();
    } catch (error) {
      if (!(error instanceof ApiError && error.isFinal)) {
        throw error;
      }
      // Whoever is not signed in any more has nothing to end.
    } finally {
      await this.#access.forget();
    }
  }
}

function checked(baseUrl: string): string {
  if (!/^https?:\/\//.test(baseUrl)) {
    throw new TypeError(`\`${baseUrl}\` begins neither with http:// nor with https://`);
  }
  return baseUrl.replace(/\/+$/, "");
}
