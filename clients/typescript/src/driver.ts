import type { Access } from "./access.js";
import type { Api } from "./api.js";
import type { Outgoing, SendOptions } from "./client.js";
import { isFinal, listChats } from "./errands.js";
import { EventQueue } from "./event-queue.js";
import type { ClientEvent, Emitter } from "./events.js";
import { Outbox } from "./outbox.js";
import { pause } from "./session/backoff.js";
import type { Ended, Output } from "./session/outputs.js";
import { Session } from "./session/session.js";
import { Socket } from "./socket.js";
import type { QueuedSend, Storage } from "./storage/storage.js";
import { atMost, sleep } from "./timing.js";

/** Between two early renewals of tokens, the second of which is only needed if the first fails. */
const RENEWAL_PAUSE_MS = 30_000;
/** How long a close waits for a listener, and then for the server. */
const CLOSE_TIMEOUT_MS = 1000;
/** Before a storage that could not be read is tried again. */
const STORAGE_PAUSE_MS = 5000;

/** What a driver works with. */
export interface DriverParts {
  baseUrl: string;
  api: Api;
  access: Access;
  storage: Storage;
  events: Emitter;
  /** Absent, whatever its type says, in Node before 22. */
  webSocket: typeof WebSocket;
  reconnectPauseMs: number | undefined;
}

/**
 * Does what a `Session` says, with sockets, timers and REST calls.
 *
 * Each `connect` begins a new session from what the storage has: the positions, and the sends that have no ack.
 */
export class Driver {
  #session: Session;
  #socket: Socket | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #queue: EventQueue;
  readonly #outbox: Outbox;
  /** Grows with every session. What was begun for an earlier one is of no use. */
  #generation = 0;
  #isStarting = false;
  #closing: Promise<void> | undefined;
  /** The access token of the last handshake. */
  #token = "";
  #renewalPausedUntil = 0;
  #listing: "idle" | "underWay" | "outdated" = "idle";
  #lastLookUp: Promise<void> = Promise.resolve();
  readonly #parts: DriverParts;

  constructor(parts: DriverParts) {
    this.#parts = parts;
    this.#session = this.#newSession();
    this.#outbox = new Outbox(parts.storage);
    this.#queue = new EventQueue(parts.events, Math.random, async ({ chat_id: chatId, sequence }) => {
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

  /** Ends everything that belongs to a user who is signed in no longer. */
  async forget(): Promise<void> {
    await this.close();
    this.#outbox.forget();
    this.#session = this.#newSession();
  }

  send(chatId: string, content: string, options: SendOptions): Outgoing {
    return this.#outbox.add(
      chatId,
      content,
      options,
      (send) => this.act((session, now) => session.send(now, send)),
      ({ clientMessageId }, error) => this.#queue.push({ name: "failed", detail: { clientMessageId, chatId, error } }),
    );
  }

  queued(): Promise<QueuedSend[]> {
    return this.#outbox.queued();
  }

  /** Tells the session something, and does what it says to it. */
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
    // What a listener is about to take can still be acknowledged. One that waits for this very close is not waited for.
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
    // What is still told of the session before may move a position.
    await this.#queue.idle();
    try {
      const positions = await storage.positions();
      if (generation !== this.#generation) {
        return;
      }
      this.#session = this.#session.successor();
      positions.forEach(({ chatId, sequence }) => this.#session.resume(chatId, sequence));
      await this.#outbox.load((send) => this.#session.send(performance.now(), send));
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

  /** Outcomes of sends go to whoever sent them at once; the event waits for its turn. */
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
      // An application that is too slow is a slow reader to the server, and heals like one: it syncs when it is ready.
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

  /** The address of a connection, with a ticket that is good for this one. */
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

  /** A list of chats is good for the connection it was asked for on, and for later ones it is made anew. */
  #list(): void {
    if (this.#listing === "idle") {
      this.#listing = "underWay";
      void this.#listNow(this.#generation);
    } else {
      this.#listing = "outdated";
    }
  }

  /** Tries until it succeeds: without the list, chats that are new since the last connection stay unknown. */
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
          // Nobody is listed for a session that is over, which the next handshake shows.
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

  /** Sets the timer for whatever is due next: something of the session, or the renewal of the tokens. */
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
      // A failure shows in the next call that needs a token.
      this.#parts.access.token().then(
        () => this.#arm(),
        () => undefined,
      );
    }
    this.act((session, now) => session.handleTimeout(now));
  }

  readonly #onNetwork = (event: Event): void => {
    this.act((session, now) => (event.type === "online" ? session.handleOnline(now) : session.handleOffline(now)));
  };

  /** Waits for a change of the storage, tells if it failed, and returns whether it is kept. */
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

/** A timer for longer would ring at once. */
const TIMER_MAX_MS = 2 ** 31 - 1;

/** Browsers say when the network comes and goes. */
function network(change: "addEventListener" | "removeEventListener", listener: (event: Event) => void): void {
  if (typeof window !== "undefined") {
    window[change]("online", listener);
    window[change]("offline", listener);
  }
}
