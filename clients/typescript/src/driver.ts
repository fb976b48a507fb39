import type { Access } from "./access.js";
import type { Api } from "./api.js";
import type { Outgoing } from "./client.js";
import { isFinal, listChats } from "./errands.js";
import { EventQueue } from "./event-queue.js";
import type { ClientEvent, Emitter } from "./events.js";
import { Outbox } from "./outbox.js";
import { pause } from "./session/backoff.js";
import type { Ended, Output } from "./session/outputs.js";
import { Session } from "./session/session.js";
import { Socket } from "./socket.js";
import type { QueuedEntry, Storage } from "./storage/storage.js";
import { atMost, sleep } from "./timing.js";

/** Delay between two early renewals of tokens; the second one is needed only if the first fails. */
const RENEWAL_PAUSE_MS = 30_000;
/** Timeout of a close: for the running listener, and then for the server. */
const CLOSE_TIMEOUT_MS = 1000;
/** Delay before a retry after the storage could not be read. */
const STORAGE_PAUSE_MS = 5000;

/** The dependencies of a driver. */
export interface DriverParts {
  baseUrl: string;
  api: Api;
  access: Access;
  storage: Storage;
  events: Emitter;
  /** Absent in Node before 22, despite its type. */
  webSocket: typeof WebSocket;
  reconnectPauseMs: number | undefined;
}

/**
 * Executes the outputs of a `Session` with sockets, timers and REST calls.
 *
 * Each `connect` begins a new session from the storage: the positions, and the sends and updates without an ack.
 */
export class Driver {
  #session: Session;
  #socket: Socket | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #queue: EventQueue;
  readonly #outbox: Outbox;
  /** Incremented for every session. Results of earlier generations are discarded. */
  #generation = 0;
  #isStarting = false;
  #closing: Promise<void> | undefined;
  /** The access token of the last handshake, or a later one with which the connection was renewed. */
  #token = "";
  #renewalPausedUntil = 0;
  #listing: "idle" | "underWay" | "outdated" = "idle";
  #lastLookUp: Promise<void> = Promise.resolve();
  readonly #parts: DriverParts;

  constructor(parts: DriverParts) {
    this.#parts = parts;
    this.#session = this.#newSession();
    this.#outbox = new Outbox(parts.storage);
    this.#queue = new EventQueue(parts.events, Math.random, async ({ chatId, sequence }) => {
      const generation = this.#generation;
      const isKept = await this.#kept(parts.storage.keepPosition({ chatId, sequence }));
      if (isKept && generation === this.#generation) {
        this.act((session, now) => session.stored(now, chatId, sequence));
      }
    });
  }

  connect(): void {
    if (typeof this.#parts.webSocket !== "function") {
      throw new Error("there is no WebSocket here: use Node 22 or later, or give one as `webSocket`");
    }
    if (this.#closing !== undefined) {
      void this.#closing.then(() => this.connect());
    } else if (!this.#isStarting && this.#session.isStopped) {
      this.#isStarting = true;
      void this.#start(++this.#generation);
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close().finally(() => (this.#closing = undefined));
    return this.#closing;
  }

  /** Drops all state of a user who is no longer signed in. */
  async forget(): Promise<void> {
    await this.close();
    this.#outbox.forget();
    this.#session = this.#newSession();
  }

  /** Stores a send or an update, and sends it. */
  send(entry: QueuedEntry): Outgoing {
    const { clientMessageId, chatId } = entry;
    return this.#outbox.add(
      entry,
      () => this.act((session, now) => session.send(now, entry)),
      (error) => this.#queue.push({ name: "failed", detail: { clientMessageId, chatId, error } }),
    );
  }

  queued(): Promise<QueuedEntry[]> {
    return this.#outbox.queued();
  }

  /** Passes an input to the session, and executes its outputs. */
  act(tell: (session: Session, now: number) => void): void {
    tell(this.#session, performance.now());
    for (let output = this.#session.pollOutput(); output !== undefined; output = this.#session.pollOutput()) {
      this.#follow(output);
    }
    this.#arm();
  }

  #newSession(): Session {
    return new Session(Math.random, this.#parts.reconnectPauseMs);
  }

  async #close(): Promise<void> {
    // Messages of the running listener can still be acknowledged. The timeout covers a listener that itself awaits this
    // close.
    await atMost(CLOSE_TIMEOUT_MS, this.#queue.stop());
    this.#queue.resume();
    this.#generation += 1;
    this.#isStarting = false;
    const socket = this.#socket;
    this.act((session, now) => session.close(now));
    this.#outbox.close();
    await atMost(CLOSE_TIMEOUT_MS, socket?.closed ?? Promise.resolve());
  }

  async #start(generation: number): Promise<void> {
    const { storage } = this.#parts;
    // Queued events of the previous session may still change a position.
    await this.#queue.idle();
    try {
      const positions = await storage.positions();
      if (generation !== this.#generation) {
        return;
      }
      await this.#outbox.load((entries) => {
        if (generation === this.#generation) {
          // Not before: an entry that is added meanwhile would be sent before the stored ones, and once more with them.
          this.#session = this.#session.successor();
          positions.forEach(({ chatId, sequence }) => this.#session.resume(chatId, sequence));
          entries.forEach((entry) => this.#session.send(performance.now(), entry));
        }
      });
    } catch (error) {
      this.#tell({ name: "storageFailed", detail: { error } });
      setTimeout(() => generation === this.#generation && void this.#start(generation), STORAGE_PAUSE_MS);
      return;
    }
    if (generation === this.#generation) {
      this.#isStarting = false;
      this.#listing = "idle";
      network("addEventListener", this.#onNetwork);
      this.act((session, now) => session.connect(now));
    }
  }

  #follow(output: Output): void {
    switch (output.kind) {
      case "connect":
        return this.#open();
      case "disconnect":
        this.#socket?.close();
        this.#socket = undefined;
        return;
      case "transmit":
        return this.#socket?.send(JSON.stringify(output.frame));
      case "refreshToken":
        return void this.#refresh();
      case "listChats":
        return this.#list();
      case "lookUp":
        this.#lastLookUp = this.#lastLookUp.then(() => this.#lookUp(output.chatId));
        return;
      case "keepPosition": {
        const { chatId, sequence } = output;
        return void this.#kept(this.#parts.storage.keepPosition({ chatId, sequence }));
      }
      case "forgetPosition":
        return void this.#kept(this.#parts.storage.forgetPosition(output.chatId));
      case "event":
        return this.#tell(output.event);
    }
  }

  /** Settles the promises of sends and updates at once; the event waits in the queue. */
  #tell(event: ClientEvent): void {
    switch (event.name) {
      case "sent":
        return this.#queue.push(event, this.#kept(this.#outbox.acked(event.detail)));
      case "failed":
        return this.#queue.push(event, this.#kept(this.#outbox.refused(event.detail)));
      case "stopped":
        network("removeEventListener", this.#onNetwork);
        this.#outbox.close();
        return this.#queue.push(event);
      default:
        this.#queue.push(event);
    }
    if (this.#queue.isFull && this.#socket !== undefined) {
      // To the server, a slow application is a slow consumer, and recovers as one: it syncs after reconnecting.
      this.#socket.close();
      this.#handleEnded(this.#socket, { kind: "lost" });
    }
  }

  #open(): void {
    const socket = new Socket({
      handshake: () => this.#handshake(),
      webSocket: this.#parts.webSocket,
      onOpen: () => this.act((session, now) => session.handleConnected(now)),
      onText: (text) => this.act((session, now) => session.handleText(now, text)),
      onEnd: (ended) => this.#handleEnded(socket, ended),
    });
    this.#socket = socket;
  }

  /** The URL of a connection, with a single-use ticket. */
  async #handshake(): Promise<string> {
    const { baseUrl, api, access } = this.#parts;
    await this.#queue.room();
    const { ticket } = await api.wsTicket();
    this.#token = await access.token();
    const query = new URLSearchParams({ ticket, device_id: await access.deviceId() });
    return `${baseUrl.replace(/^http/, "ws")}/v1/ws?${query}`;
  }

  #handleEnded(socket: Socket, ended: Ended): void {
    if (this.#socket === socket) {
      this.#socket = undefined;
      this.act((session, now) => session.handleDisconnected(now, ended));
    }
  }

  async #refresh(): Promise<void> {
    try {
      await this.#parts.access.renew(this.#token);
      this.act((session, now) => session.handleTokenRefreshed(now));
    } catch (error) {
      const failure = isFinal(error) ? "refused" : "unreachable";
      this.act((session, now) => session.handleRefreshFailed(now, failure));
    }
  }

  /**
   * Requests the chat list. A list is valid only for the connection on which it was requested; a later one repeats it.
   */
  #list(): void {
    if (this.#listing === "idle") {
      this.#listing = "underWay";
      void this.#listNow(this.#generation);
    } else {
      this.#listing = "outdated";
    }
  }

  /** Retries until it succeeds: without the list, chats that are new since the last connection stay unknown. */
  async #listNow(generation: number): Promise<void> {
    for (let failures = 0; generation === this.#generation;) {
      try {
        const chats = await listChats(this.#parts.api);
        if (generation !== this.#generation) {
          return;
        }
        if (this.#listing === "underWay") {
          this.#listing = "idle";
          this.act((session, now) => session.handleChats(now, chats));
          return;
        }
        this.#listing = "underWay";
      } catch (error) {
        if (isFinal(error)) {
          // The session is revoked; the next handshake reports it.
          this.#listing = "idle";
          return;
        }
        failures += 1;
        await sleep(pause(failures, Math.random));
      }
    }
  }

  async #lookUp(chatId: string): Promise<void> {
    const session = this.#session;
    let report: () => void;
    try {
      const { my_delivered_sequence } = await this.#parts.api.chat(chatId);
      report = () => session.handleLookedUp(performance.now(), chatId, my_delivered_sequence);
    } catch (error) {
      report = () => session.handleLookUpFailed(performance.now(), chatId, isFinal(error) ? "gone" : "unreachable");
    }
    if (session === this.#session) {
      this.act(report);
    }
  }

  /** Sets the timer for the next deadline: of the session, or of the token renewal. */
  #arm(): void {
    clearTimeout(this.#timer);
    if (this.#session.isStopped) {
      return;
    }
    const inMs = (this.#session.pollTimeout() ?? Infinity) - performance.now();
    const renewInMs = Math.max(this.#parts.access.renewAt ?? Infinity, this.#renewalPausedUntil) - Date.now();
    this.#timer = setTimeout(() => this.#handleTimer(), Math.min(Math.max(inMs, 0), renewInMs, TIMER_MAX_MS));
  }

  #handleTimer(): void {
    if (Date.now() >= Math.max(this.#parts.access.renewAt ?? Infinity, this.#renewalPausedUntil)) {
      this.#renewalPausedUntil = Date.now() + RENEWAL_PAUSE_MS;
      // The next call that needs a token reports a failure.
      this.#parts.access.token().then(
        () => this.act((session, now) => this.#renewConnection(session, now)),
        () => undefined,
      );
    }
    this.act((session, now) => {
      session.handleTimeout(now);
      this.#renewConnection(session, now);
    });
  }

  /** Renews the authentication of the connection after the tokens were renewed, here or by a REST call. */
  #renewConnection(session: Session, now: number): void {
    const token = this.#parts.access.presentToken;
    if (token !== undefined && token !== this.#token && session.reauth(now, token)) {
      this.#token = token;
    }
  }

  readonly #onNetwork = (event: Event): void => {
    // A page that was hidden may have slept, and missed the events of the network.
    if (event.type !== "visibilitychange" || document.visibilityState === "visible") {
      this.act((session, now) => (event.type === "offline" ? session.handleOffline(now) : session.handleOnline(now)));
    }
  };

  /** Waits for a change of the storage, emits `storageFailed` if it fails, and returns whether it is stored. */
  async #kept(change: Promise<void>): Promise<boolean> {
    try {
      await change;
      return true;
    } catch (error) {
      this.#queue.push({ name: "storageFailed", detail: { error } });
      return false;
    }
  }
}

/** Longest delay of `setTimeout`; a longer one would fire at once. */
const TIMER_MAX_MS = 2 ** 31 - 1;

/** Adds or removes listeners for the network state, which browsers report. */
function network(change: "addEventListener" | "removeEventListener", listener: (event: Event) => void): void {
  if (typeof window !== "undefined") {
    window[change]("online", listener);
    window[change]("offline", listener);
    window.document?.[change]("visibilitychange", listener);
  }
}
