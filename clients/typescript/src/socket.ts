import { ApiError } from "./errors.js";
import type { Ended } from "./session/outputs.js";

/** The dependencies and callbacks of a socket. */
export interface SocketParts {
  /** Returns the URL to connect to. */
  handshake: () => Promise<string>;
  webSocket: typeof WebSocket;
  onOpen: () => void;
  onText: (text: string) => void;
  /** Called once, unless this side closed the socket. */
  onEnd: (ended: Ended) => void;
}

/** One connection attempt, from the handshake to its end. After `close` it calls nothing. */
export class Socket {
  /** Resolves when the pending frames are written and the closing handshake is done. */
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
/** Codes that browsers report for a close frame without a code, and for no close frame. */
const NO_CLOSE_FRAME = new Set([1005, 1006]);

/** Why a handshake failed before there was a socket. */
function refusal(error: unknown): Ended {
  if (!(error instanceof ApiError) || error.code === "UNREACHABLE") {
    return { kind: "lost" };
  }
  const status = error.code === "NOT_SIGNED_IN" ? 401 : error.status;
  return { kind: "refused", status, retryAfterMs: (error.retryAfterSeconds ?? 0) * 1000 };
}
