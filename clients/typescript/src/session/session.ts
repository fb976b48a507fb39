import { refusedSend } from "../errors.js";
import type { StopReason } from "../events.js";
import type { QueuedSend } from "../storage/storage.js";
import type { ErrorBody, Frames, SendMessageAck, ServerFrame } from "../wire.js";
import { FIRST_PAUSE_MS, pause, SERVER_DELAY_MAX_MS, type Random } from "./backoff.js";
import { Chats } from "./chats.js";
import { closeReason } from "./close-reason.js";
import { parseFrame } from "./frames.js";
import { Link } from "./link.js";
import { Out } from "./out.js";
import type { Ended, ListedChat, LookUpFailure, Output, RefreshFailure } from "./outputs.js";
import { Sends, type SendRefused } from "./sends.js";
import type { SyncRefused } from "./syncs.js";
import { earliest } from "./time.js";

/** A connection has this long to stand. */
const CONNECT_TIMEOUT_MS = 10_000;
/** A handshake that was given up may be served for this long. */
const GHOST_MAX_MS = 60_000;
/** A request without an answer for this long means that the connection is broken. */
const REQUEST_TIMEOUT_MS = 10_000;
/** Users in one frame about presence, at the most. */
const PRESENCE_USERS_MAX = 100;

type State =
  | { kind: "stopped" }
  /** The network may come back before `until`; `notBefore` is what the server has asked for, and stands. */
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
 * A duplicate is another connection of this device, and the newer one wins. It may be our own ghost: a handshake that
 * was given up, and that a server which stood still serves when it goes on. For a minute after one was given up, a
 * duplicate is therefore answered with a new connection, and only then taken for another program.
 *
 * The driver feeds it what happens (`handle…`) and what the application wants, and does what it says (`pollOutput`)
 * until it says nothing more. It keeps the client's duties of the contract: it is silent until
 * `connection_established`; sends keep their id and their order until they are acknowledged; each message of a tracked
 * chat is handed out exactly once and in order, whatever was lost, doubled or reordered on the way; acks follow what
 * the application has `stored`.
 */
export class Session {
  #state: State = { kind: "stopped" };
  #userId: string | undefined;
  readonly #out = new Out();
  readonly #chats: Chats;
  readonly #sends = new Sends();
  /** Whose presence is watched. A subscription ends with its connection, so each connection begins by repeating it. */
  readonly #watched = new Set<string>();
  /** Connections that failed in a row. */
  #failures = 0;
  /** Whether the token has been refreshed since a connection last stood: once more would not help. */
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

  /** A session with the same wishes and nothing of the past, for a client that begins anew from what it has kept. */
  successor(): Session {
    const session = new Session(this.#random, this.#reconnectPauseMs);
    this.#watched.forEach((userId) => session.#watched.add(userId));
    session.#chats.takeReads(this.#chats);
    return session;
  }

  /** The next thing to do, in order. */
  pollOutput(): Output | undefined {
    return this.#out.next();
  }

  /** When `handleTimeout` is to be called, if nothing happens before. */
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
        const { beatAt, silentAt, acksDueAt } = this.#state.link;
        const held = [this.#sends.pollTimeout(), this.#chats.pollTimeout()];
        return earliest(beatAt, silentAt, acksDueAt, this.#unansweredAt(), ...held);
      }
    }
  }

  /** Whether the session is over, or has not begun. */
  get isStopped(): boolean {
    return this.#state.kind === "stopped";
  }

  get #hasSocket(): boolean {
    return ["connecting", "greeting", "established"].includes(this.#state.kind);
  }

  // What the application wants.

  /** Begins to connect, unless it has. */
  connect(now: number): void {
    if (this.#state.kind === "stopped") {
      this.#failures = 0;
      this.#refreshed = false;
      this.#open(now);
    }
  }

  /** Acknowledges what is stored and ends the session. Sends that are not acknowledged by then stay queued. */
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

  /** Goes on with a chat where this device was. To be called before the first `connect`. */
  resume(chatId: string, sequence: number): void {
    this.#chats.resume(chatId, sequence);
  }

  /** Sends a message as soon as there is a connection, and again until it is acknowledged or refused for good. */
  send(now: number, send: QueuedSend): void {
    this.#sends.push(send);
    this.#pump(now);
  }

  /** Says that everything up to `sequence` has been read. */
  markRead(now: number, chatId: string, sequence: number): void {
    this.#chats.markRead(now, chatId, sequence);
  }

  /** Says that the user types, or no longer does. Without a connection nobody needs to know. */
  typing(now: number, chatId: string, isTyping: boolean): void {
    this.#out.transmit(now, { type: isTyping ? "typing_start" : "typing_stop", payload: { chat_id: chatId } });
  }

  /** Asks for the presence of users and for its changes, on this connection and all that follow. */
  watch(now: number, userIds: string[]): void {
    const fresh = userIds.filter((userId) => !this.#watched.has(userId));
    fresh.forEach((userId) => this.#watched.add(userId));
    this.#subscribe(now, fresh);
  }

  /** Ends that. */
  unwatch(now: number, userIds: string[]): void {
    const gone = userIds.filter((userId) => this.#watched.delete(userId));
    for (const user_ids of chunks(gone, PRESENCE_USERS_MAX)) {
      this.#out.transmit(now, { type: "presence_unsubscribe", payload: { user_ids } });
    }
  }

  /** Says that the application has stored this message and all before it, which are acknowledged soon. */
  stored(now: number, chatId: string, sequence: number): void {
    this.#chats.stored(now, chatId, sequence);
  }

  // What happens to the connection.

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

  /** The network is there again, so a pause that nobody asked for is over. */
  handleOnline(now: number): void {
    if (this.#state.kind === "waiting") {
      this.#state.until = Math.min(this.#state.until, Math.max(now, this.#state.notBefore));
    }
  }

  /** The network is gone, and the connection with it, though nobody could say so over it. */
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

  /** There is no new access token. */
  handleRefreshFailed(now: number, failure: RefreshFailure): void {
    if (this.#state.kind !== "refreshing") {
      return;
    }
    if (failure === "refused") {
      this.#stop("signedOut");
    } else {
      // The next handshake will be refused like the last one, and then the token is asked for again.
      this.#refreshed = false;
      this.#wait(now, 0);
    }
  }

  /** The list of the user's chats is here. */
  handleChats(now: number, chats: ListedChat[]): void {
    this.#chats.handleList(chats);
    this.#pump(now);
  }

  /** This is how far the user has come in a chat on any device. */
  handleLookedUp(now: number, chatId: string, delivered: number): void {
    this.#chats.handleLookedUp(chatId, delivered);
    this.#pump(now);
  }

  /** A chat could not be looked up. */
  handleLookUpFailed(now: number, chatId: string, failure: LookUpFailure): void {
    this.#chats.handleLookUpFailed(now, chatId, failure);
  }

  /** The time of `pollTimeout` has come. */
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
    if (now >= (link.acksDueAt ?? Infinity)) {
      this.#chats.flushAcks(now);
    }
    this.#pump(now);
  }

  /** When the oldest request has waited too long for its answer. */
  #unansweredAt(): number | undefined {
    const oldest = earliest(this.#sends.oldestInFlight(), this.#chats.oldestInFlight());
    return oldest === undefined ? undefined : oldest + REQUEST_TIMEOUT_MS;
  }

  #open(now: number): void {
    this.#closing = undefined;
    this.#state = { kind: "connecting", deadline: now + CONNECT_TIMEOUT_MS };
    this.#out.push({ kind: "connect" });
  }

  /** Gives up a connection that does not work, or no longer. */
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

  /** What was under way on the connection is so no more. */
  #forgetConnection(): void {
    this.#out.link = undefined;
    this.#sends.disconnected();
    this.#chats.disconnected();
  }

  #refresh(): void {
    if (this.#refreshed) {
      // A fresh token was refused: it is the session that is gone.
      this.#stop("signedOut");
      return;
    }
    this.#refreshed = true;
    this.#state = { kind: "refreshing" };
    this.#out.push({ kind: "refreshToken" });
  }

  /** Waits before the next connection: as long as the failures so far suggest, and no less than the server asks. */
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

  // What the server says.

  /** Takes a text frame of the server. One that cannot be read is passed over, as one of a later version would be. */
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
        return this.#chats.handleMessage(frame.payload);
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
        return;
    }
  }

  /**
   * The connection that sent a message gets no push of it, so its ack and the content kept for it take its place in the
   * order.
   */
  #handleAck(requestId: string | undefined, ack: SendMessageAck): void {
    const order = numberOf(requestId, "s");
    const send = order === undefined ? undefined : this.#sends.acked(order);
    if (send === undefined || this.#userId === undefined) {
      return;
    }
    this.#out.tell("sent", ack);
    this.#chats.handleMessage({
      message_id: ack.message_id,
      chat_id: send.chatId,
      sequence: ack.sequence,
      sender_id: this.#userId,
      content: send.content,
      content_type: send.contentType ?? "text/plain",
      created_at: ack.created_at,
      client_message_id: send.clientMessageId,
      ...(send.ttlSeconds === undefined ? {} : { expires_at: later(ack.created_at, send.ttlSeconds) }),
    });
  }

  #handleError(now: number, requestId: string | undefined, error: ErrorBody): void {
    const order = numberOf(requestId, "s");
    const id = numberOf(requestId, "y");
    if (order !== undefined) {
      this.#followRefusal(now, this.#sends.refused(now, order, error, this.#random), error);
    } else if (id !== undefined) {
      this.#followRefusal(now, { kind: this.#chats.handleSyncRefused(now, id, error) }, error);
    } else if (error.code !== "SLOW_CONSUMER") {
      // A slow reader is told so, and has nothing to do but to read.
      this.#out.tell("refused", error);
    }
  }

  #followRefusal(now: number, refused: SendRefused | { kind: SyncRefused }, error: ErrorBody): void {
    if (refused.kind === "needsRefresh") {
      this.#abandon(now, TOKEN_REFUSED);
    } else if (refused.kind === "needsReconnect") {
      this.#abandon(now, LOST);
    } else if (refused.kind === "failed") {
      const { clientMessageId, chatId } = refused.send;
      this.#out.tell("failed", { clientMessageId, chatId, error: refusedSend(error) });
    }
  }

  // What goes out.

  /** Asks and sends as much as may be under way. */
  #pump(now: number): void {
    if (this.#state.kind !== "established") {
      return;
    }
    this.#chats.pump(now);
    for (let next = this.#sends.next(now); next; next = this.#sends.next(now)) {
      this.#out.transmit(now, { type: "send_message", request_id: `s${next.order}`, payload: payloadOf(next.send) });
    }
  }

  /** Its answer is told like any other news of presence, so nothing waits for it. */
  #subscribe(now: number, userIds: string[]): void {
    for (const user_ids of chunks(userIds, PRESENCE_USERS_MAX)) {
      this.#out.transmit(now, { type: "presence_subscribe", request_id: "p", payload: { user_ids } });
    }
  }
}

const LOST: Ended = { kind: "lost" };
/** A token that is refused during a connection is as good as one refused at its start. */
const TOKEN_REFUSED: Ended = { kind: "refused", status: 401, retryAfterMs: 0 };

function payloadOf(send: QueuedSend): Frames["SendMessage"] {
  const { clientMessageId, chatId, content, contentType, ttlSeconds } = send;
  return {
    client_message_id: clientMessageId,
    chat_id: chatId,
    content,
    ...(contentType === undefined ? {} : { content_type: contentType }),
    ...(ttlSeconds === undefined ? {} : { ttl_seconds: ttlSeconds }),
  };
}

/** The number of a request, if its id is of this kind. */
function numberOf(requestId: string | undefined, kind: "s" | "y"): number | undefined {
  const [, ofKind, digits] = /^([sy])(\d+)$/.exec(requestId ?? "") ?? [];
  return ofKind === kind ? Number(digits) : undefined;
}

function later(time: string, seconds: number): string {
  return new Date(Date.parse(time) + seconds * 1000).toISOString();
}

function chunks<T>(items: T[], length: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / length) }, (_, n) => items.slice(n * length, (n + 1) * length));
}
