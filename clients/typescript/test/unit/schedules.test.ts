import assert from "node:assert/strict";
import { test } from "node:test";

import type { Output } from "../../src/session/outputs.js";
import type { ClientFrame } from "../../src/wire.js";
import { message, seeded, TIME, World } from "./world.js";

const MESSAGES = 60;
const SENDS = 20;

/**
 * A server with one chat. A seed decides which pushes and replies are dropped, duplicated and reordered, and when a
 * connection ends. Acks of the client never exceed the stored messages.
 */
class UnreliableServer {
  readonly handedOut: number[] = [];
  readonly log: string[] = [];
  private readonly world: World;
  private readonly inFlight: string[] = [];
  private readonly random: () => number;
  private stored = 0;
  private isUp = false;
  private others = 0;

  constructor(seed: number) {
    this.random = seeded(seed);
    this.world = new World(this.random);
    this.world.session.resume("c", 0);
    this.world.session.connect(0);
    for (let n = 0; n < SENDS; n += 1) {
      this.world.session.send(0, { clientMessageId: `own ${n}`, chatId: "c", content: `own ${n}`, queuedAt: 0 });
    }
    this.follow();
  }

  /** Executes one random step. With `calm` no more faults are injected. */
  step(calm: boolean): void {
    const { world } = this;
    const kind = this.random();
    if (!calm && kind < 0.02 && this.isUp) {
      this.isUp = false;
      this.inFlight.length = 0;
      world.end({ kind: "lost" });
    } else if (!calm && kind < 0.3 && this.others < MESSAGES) {
      this.others += 1;
      this.log.push(`other ${this.others}`);
      this.pushNewest(Math.floor(this.random() * 3));
    } else if (this.inFlight.length > 0) {
      const at = calm ? 0 : Math.floor(this.random() * this.inFlight.length);
      const [text = ""] = this.inFlight.splice(at, 1);
      world.session.handleText(world.now, text);
    } else {
      world.pass(500);
    }
    this.follow();
  }

  private follow(): void {
    for (let outputs = this.world.outputs(); outputs.length > 0; outputs = this.world.outputs()) {
      outputs.forEach((output) => this.followOne(output));
    }
  }

  private followOne(output: Output): void {
    if (output.kind === "connect") {
      this.world.establish();
      this.isUp = true;
    } else if (output.kind === "listChats") {
      this.world.list([{ chatId: "c", delivered: 0, head: this.log.length }]);
    } else if (output.kind === "transmit") {
      this.answer(output.frame);
    } else if (output.kind === "event" && output.event.name === "message") {
      this.handedOut.push(output.event.detail.sequence);
      this.stored = output.event.detail.sequence;
      this.world.session.stored(this.world.now, "c", this.stored);
    } else if (output.kind === "event" && output.event.name === "disconnected") {
      this.isUp = false;
      this.inFlight.length = 0;
    }
  }

  private answer(frame: ClientFrame): void {
    switch (frame.type) {
      case "send_message": {
        const { content, client_message_id } = frame.payload;
        const known = this.log.indexOf(content);
        if (known === -1) {
          this.log.push(content);
        }
        const sequence = known === -1 ? this.log.length : known + 1;
        const payload = {
          client_message_id,
          message_id: `msg_${sequence}`,
          chat_id: "c",
          sequence,
          created_at: TIME,
          deduplicated: known !== -1,
        };
        this.say({ type: "send_message_ack", request_id: frame.request_id, payload });
        return;
      }
      case "sync_request": {
        const after = frame.payload.last_acked_sequence;
        const examined = Math.min(after + 7, this.log.length);
        const messages = this.log.slice(after, examined).map((_, n) => this.messageAt(after + n + 1));
        const has_more = examined < this.log.length;
        const next = has_more ? { next_sequence: examined + 1 } : {};
        const payload = { chat_id: "c", messages, has_more, head_sequence: this.log.length, ...next };
        this.say({ type: "sync_response", request_id: frame.request_id, payload });
        return;
      }
      case "ack":
        assert.ok(frame.payload.last_acked_sequence <= this.stored, "acknowledged before it was stored");
        return;
      case "heartbeat":
        this.say({ type: "heartbeat_ack", payload: { server_time: TIME } });
        return;
      default:
        assert.fail(`unexpected ${frame.type}`);
    }
  }

  /** Sends a `resync`, like a server that knows of missed pushes. */
  resync(): void {
    this.say({ type: "resync", payload: { reason: "missed_pushes" } });
  }

  private pushNewest(copies: number): void {
    for (let n = 0; n < copies && this.isUp; n += 1) {
      this.say({ type: "message", payload: this.messageAt(this.log.length) });
    }
  }

  private messageAt(sequence: number): object {
    return { ...message(sequence, "c"), content: this.log[sequence - 1] };
  }

  private say(frame: object): void {
    this.inFlight.push(JSON.stringify(frame));
  }
}

test("whatever is dropped, doubled and reordered, every message comes once and in order", () => {
  for (let seed = 1; seed <= 300; seed += 1) {
    const server = new UnreliableServer(seed);
    for (let step = 0; step < 400; step += 1) {
      server.step(false);
    }
    server.resync();
    for (let step = 0; step < 400; step += 1) {
      server.step(true);
    }
    const all = server.log.map((_, n) => n + 1);
    assert.deepEqual(server.handedOut, all, `seed ${seed}`);
    const own = server.log.filter((content) => content.startsWith("own"));
    assert.deepEqual(
      own,
      Array.from({ length: SENDS }, (_, n) => `own ${n}`),
      `seed ${seed}`,
    );
    assert.ok(server.log.length > SENDS + 10, `seed ${seed} shows nothing`);
  }
});
