import { ApiError } from "./errors.js";
import type { Ended } from "./session/outputs.js";

/** What a socket needs, and whom it tells. */
export interface SocketParts {
  /** Finds out where to connect. */
  handshake: () => Promise<string>;
  webSocket: typeof WebSocket;
  onOpen: () => void;
  onText: (text: string) => void;
  /** Told once, unless the socket was closed from this side. */
  onEnd: (ended: Ended) => void;
}

/** One try at a connection, from the handshake to its end. Once closed it tells nothing any more. */
export class Socket {
  /** Resolves when what was to be written is, and the other side knows of the end. */
  readonly closed: Promise<void>;
  #webSocket: WebSocket | undefined;
  #isOver = false;
  #resolveClosed: () => void = () => undefined;
  readonly #parts: SocketParts;

  constructor(parts: SocketParts) {
    this.#parts = parts;
    this.closed = new Promise((resolve) => (this.#resolveClosed = resolve));
    this.#open().catch((error: unknown) => this.#end(refusal(error)));
  }

  send(text: string): void {
    if (this.#webSocket?.readyState === OPEN) {
      this.#webSocket.send(text);
    }
  }

  close(): void {
    this.#isOver = true;
    if (this.#webSocket === undefined) {
      this.#resolveClosed();
    } else {
      this.#webSocket.close(1000);
    }
  }

  async #open(): Promise<void> {
    const url = await this.#parts.handshake();
    if (this.#isOver) {
      return;
    }
    const webSocket = new this.#parts.webSocket(url);
    this.#webSocket = webSocket;
    webSocket.onopen = () => this.#isOver || this.#parts.onOpen();
    webSocket.onmessage = ({ data }) => {
      if (!this.#isOver && typeof data === "string") {
        this.#parts.onText(data);
      }
    };
    webSocket.onerror = () => this.#end({ kind: "lost" });
    webSocket.onclose = ({ code, reason }) => {
      this.#end(NO_CLOSE_FRAME.has(code) ? { kind: "lost" } : { kind: "closed", code, reason });
      this.#resolveClosed();
    };
  }

  #end(ended: Ended): void {
    if (!this.#isOver) {
      this.#isOver = true;
      this.#parts.onEnd(ended);
    }
  }
}

const OPEN = 1;
/** Codes that stand for a close frame without a code, or for none. */
const NO_CLOSE_FRAME = new Set([1005, 1006]);

/** Why a handshake failed before there was a socket. */
function refusal(error: unknown): Ended {
  if (!(error instanceof ApiError) || error.code === "UNREACHABLE") {
    return { kind: "lost" };
  }
  const status = error.code === "NOT_SIGNED_IN" ? 401 : error.status;
  return { kind: "refused", status, retryAfterMs: (error.retryAfterSeconds ?? 0) * 1000 };
}
