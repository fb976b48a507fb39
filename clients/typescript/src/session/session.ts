import { refusedSend } from "../errors.js";
import type { StopReason } from "../events.js";
import { isUpdate, type QueuedEntry } from "../storage/storage.js";
import type { ErrorBody, Frames, SendMessageAck, ServerFrame } from "../wire.js";
import { FIRST_PAUSE_MS, pause, SERVER_DELAY_MAX_MS, type Random } from "./backoff.js";
import { Chats } from "./chats.js";
import { closeReason } from "./close-reason.js";
import { parseFrame } from "./frames.js";
import { Link } from "./link.js";
import { Out } from "./out.js";
import { messageOf, requestOf } from "./outgoing.js";
import type { Ended, ListedChat, LookUpFailure, Output, RefreshFailure } from "./outputs.js";
import { Sends, type SendRefused } from "./sends.js";
import type { SyncRefused } from "./syncs.js";
import { earliest } from "./time.js";

/** Timeout of a connection attempt, and of the wait for `connection_established`. */
const CONNECT_TIMEOUT_MS = 10_000;
/** Time within which a server may still complete an abandoned handshake. */
const GHOST_MAX_MS = 60_000;
/** Timeout of a request; after it the connection counts as broken. */
const REQUEST_TIMEOUT_MS = 10_000;
/** The request id of a renewed authentication. */
const REAUTH = "reauth";
/** Most users in one presence frame. */
const PRESENCE_USERS_MAX = 100;

type State =
  | { kind: "stopped" }
  /** A network event may shorten the wait to `notBefore`, the delay that the server requested. */
  | { kind: "waiting"; until: number; notBefore: number }
  | { kind: "refreshing" }
  | { kind: "connecting"; deadline: number }
  | { kind: "greeting"; deadline: number }
  | { kind: "established"; link: Link };

/**
 * A signed-in client, across all its connections. Does no I/O, reads no clock and draws no random numbers of its own.
 *
 * ```text
 *                    handleConnected           connection_established
 *   connecting ────────────────────► greeting ────────────────────────► established
 *    ▲  │  ▲                            │ timeout, loss, close            │ silence, no answer,
 *    │  │  └─ token refreshed ─ refreshing ◄── token expired ─────────────┤ loss, close
 *    │  ▼                                                                 ▼
 *    └─ waiting ◄─────────────────────────────────────────────────────────┤
 *                stopped ◄── revoked, signed out, duplicate, `close` ─────┘
 * ```
 *
 * A duplicate is another connection of this device, and the newer one replaces the older. It may be this session's own
 * abandoned handshake, which a stalled server completes when it resumes. Within a minute after an abandoned handshake,
 * the session therefore answers a duplicate with a new connection; after that it assumes another program and stops.
 *
 * The driver passes in what happens (`handle…`) and the application's calls, and executes the outputs of `pollOutput`
 * until there are none. The session keeps the client's duties of the contract:
 * - It sends nothing before `connection_established`.
 * - Sends keep their id and order until they are acknowledged.
 * - Each message and update of a tracked chat is handed out exactly once and in order, despite loss, duplication and
 *   reordering.
 * - Acks follow the entries that the application has `stored`.
 */
export class Session {
  #state: State = { kind: "stopped" };
  #userId: string | undefined;
  readonly #out = new Out();
  readonly #chats: Chats;
  readonly #sends = new Sends();
  /** The users with a presence subscription. A subscription ends with its connection, so each connection repeats it. */
  readonly #watched = new Set<string>();
  /** Connections that failed in a row. */
  #failures = 0;
  /** Whether the token was refreshed since the last established connection; a second refresh would not help. */
  #refreshed = false;
  #givenUpAt = -Infinity;
  /** The server's announcement of a close. */
  #closing: Frames["ConnectionClosing"] | undefined;
  readonly #random: Random;
  readonly #reconnectPauseMs: number;

  constructor(random: Random, reconnectPauseMs = FIRST_PAUSE_MS) {
    this.#random = random;
    this.#reconnectPauseMs = reconnectPauseMs;
    this.#chats = new Chats(this.#out, random);
  }

  /**
   * A session with the same subscriptions and read marks but no other state, for a client that restarts from its
   * storage.
   */
  successor(): Session {
    const session = new Session(this.#random, this.#reconnectPauseMs);
    this.#watched.forEach((userId) => session.#watched.add(userId));
    session.#chats.takeReads(this.#chats);
    return session;
  }

  /** The next output, in order. */
  pollOutput(): Output | undefined {
    return this.#out.next();
  }

  /** When `handleTimeout` must be called, if nothing happens before. */
  pollTimeout(): number | undefined {
    switch (this.#state.kind) {
      case "stopped":
        return undefined;
      case "refreshing":
        return this.#chats.pollTimeout();
      case "waiting":
        return earliest(this.#state.until, this.#chats.pollTimeout());
      case "connecting":
      case "greeting":
        return earliest(this.#state.deadline, this.#chats.pollTimeout());
      case "established": {
        const { beatAt, silentAt, acks } = this.#state.link;
        const held = [this.#sends.pollTimeout(), this.#chats.pollTimeout()];
        return earliest(beatAt, silentAt, acks.nextDue(), this.#unansweredAt(), ...held);
      }
    }
  }

  /** Whether the session has ended or not started. */
  get isStopped(): boolean {
    return this.#state.kind === "stopped";
  }

  get #hasSocket(): boolean {
    return ["connecting", "greeting", "established"].includes(this.#state.kind);
  }

  // Calls of the application.

  /** Starts to connect, unless it already has. */
  connect(now: number): void {
    if (this.#state.kind === "stopped") {
      this.#failures = 0;
      this.#refreshed = false;
      this.#open(now);
    }
  }

  /** Acknowledges the stored messages and ends the session. Sends without an acknowledgement by then stay queued. */
  close(now: number): void {
    if (this.#state.kind === "stopped") {
      return;
    }
    this.#chats.flushAcks(now);
    if (this.#hasSocket) {
      this.#out.push({ kind: "disconnect" });
    }
    this.#forgetConnection();
    this.#stop("closed");
  }

  /** Resumes a chat at this device's position. Must be called before the first `connect`. */
  resume(chatId: string, sequence: number): void {
    this.#chats.resume(chatId, sequence);
  }

  /**
   * Sends a message or an update as soon as there is a connection, and retries until it is acknowledged or refused
   * permanently.
   */
  send(now: number, entry: QueuedEntry): void {
    this.#sends.push(entry);
    this.#pump(now);
  }

  /** Marks all messages up to `sequence` as read. */
  markRead(now: number, chatId: string, sequence: number): void {
    this.#chats.markRead(now, chatId, sequence);
  }

  /** Announces that the user is typing, or has stopped. Dropped while there is no connection. */
  typing(now: number, chatId: string, isTyping: boolean): void {
    this.#out.transmit(now, { type: isTyping ? "typing_start" : "typing_stop", payload: { chat_id: chatId } });
  }

  /** Subscribes to the presence of users, on this connection and all later ones. */
  watch(now: number, userIds: string[]): void {
    const fresh = userIds.filter((userId) => !this.#watched.has(userId));
    fresh.forEach((userId) => this.#watched.add(userId));
    this.#subscribe(now, fresh);
  }

  /** Ends presence subscriptions. */
  unwatch(now: number, userIds: string[]): void {
    const gone = userIds.filter((userId) => this.#watched.delete(userId));
    for (const user_ids of chunks(gone, PRESENCE_USERS_MAX)) {
      this.#out.transmit(now, { type: "presence_unsubscribe", payload: { user_ids } });
    }
  }

  /** Records that the application has stored this entry and all before it; they are acknowledged soon. */
  stored(now: number, chatId: string, sequence: number): void {
    this.#chats.stored(now, chatId, sequence);
  }

  // Inputs about the connection.

  /** The WebSocket is open. */
  handleConnected(now: number): void {
    if (this.#state.kind === "connecting") {
      this.#state = { kind: "greeting", deadline: now + CONNECT_TIMEOUT_MS };
    }
  }

  /** The WebSocket is closed, or could not be opened. */
  handleDisconnected(now: number, ended: Ended): void {
    if (this.#hasSocket) {
      this.#lose(now, ended);
    }
  }

  /**
   * The network is available again, or another one, or the device has resumed: a backoff that the server did not request
   * ends, and an open connection has to prove that it still works.
   */
  handleOnline(now: number): void {
    if (this.#state.kind === "waiting") {
      this.#state.until = Math.min(this.#state.until, Math.max(now, this.#state.notBefore));
    } else if (this.#state.kind === "established") {
      const { link } = this.#state;
      link.probe(now);
      link.beat(now);
      this.#out.transmit(now, { type: "heartbeat", payload: {} });
    }
  }

  /** The network is down, so the connection is lost although no close frame arrived. */
  handleOffline(now: number): void {
    if (this.#state.kind === "greeting" || this.#state.kind === "established") {
      this.#abandon(now, LOST);
    }
  }

  /** There is a new access token. */
  handleTokenRefreshed(now: number): void {
    if (this.#state.kind === "refreshing") {
      this.#open(now);
    }
  }

  /**
   * Renews the authentication of an established connection with a new token of the session, so that it stays open when the
   * last one expires. Returns whether there is one. A server that refuses or does not know the frame closes the connection
   * at the expiry, and the session reconnects.
   */
  reauth(now: number, token: string): boolean {
    if (this.#state.kind !== "established") {
      return false;
    }
    this.#out.transmit(now, { type: "reauth", request_id: REAUTH, payload: { token } });
    return true;
  }

  /** There is no new access token. */
  handleRefreshFailed(now: number, failure: RefreshFailure): void {
    if (this.#state.kind !== "refreshing") {
      return;
    }
    if (failure === "refused") {
      this.#stop("signedOut");
    } else {
      // The next handshake will be refused like the last one, which triggers another refresh.
      this.#refreshed = false;
      this.#wait(now, 0);
    }
  }

  /** Takes the list of the user's chats. */
  handleChats(now: number, chats: ListedChat[]): void {
    this.#chats.handleList(chats);
    this.#pump(now);
  }

  /** Takes the user's delivered watermark of a chat. */
  handleLookedUp(now: number, chatId: string, delivered: number): void {
    this.#chats.handleLookedUp(chatId, delivered);
    this.#pump(now);
  }

  /** A chat could not be looked up. */
  handleLookUpFailed(now: number, chatId: string, failure: LookUpFailure): void {
    this.#chats.handleLookUpFailed(now, chatId, failure);
  }

  /** Must be called at the time of `pollTimeout`. */
  handleTimeout(now: number): void {
    const state = this.#state;
    if (state.kind === "waiting" && now >= state.until) {
      this.#open(now);
    } else if ((state.kind === "connecting" || state.kind === "greeting") && now >= state.deadline) {
      this.#abandon(now, LOST);
    } else if (state.kind === "established") {
      this.#tick(now, state.link);
    }
    this.#chats.retryLookUps(now);
  }

  #tick(now: number, link: Link): void {
    if (now >= (this.#unansweredAt() ?? Infinity) || now >= link.silentAt) {
      this.#abandon(now, LOST);
      return;
    }
    if (now >= link.beatAt) {
      link.beat(now);
      this.#out.transmit(now, { type: "heartbeat", payload: {} });
    }
    this.#chats.sendAcks(now, link.acks.due(now));
    this.#pump(now);
  }

  /** When the oldest request in flight times out. */
  #unansweredAt(): number | undefined {
    const oldest = earliest(this.#sends.oldestInFlight(), this.#chats.oldestInFlight());
    return oldest === undefined ? undefined : oldest + REQUEST_TIMEOUT_MS;
  }

  #open(now: number): void {
    this.#closing = undefined;
    this.#state = { kind: "connecting", deadline: now + CONNECT_TIMEOUT_MS };
    this.#out.push({ kind: "connect" });
  }

  /** Abandons a connection that does not work, or no longer works. */
  #abandon(now: number, ended: Ended): void {
    this.#out.push({ kind: "disconnect" });
    this.#lose(now, ended);
  }

  #lose(now: number, ended: Ended): void {
    this.#forgetConnection();
    const wasHandshake = this.#state.kind === "connecting" || this.#state.kind === "greeting";
    if (wasHandshake && ended.kind === "lost") {
      this.#givenUpAt = now;
    }
    const announced = this.#closing;
    const [code, text] = ended.kind === "closed" ? [ended.code, ended.reason] : [0, ""];
    const reason = closeReason(code, text || (announced?.reason ?? ""));
    const isHaunted = now < this.#givenUpAt + GHOST_MAX_MS;
    if (reason === "session_revoked") {
      this.#stop("signedOut");
    } else if (reason === "duplicate_connection" && !isHaunted) {
      this.#stop("duplicateConnection");
    } else if (reason === "token_expired" || (ended.kind === "refused" && ended.status === 401)) {
      this.#refresh();
    } else {
      this.#wait(now, ended.kind === "refused" ? ended.retryAfterMs : (announced?.reconnect_delay_ms ?? 0));
    }
  }

  /** Resets the state of requests that were in flight on the connection. */
  #forgetConnection(): void {
    this.#out.link = undefined;
    this.#sends.disconnected();
    this.#chats.disconnected();
  }

  #refresh(): void {
    if (this.#refreshed) {
      // The server refused a fresh token, so the session itself is revoked.
      this.#stop("signedOut");
      return;
    }
    this.#refreshed = true;
    this.#state = { kind: "refreshing" };
    this.#out.push({ kind: "refreshToken" });
  }

  /** Waits before the next connection: the backoff of the failures so far, and at least the requested delay. */
  #wait(now: number, askedMs: number): void {
    this.#failures += 1;
    const asked = Math.min(askedMs, SERVER_DELAY_MAX_MS) * (1 + 0.25 * this.#random());
    const retryInMs = Math.max(pause(this.#failures, this.#random, this.#reconnectPauseMs), asked);
    this.#state = { kind: "waiting", until: now + retryInMs, notBefore: now + asked };
    this.#out.tell("disconnected", { retryInMs });
  }

  #stop(reason: StopReason): void {
    this.#state = { kind: "stopped" };
    this.#out.tell("stopped", { reason });
  }

  // Frames of the server.

  /** Takes a text frame of the server. An unreadable frame is ignored, like one of a later version. */
  handleText(now: number, text: string): void {
    const frame = parseFrame(text);
    if (this.#state.kind === "established") {
      this.#state.link.heard(now);
      if (frame !== undefined) {
        this.#handleFrame(now, frame);
        this.#pump(now);
      }
    } else if (this.#state.kind === "greeting") {
      if (frame?.type === "connection_established") {
        this.#establish(now, frame.payload);
      } else if (frame?.type === "connection_closing") {
        this.#closing = frame.payload;
      }
    }
  }

  #establish(now: number, established: Frames["ConnectionEstablished"]): void {
    const { connection_id: connectionId, user_id: userId, heartbeat_interval_ms } = established;
    const link = new Link(now, heartbeat_interval_ms);
    this.#userId = userId;
    this.#failures = 0;
    this.#refreshed = false;
    this.#state = { kind: "established", link };
    this.#out.link = link;
    this.#out.tell("connected", { connectionId, userId });
    this.#chats.connected(now);
    this.#subscribe(now, [...this.#watched]);
    this.#pump(now);
  }

  #handleFrame(now: number, frame: ServerFrame): void {
    switch (frame.type) {
      case "send_message_ack":
        return this.#handleAck(frame.request_id, frame.payload);
      case "message":
        return this.#chats.handleEntry({ name: "message", detail: frame.payload });
      case "message_updated":
        return this.#chats.handleEntry({ name: "updated", detail: frame.payload });
      case "sync_response": {
        const id = numberOf(frame.request_id, "y");
        return id === undefined ? undefined : this.#chats.handlePage(now, id, frame.payload);
      }
      case "error":
        return this.#handleError(now, frame.request_id, frame.payload);
      case "chat_updated":
        return this.#chats.handleUpdated(frame.payload, this.#userId);
      case "resync":
        return this.#chats.resync();
      case "connection_closing":
        this.#closing = frame.payload;
        return;
      case "receipt":
        return this.#out.tell("receipt", frame.payload);
      case "message_expired":
        return this.#out.tell("expired", { chatId: frame.payload.chat_id, sequences: frame.payload.sequences });
      case "typing_indicator":
        return this.#out.tell("typing", frame.payload);
      case "presence_changed":
        return this.#out.tell("presence", [frame.payload]);
      case "presence_snapshot":
        return this.#out.tell("presence", frame.payload.presences);
      case "connection_established":
      case "heartbeat_ack":
      case "reauth_ack":
        return;
    }
  }

  /**
   * The connection that sent a message gets no push of it. Its ack and the queued content stand in for the push. An
   * update is pushed to its own connection too, with the new state of the message.
   */
  #handleAck(requestId: string | undefined, ack: SendMessageAck): void {
    const order = numberOf(requestId, "s");
    const entry = order === undefined ? undefined : this.#sends.acked(order);
    if (entry === undefined || this.#userId === undefined) {
      return;
    }
    this.#out.tell("sent", ack);
    if (!isUpdate(entry)) {
      this.#chats.handleEntry({ name: "message", detail: messageOf(entry, ack, this.#userId) });
    }
  }

  #handleError(now: number, requestId: string | undefined, error: ErrorBody): void {
    if (requestId === REAUTH) {
      return;
    }
    const order = numberOf(requestId, "s");
    const id = numberOf(requestId, "y");
    if (order !== undefined) {
      this.#followRefusal(now, this.#sends.refused(now, order, error, this.#random), error);
    } else if (id !== undefined) {
      this.#followRefusal(now, { kind: this.#chats.handleSyncRefused(now, id, error) }, error);
    } else if (error.code !== "SLOW_CONSUMER") {
      // A slow-consumer warning needs no reaction except to keep reading.
      this.#out.tell("refused", error);
    }
  }

  #followRefusal(now: number, refused: SendRefused | { kind: SyncRefused }, error: ErrorBody): void {
    if (refused.kind === "needsRefresh") {
      this.#abandon(now, TOKEN_REFUSED);
    } else if (refused.kind === "needsReconnect") {
      this.#abandon(now, LOST);
    } else if (refused.kind === "failed") {
      const { clientMessageId, chatId } = refused.entry;
      this.#out.tell("failed", { clientMessageId, chatId, error: refusedSend(error) });
    }
  }

  // Outgoing frames.

  /** Sends queued syncs, messages and updates up to the in-flight bounds. */
  #pump(now: number): void {
    if (this.#state.kind !== "established") {
      return;
    }
    this.#chats.pump(now);
    for (let next = this.#sends.next(now); next; next = this.#sends.next(now)) {
      this.#out.transmit(now, requestOf(`s${next.order}`, next.entry));
    }
  }

  /** The reply is reported like any other presence event, so no request is kept for it. */
  #subscribe(now: number, userIds: string[]): void {
    for (const user_ids of chunks(userIds, PRESENCE_USERS_MAX)) {
      this.#out.transmit(now, { type: "presence_subscribe", request_id: "p", payload: { user_ids } });
    }
  }
}

const LOST: Ended = { kind: "lost" };
/** A token that is refused during a connection is handled like one refused in the handshake. */
const TOKEN_REFUSED: Ended = { kind: "refused", status: 401, retryAfterMs: 0 };

/** The number in a request id of this kind. */
function numberOf(requestId: string | undefined, kind: "s" | "y"): number | undefined {
  const [, ofKind, digits] = /^([sy])(\d+)$/.exec(requestId ?? "") ?? [];
  return ofKind === kind ? Number(digits) : undefined;
}

function chunks<T>(items: T[], length: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / length) }, (_, n) => items.slice(n * length, (n + 1) * length));
}
