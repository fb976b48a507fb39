import type { ClientEvent, ClientEvents } from "../events.js";
import type { ClientFrame } from "../wire.js";
import type { Link } from "./link.js";
import type { Output } from "./outputs.js";

/** What a session has to say, in order: to its driver, to the application, and to the server while there is a link. */
export class Out {
  /** Present while the connection stands. */
  link: Link | undefined;
  readonly #outputs: Output[] = [];

  push(output: Output): void {
    this.#outputs.push(output);
  }

  next(): Output | undefined {
    return this.#outputs.shift();
  }

  tell<Name extends keyof ClientEvents>(name: Name, detail: ClientEvents[Name]): void {
    this.#outputs.push({ kind: "event", event: { name, detail } as ClientEvent });
  }

  /** Writes a frame, if the connection stands. */
  transmit(now: number, frame: ClientFrame): void {
    if (this.link !== undefined) {
      this.link.sent(now);
      this.#outputs.push({ kind: "transmit", frame });
    }
  }
}
