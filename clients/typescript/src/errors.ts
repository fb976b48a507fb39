import type { ErrorBody, ErrorCode } from "./wire.js";

/**
 * The code of a failed call: one of the contract, or one of three that only a client has. `UNREACHABLE` is a server
 * that did not respond, `UNREADABLE` a response that is not one of this API, `NOT_SIGNED_IN` a call that needs a token
 * on a device that has none.
 */
export type ApiErrorCode = ErrorCode | "UNREACHABLE" | "UNREADABLE" | "NOT_SIGNED_IN";

/** A failed REST call. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  /** The error code; branch on this. */
  readonly code: ApiErrorCode;
  /** The HTTP status, or 0 if there was no response. */
  readonly status: number;
  /** Details for programs, by code: `field_errors`, `limit`, `head_sequence`. */
  readonly details: Record<string, unknown>;
  /** The delay that the server requests before a retry. */
  readonly retryAfterSeconds: number | undefined;
  /** The request id of the server, for a report to its operator. */
  readonly requestId: string | undefined;

  constructor(
    message: string,
    about: {
      code: ApiErrorCode;
      status?: number;
      details?: Record<string, unknown>;
      retryAfterSeconds?: number | undefined;
      requestId?: string | undefined;
      cause?: unknown;
    },
  ) {
    super(message, about.cause === undefined ? undefined : { cause: about.cause });
    this.code = about.code;
    this.status = about.status ?? 0;
    this.details = about.details ?? {};
    this.retryAfterSeconds = about.retryAfterSeconds;
    this.requestId = about.requestId;
  }

  /** Whether a retry would fail in the same way. */
  get isFinal(): boolean {
    return this.code === "NOT_SIGNED_IN" || (this.status >= 400 && this.status < 500 && this.status !== 429);
  }
}

/**
 * The code of a failed send: the server's, or one of the SDK's. `CLOSED` is a send that stays stored and is sent after
 * the next `connect`; `QUEUE_FULL` and `NOT_KEPT` are sends that were not accepted, because the queue is full or the
 * storage failed.
 */
export type SendErrorCode = ErrorCode | "CLOSED" | "QUEUE_FULL" | "NOT_KEPT";

/** A failed send. */
export class SendError extends Error {
  override readonly name = "SendError";
  /** The error code; branch on this. */
  readonly code: SendErrorCode;
  /** The details of the server's error. */
  readonly details: Record<string, unknown>;

  constructor(message: string, code: SendErrorCode, details: Record<string, unknown> = {}, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.details = details;
  }
}

/** The refusal of a send as its sender sees it. */
export function refusedSend(error: ErrorBody): SendError {
  return new SendError(`${error.code}: ${error.message}`, error.code, detailsOf(error));
}

/** The details of an error; empty unless they are an object. */
export function detailsOf(error: { details?: unknown }): Record<string, unknown> {
  const { details } = error;
  return typeof details === "object" && details !== null && !Array.isArray(details)
    ? (details as Record<string, unknown>)
    : {};
}
