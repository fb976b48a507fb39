import assert from "node:assert/strict";
import { test } from "node:test";

import { newer, withUpdated } from "../../src/updates.js";
import type { ClientEvent } from "../../src/events.js";
import type { ClientFrame, Message, MessageUpdate, MessageUpdated, MessageWithStatus } from "../../src/wire.js";
import { CHAT, framesOf, ME, message, seeded, TIME, update, World } from "./world.js";

const OTHER = "user_other";
const REACTIONS = ["👍", "❤", "🎉"];

/** A pushed frame. */
interface Push {
  type: string;
  payload: object;
}

/** A message of the model: its content, and the users of each reaction in the order of their first use. */
interface Row {
  content: string;
  edits: number;
  revision: number;
  reactions: Map<string, Set<string>>;
}

/** A naive server: one list of entries, and the current state of each message. */
class Model {
  readonly entries: (number | MessageUpdate)[] = [];
  readonly rows = new Map<number, Row>();

  get head(): number {
    return this.entries.length;
  }

  add(): void {
    const sequence = this.head + 1;
    this.rows.set(sequence, { content: `message ${sequence}`, edits: 0, revision: 0, reactions: new Map() });
    this.entries.push(sequence);
  }

  /** A random update of a random message by a random user. */
  update(random: () => number): void {
    const [target, row] = pick(random, [...this.rows]) ?? [];
    if (target === undefined || row === undefined) {
      return;
    }
    const user_id = pick(random, [ME, OTHER]) ?? ME;
    const reaction = pick(random, REACTIONS) ?? "";
    const sequence = this.head + 1;
    const act = random();
    const entry = { ...update(sequence, target, "edited"), user_id };
    row.revision = sequence;
    if (act < 0.05) {
      this.rows.delete(target);
      this.entries.push({ ...entry, kind: "deleted" });
    } else if (act < 0.3) {
      row.content = `edited by ${sequence}`;
      row.edits += 1;
      this.entries.push(entry);
    } else {
      const users = row.reactions.get(reaction) ?? new Set();
      const kind = users.delete(user_id) ? "unreacted" : "reacted";
      if (kind === "reacted") {
        row.reactions.set(reaction, users.add(user_id));
      } else if (users.size === 0) {
        row.reactions.delete(reaction);
      }
      this.entries.push({ ...entry, kind, reaction });
    }
  }

  /** The current copy of a message; in history it says which reactions are the reader's. */
  copy(sequence: number, isHistory = false): Message | undefined {
    const row = this.rows.get(sequence);
    if (row === undefined) {
      return undefined;
    }
    if (row.revision === 0) {
      return message(sequence);
    }
    const reactions = [...row.reactions].map(([reaction, users]) => ({
      reaction,
      count: users.size,
      ...(isHistory ? { mine: users.has(ME) } : {}),
    }));
    const edits = row.edits === 0 ? {} : { edited_at: TIME, edit_count: row.edits };
    return { ...message(sequence), content: row.content, state: { revision: row.revision, ...edits, reactions } };
  }

  /** The push of an entry. Its message is in the state of now. */
  push(sequence: number): Push {
    const entry = this.entries[sequence - 1];
    if (typeof entry === "object") {
      // Undefined fields are not on the wire.
      return { type: "message_updated", payload: { update: entry, message: this.copy(entry.target_sequence) } };
    }
    // A message is pushed as it was sent.
    return { type: "message", payload: message(sequence) };
  }

  /** The answer to a sync, of at most `limit` entries. */
  page(after: number, limit: number): object {
    const range = this.entries.slice(after, after + limit);
    const isLast = after + limit >= this.head;
    const sequences = range.filter((entry) => typeof entry === "number");
    const messages = sequences.flatMap((sequence) => this.copy(sequence) ?? []);
    const updates = range.filter((entry) => typeof entry === "object");
    const targets = new Set(updates.map((entry) => entry.target_sequence).filter((at) => !sequences.includes(at)));
    const updated_messages = [...targets].flatMap((sequence) => this.copy(sequence) ?? []);
    const rest = isLast ? {} : { next_sequence: after + limit + 1 };
    return { chat_id: CHAT, messages, updates, updated_messages, has_more: !isLast, head_sequence: this.head, ...rest };
  }
}

/** An application: it applies events and pages of history as they come. */
class Application {
  readonly held = new Map<number, MessageWithStatus>();
  private readonly deleted = new Set<number>();

  take({ name, detail }: ClientEvent): void {
    if (name === "message") {
      this.put(detail);
    } else if (name === "updated") {
      this.apply(detail);
    }
  }

  put(received: MessageWithStatus): void {
    if (!this.deleted.has(received.sequence)) {
      this.held.set(received.sequence, newer(this.held.get(received.sequence), received));
    }
  }

  private apply(detail: MessageUpdated): void {
    const target = detail.update.target_sequence;
    const after = withUpdated(this.held.get(target), detail, ME);
    if (after === undefined) {
      this.held.delete(target);
      this.deleted.add(target);
    } else {
      this.held.set(target, after);
    }
  }
}

/** A server, a session and its application, between them a network that loses, repeats and reorders. */
class Run {
  private readonly model = new Model();
  private readonly world: World;
  private readonly app = new Application();
  private readonly random: () => number;
  /** Sent by the server, and not arrived yet. */
  private pushes: Push[] = [];
  private readonly histories: Message[][] = [];
  private requests: Extract<ClientFrame, { type: "sync_request" }>[] = [];
  /** The last entry that was pushed. */
  private pushed: number;

  constructor(seed: number) {
    this.random = seeded(seed);
    for (let n = 0; n < 20; n += 1) {
      this.commit();
    }
    // Messages up to here are known from history alone.
    this.pushed = this.random() < 0.5 ? 0 : this.model.head;
    this.world = World.established({ [CHAT]: this.pushed });
    this.readHistory();
  }

  commit(): void {
    if (this.random() < 0.3) {
      this.model.add();
    } else {
      this.model.update(this.random);
    }
  }

  /** Anything that can happen, and what follows from it. */
  step(): void {
    const steps = [this.commit, this.commit, this.push, this.deliver, this.deliver, this.answer, this.answer];
    const rare = [this.readHistory, this.deliverHistory, this.resync, this.reconnect];
    pick(this.random, this.random() < 0.9 ? steps : rare)?.call(this);
    this.drain();
  }

  /** Ends the faults: everything that was sent arrives, and a last sync finds what was lost. */
  settle(): void {
    while (this.pushes.length > 0) {
      this.deliver();
      this.drain();
    }
    this.resync();
    this.drain();
    while (this.requests.length > 0) {
      this.answer();
      this.drain();
    }
    while (this.histories.length > 0) {
      this.deliverHistory();
    }
  }

  /** Compares the application with the server. */
  check(): void {
    const expected = [...this.model.rows.keys()];
    const held = [...this.app.held.values()].sort((a, b) => a.sequence - b.sequence);
    assert.deepEqual(
      held.map(({ sequence }) => sequence),
      expected,
    );
    assert.deepEqual(
      held.map(known),
      expected.map((sequence) => known(this.model.copy(sequence, true))),
    );
  }

  private push(): void {
    while (this.pushed < this.model.head) {
      this.pushed += 1;
      const copies = pick(this.random, [0, 1, 1, 1, 1, 2]) ?? 1;
      this.pushes.push(...Array.from({ length: copies }, () => this.model.push(this.pushed)));
    }
  }

  private deliver(): void {
    const [push] = this.pushes.splice(this.random() * this.pushes.length, 1);
    if (push !== undefined) {
      this.world.say(push.type, push.payload);
    }
  }

  private answer(): void {
    const [request] = this.requests.splice(this.random() * this.requests.length, 1);
    if (request !== undefined) {
      const limit = 1 + Math.floor(this.random() * 6);
      this.world.say("sync_response", this.model.page(request.payload.last_acked_sequence, limit), request.request_id);
    }
  }

  private readHistory(): void {
    this.histories.push([...this.model.rows.keys()].flatMap((sequence) => this.model.copy(sequence, true) ?? []));
  }

  private deliverHistory(): void {
    const [history] = this.histories.splice(this.random() * this.histories.length, 1);
    history?.forEach((message) => this.app.put(message));
  }

  private resync(): void {
    this.world.say("resync", { reason: "missed_pushes" });
  }

  private reconnect(): void {
    this.world.end({ kind: "lost" });
    this.requests = [];
    this.pushes = [];
    this.world.wait();
    this.world.establish();
  }

  /** Hands the outputs of the session on: its events to the application, its requests to the server. */
  private drain(): void {
    const outputs = this.world.outputs();
    outputs.forEach((output) => output.kind === "event" && this.app.take(output.event));
    this.requests.push(...framesOf(outputs).filter((frame) => frame.type === "sync_request"));
  }
}

test("pushes, syncs and history in any order leave every message as the server has it", () => {
  for (let seed = 1; seed <= 500; seed += 1) {
    const run = new Run(seed);
    for (let n = 0; n < 150; n += 1) {
      run.step();
    }
    run.settle();
    try {
      run.check();
    } catch (cause) {
      throw new Error(`seed ${seed} does not converge`, { cause });
    }
  }
});

/** What a user sees of a message. */
function known(shown: MessageWithStatus | undefined): unknown {
  const { content, state } = shown ?? {};
  const reactions = state?.reactions?.map(({ reaction, count, mine }) => [reaction, count, mine ?? false]) ?? [];
  return { content, revision: state?.revision ?? 0, edits: state?.edit_count ?? 0, reactions };
}

function pick<T>(random: () => number, items: readonly T[]): T | undefined {
  return items[Math.floor(random() * items.length)];
}
