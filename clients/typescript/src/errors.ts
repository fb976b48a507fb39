import type { ErrorBody, ErrorCode } from "./wire.js";

/**
 * What a failed call is about: a code of the contract, or one of the three that only a client can say. `UNREACHABLE` is
 * a server that did not answer, `UNREADABLE` an answer that is not one of this API, `NOT_SIGNED_IN` a call that needs a
 * token on a device that has none.
 */
export type ApiErrorCode = ErrorCode | "UNREACHABLE" | "UNREADABLE" | "NOT_SIGNED_IN";

/** A REST call that has not brought what it asks for. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  /** What went wrong; the place to branch on. */
  readonly code: ApiErrorCode;
  /** The HTTP status, or 0 if there was no answer. */
  readonly status: number;
  /** What a program may want to know, by code: `field_errors`, `limit`, `head_sequence`. */
  readonly details: Record<string, unknown>;
  /** The pause that the server asks for before the next try. */
  readonly retryAfterSeconds: number | undefined;
  /** The server's name for the call, for a report to its operator. */
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

  /** Whether asking again would bring the same. */
  get isFinal(): boolean {
    return this.code === "NOT_SIGNED_IN" || (this.status >= 400 && this.status < 500 && this.status !== 429);
  }
}

/**
 * Why a send did not become a message: the server's code, or one of ours. `CLOSED` is a send that is kept and goes out
 * with the next `connect`; `QUEUE_FULL` and `NOT_KEPT` are sends that were not taken, because too many wait or because
 * the storage has no room.
 */
export type SendErrorCode = ErrorCode | "CLOSED" | "QUEUE_FULL" | "NOT_KEPT";

/** A send that did not become a message. */
export class SendError extends Error {
  override readonly name = "SendError";
  /** Why; the place to branch on. */
  readonly code: SendErrorCode;
  /** What the server says beside the code. */
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

/** The details of an error, whatever the server put there. */
export function detailsOf(error: { details?: unknown }): Record<string, unknown> {
  const { details } = error;
  return typeof details === "object" && details !== null && !Array.isArray(details)
    ? (details as Record<string, unknown>)
    : {};
}
