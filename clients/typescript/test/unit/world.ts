import assert from "node:assert/strict";

import type { ClientEvent, ClientEvents } from "../../src/events.js";
import { isEntry, positionOf } from "../../src/session/entries.js";
import type { Ended, ListedChat, Output } from "../../src/session/outputs.js";
import { Session } from "../../src/session/session.js";
import type { QueuedSend, QueuedUpdate, UpdateAction } from "../../src/storage/storage.js";
import type { ClientFrame, Message, MessageUpdate, MessageUpdated } from "../../src/wire.js";

export const CHAT = "chat_01";
export const ME = "user_me";

/** A session with a passive driver, a manual clock, and 0.5 for every random number. */
export class World {
  now = 0;
  readonly session: Session;

  constructor(random: () => number = () => 0.5) {
    this.session = new Session(random);
  }

  /** A session with an established connection, with these chats tracked from these sequences. */
  static established(chats: Record<string, number> = { [CHAT]: 0 }): World {
    const world = new World();
    Object.entries(chats).forEach(([chatId, sequence]) => world.session.resume(chatId, sequence));
    world.session.connect(world.now);
    world.establish();
    world.list(Object.keys(chats).map((chatId) => ({ chatId, delivered: 0, head: 0 })));
    world.answerSyncs();
    world.outputs();
    return world;
  }

  establish(heartbeatMs = 5000): void {
    this.session.handleConnected(this.now);
    this.say("connection_established", {
      connection_id: "conn_01",
      user_id: ME,
      device_id: "d",
      server_time: TIME,
      heartbeat_interval_ms: heartbeatMs,
      protocol_version: 1,
    });
  }

  /** Answers every pending sync with an empty page. */
  answerSyncs(): void {
    for (let frames = this.frames(); frames.length > 0; frames = this.frames()) {
      for (const frame of frames) {
        if (frame.type === "sync_request") {
          const { chat_id, last_acked_sequence } = frame.payload;
          this.page(frame.request_id, chat_id, [], { head_sequence: last_acked_sequence });
        }
      }
    }
  }

  say(type: string, payload: object, requestId?: string): void {
    this.session.handleText(this.now, JSON.stringify({ type, request_id: requestId, payload }));
  }

  push(sequence: number, chatId = CHAT): void {
    this.say("message", message(sequence, chatId));
  }

  pushUpdate(updated: MessageUpdated): void {
    this.say("message_updated", updated);
  }

  page(requestId: string, chatId: string, sequences: number[], rest: object): void {
    const messages = sequences.map((sequence) => message(sequence, chatId));
    this.say("sync_response", { chat_id: chatId, messages, has_more: false, ...rest }, requestId);
  }

  refuse(requestId: string, code: string, details?: object): void {
    this.say("error", { code, message: "no", details }, requestId);
  }

  list(chats: ListedChat[]): void {
    this.session.handleChats(this.now, chats);
  }

  end(ended: Ended): void {
    this.session.handleDisconnected(this.now, ended);
  }

  /** Advances the clock to the next timeout, and returns the elapsed time. */
  wait(): number {
    const at = this.session.pollTimeout();
    assert.ok(at !== undefined, "nothing is due");
    const waited = at - this.now;
    this.now = Math.max(at, this.now);
    this.session.handleTimeout(this.now);
    return waited;
  }

  /** Advances the clock, and fires the timeouts on the way. */
  pass(ms: number): void {
    const end = this.now + ms;
    for (let at = this.session.pollTimeout(); at !== undefined && at <= end; at = this.session.pollTimeout()) {
      assert.ok(at >= this.now || this.now === 0, `timeout ${at} is past at ${this.now}`);
      this.now = Math.max(at, this.now);
      this.session.handleTimeout(this.now);
    }
    this.now = end;
  }

  /** All outputs since the last call. */
  outputs(): Output[] {
    const outputs: Output[] = [];
    for (let output = this.session.pollOutput(); output !== undefined; output = this.session.pollOutput()) {
      outputs.push(output);
    }
    return outputs;
  }

  /** The frames among the outputs. */
  frames(): ClientFrame[] {
    return framesOf(this.outputs());
  }

  /** The events among the outputs. */
  events(): ClientEvent[] {
    return this.outputs().flatMap((output) => (output.kind === "event" ? [output.event] : []));
  }

  /** The details of the events of this name among the outputs. */
  told<Name extends keyof ClientEvents>(name: Name): ClientEvents[Name][] {
    return this.events()
      .filter((event) => event.name === name)
      .map((event) => event.detail as ClientEvents[Name]);
  }

  /** The sequences of the messages and updates among the outputs. */
  entries(): number[] {
    return this.events().filter(isEntry).map((entry) => positionOf(entry).sequence);
  }

  /** The sequences of the messages among the outputs. */
  messages(): number[] {
    return this.told("message").map(({ sequence }) => sequence);
  }
}

export const TIME = "2026-11-15T12:00:00.000Z";

/** The frames among the outputs, as they are on the wire. */
export function framesOf(outputs: Output[]): ClientFrame[] {
  const frames = outputs.flatMap((output) => (output.kind === "transmit" ? [output.frame] : []));
  return JSON.parse(JSON.stringify(frames)) as ClientFrame[];
}

export function message(sequence: number, chatId = CHAT): Message {
  return {
    message_id: `msg_${sequence}`,
    chat_id: chatId,
    sequence,
    sender_id: "user_other",
    content: `message ${sequence}`,
    content_type: "text/plain",
    created_at: TIME,
  };
}

/** An edit of a message by another member, with the message in its new state. */
export function edit(sequence: number, target: number, content: string): MessageUpdated {
  return { update: update(sequence, target, "edited"), message: inState(target, sequence, content) };
}

/** A deletion of a message by another member. */
export function deletion(sequence: number, target: number): MessageUpdated {
  return { update: update(sequence, target, "deleted") };
}

export function update(sequence: number, target: number, kind: MessageUpdate["kind"]): MessageUpdate {
  return { chat_id: CHAT, sequence, target_sequence: target, user_id: "user_other", kind, created_at: TIME };
}

/** A message after its last update. */
export function inState(sequence: number, revision: number, content = `message ${sequence}`): Message {
  return { ...message(sequence), content, state: { revision } };
}

export function queuedUpdate(action: UpdateAction, sequence = 1, clientMessageId = "id of an update"): QueuedUpdate {
  return { clientMessageId, chatId: CHAT, sequence, queuedAt: 0, ...action };
}

export function send(content: string, chatId = CHAT): QueuedSend {
  return { clientMessageId: `id of ${content}`, chatId, content, queuedAt: 0 };
}

export function ack(content: string, sequence: number, chatId = CHAT): object {
  return {
    client_message_id: `id of ${content}`,
    message_id: `msg_${sequence}`,
    chat_id: chatId,
    sequence,
    created_at: TIME,
    deduplicated: false,
  };
}

/** A seeded random number generator (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
