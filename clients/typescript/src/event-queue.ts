import { Emitter, type ClientEvent } from "./events.js";
import { pause, type Random } from "./session/backoff.js";
import { isEntry, positionOf, type Entry } from "./session/entries.js";
import type { Position } from "./storage/storage.js";
import { sleep } from "./timing.js";

/** Most queued events. At this bound the driver disconnects until there is room again. */
const LENGTH_MAX = 1024;

interface Waiting {
  event: ClientEvent;
  /** The event is emitted only after this promise. */
  ready: Promise<unknown> | undefined;
}

/**
 * Delivers events to the application one at a time and in order. If a listener fails on a message or an update, it is
 * delivered again after a delay. So no event overtakes it, and only processed entries are acknowledged.
 */
export class EventQueue {
  #waiting: Waiting[] = [];
  #isStopped = false;
  /** The running delivery. */
  #running: Promise<void> | undefined;
  #onRoom: (() => void)[] = [];
  readonly #emitter: Emitter;
  readonly #random: Random;
  readonly #onTaken: (position: Position) => Promise<void>;

  /** `onTaken` is called with the position of each processed entry; the next event waits for it. */
  constructor(emitter: Emitter, random: Random, onTaken: (position: Position) => Promise<void>) {
    this.#emitter = emitter;
    this.#random = random;
    this.#onTaken = onTaken;
  }

  get isFull(): boolean {
    return this.#waiting.length >= LENGTH_MAX;
  }

  /** Queues an event; it is delivered after the earlier ones and after `ready`. */
  push(event: ClientEvent, ready?: Promise<unknown>): void {
    if (this.#isStopped) {
      return;
    }
    this.#waiting.push({ event, ready });
    this.#running ??= this.#run().finally(() => (this.#running = undefined));
  }

  /** Resolves when the queue is at most half full. */
  async room(): Promise<void> {
    if (this.#waiting.length > LENGTH_MAX / 2) {
      await new Promise<void>((resolve) => this.#onRoom.push(resolve));
    }
  }

  /** Drops the queued events and all later ones. Resolves when no listener is running. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#waiting = [];
    this.#giveRoom();
    await this.#running;
  }

  /** Resolves when all queued events are delivered. */
  async idle(): Promise<void> {
    await this.#running;
  }

  /** Delivers events again after `stop`. */
  resume(): void {
    this.#isStopped = false;
  }

  async #run(): Promise<void> {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      await next.ready;
      if (isEntry(next.event)) {
        await this.#tellUntilTaken(next, next.event);
      } else if (this.#waiting[0] === next) {
        await this.#tell(next.event);
      }
      // The queue may have been cleared meanwhile.
      if (this.#waiting[0] === next) {
        this.#waiting.shift();
      }
      if (this.#waiting.length <= LENGTH_MAX / 2) {
        this.#giveRoom();
      }
    }
  }

  async #tellUntilTaken(waiting: Waiting, entry: Entry): Promise<void> {
    for (let failures = 1; this.#waiting[0] === waiting; failures += 1) {
      const retryInMs = pause(failures, this.#random);
      if (await this.#tell(entry, retryInMs)) {
        await this.#onTaken(positionOf(entry));
        return;
      }
      await sleep(retryInMs);
    }
  }

  /** Delivers an event, and returns whether every listener succeeded. */
  async #tell(event: ClientEvent, retryInMs?: number): Promise<boolean> {
    try {
      await this.#emitter.emit(event);
      return true;
    } catch (error) {
      const detail = { event: event.name, error, ...(retryInMs === undefined ? {} : { retryInMs }) };
      // A failure of a `listenerFailed` listener is ignored.
      await this.#emitter.emit({ name: "listenerFailed", detail }).catch(() => undefined);
      return false;
    }
  }

  #giveRoom(): void {
    this.#onRoom.splice(0).forEach((resolve) => resolve());
  }
}
