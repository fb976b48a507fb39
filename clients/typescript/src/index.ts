/**
 * The SDK of Tidings for browsers and Node.
 *
 * `Client` is one device of one user: `client.api` makes REST calls and renews tokens automatically, `connect`
 * maintains a connection that hands out every message and every update of one exactly once and in order, `send` queues a
 * message until the server has accepted it.
 */
export { Api, type Page, type PageOptions } from "./api.js";
export {
  Client,
  type ClientOptions,
  type EditOptions,
  type Outgoing,
  type SendOptions,
  type UpdateOptions,
} from "./client.js";
export { ApiError, SendError, type ApiErrorCode, type SendErrorCode } from "./errors.js";
export type { ClientEvents, Listener, StopReason } from "./events.js";
export { supportsPasskeys } from "./passkeys.js";
export { indexedDbStorage } from "./storage/indexed-db.js";
export { memoryStorage } from "./storage/memory.js";
export type {
  KeptDevice,
  KeptTokens,
  Position,
  QueuedEntry,
  QueuedSend,
  QueuedUpdate,
  Storage,
  UpdateAction,
} from "./storage/storage.js";
export { newer, revisionOf, withQueued, withUpdated } from "./updates.js";
export type {
  ChatDetails,
  ChatSummary,
  ChatUpdated,
  ContentType,
  ErrorBody,
  ErrorCode,
  Frames,
  Invitation,
  Me,
  Member,
  Message,
  MessageState,
  MessageUpdate,
  MessageUpdated,
  MessageWithStatus,
  Passkey,
  Presence,
  Reaction,
  Receipt,
  Schemas,
  SendMessageAck,
  Session,
  Tokens,
  TypingIndicator,
  User,
} from "./wire.js";
