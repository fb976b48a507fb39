import type { ClientEvent, ClientEvents } from "../events.js";
import type { ClientFrame } from "../wire.js";
import type { Link } from "./link.js";
import type { Output } from "./outputs.js";

/** The outputs of a session, in order: instructions to the driver, events, and frames while there is a connection. */
export class Out {
  /** Present while the connection is established. */
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

  /** Writes a frame, if the connection is established. */
  transmit(now: number, frame: ClientFrame): void {
    if (this.link !== undefined) {
      this.link.sent(now);
      this.#outputs.push({ kind: "transmit", frame });
    }
  }
}
