import { Emitter, type ClientEvent } from "./events.js";
import { pause, type Random } from "./session/backoff.js";
import { sleep } from "./timing.js";
import type { Message } from "./wire.js";

/** Events that may wait for the application. Beyond, the driver leaves the server until there is room again. */
const LENGTH_MAX = 1024;

interface Waiting {
  event: ClientEvent;
  /** What has to be done first. */
  ready: Promise<unknown> | undefined;
}

/**
 * Brings events to the application one at a time, in order. A message whose listener fails is told again after a pause,
 * so nothing overtakes it and nothing is acknowledged that was not taken.
 */
export class EventQueue {
  #waiting: Waiting[] = [];
  #isStopped = false;
  /** The delivery under way. */
  #running: Promise<void> | undefined;
  #onRoom: (() => void)[] = [];
  readonly #emitter: Emitter;
  readonly #random: Random;
  readonly #onTaken: (message: Message) => Promise<void>;

  /** `onTaken` is called with each message that the application has taken; the next event waits for it. */
  constructor(emitter: Emitter, random: Random, onTaken: (message: Message) => Promise<void>) {
    this.#emitter = emitter;
    this.#random = random;
    this.#onTaken = onTaken;
  }

  get isFull(): boolean {
    return this.#waiting.length >= LENGTH_MAX;
  }

  /** Tells an event when those before it are told and `ready` is there. */
  push(event: ClientEvent, ready?: Promise<unknown>): void {
    if (this.#isStopped) {
      return;
    }
    this.#waiting.push({ event, ready });
    this.#running ??= this.#run().finally(() => (this.#running = undefined));
  }

  /** Resolves when so many are told that it is worth while to get more. */
  async room(): Promise<void> {
    if (this.#waiting.length > LENGTH_MAX / 2) {
      await new Promise<void>((resolve) => this.#onRoom.push(resolve));
    }
  }

  /** Forgets what is not told yet and whatever is pushed from now on. Resolves when no listener is at work any more. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#waiting = [];
    this.#giveRoom();
    await this.#running;
  }

  /** Resolves when everything is told. */
  async idle(): Promise<void> {
    await this.#running;
  }

  /** Tells events again. */
  resume(): void {
    this.#isStopped = false;
  }

  async #run(): Promise<void> {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      await next.ready;
      if (next.event.name === "message") {
        await this.#tellUntilTaken(next);
      } else if (this.#waiting[0] === next) {
        await this.#tell(next.event);
      }
      // What was cleared meanwhile is not there to be taken away.
      if (this.#waiting[0] === next) {
        this.#waiting.shift();
      }
      if (this.#waiting.length <= LENGTH_MAX / 2) {
        this.#giveRoom();
      }
    }
  }

  async #tellUntilTaken(entry: Waiting): Promise<void> {
    for (let failures = 1; this.#waiting[0] === entry; failures += 1) {
      const retryInMs = pause(failures, this.#random);
      if (await this.#tell(entry.event, retryInMs)) {
        await this.#onTaken(entry.event.detail as Message);
        return;
      }
      await sleep(retryInMs);
    }
  }

  /** Tells an event, and whether every listener has taken it. */
  async #tell(event: ClientEvent, retryInMs?: number): Promise<boolean> {
    try {
      await this.#emitter.emit(event);
      return true;
    } catch (error) {
      const detail = { event: event.name, error, ...(retryInMs === undefined ? {} : { retryInMs }) };
      // Whoever fails to listen to failures is not told of that.
      await this.#emitter.emit({ name: "listenerFailed", detail }).catch(() => undefined);
      return false;
    }
  }

  #giveRoom(): void {
    this.#onRoom.splice(0).forEach((resolve) => resolve());
  }
}
