import type { ClientEvent } from "../events.js";
import type { ClientFrame } from "../wire.js";

/** What the driver is to do. */
export type Output =
  /** Open a WebSocket, then call `handleConnected` or `handleDisconnected`. */
  | { kind: "connect" }
  /** Drop the socket, after what was to be written. */
  | { kind: "disconnect" }
  /** Write this frame. */
  | { kind: "transmit"; frame: ClientFrame }
  /** Get a new access token, then call `handleTokenRefreshed` or `handleRefreshFailed`. */
  | { kind: "refreshToken" }
  /** Read the list of the user's chats and give it to `handleChats`: some may be new since the last connection. */
  | { kind: "listChats" }
  /** Read how far this user has come in a chat, then call `handleLookedUp` or `handleLookUpFailed`. */
  | { kind: "lookUp"; chatId: string }
  /** Keep where this device begins in a chat, or no longer. */
  | { kind: "keepPosition"; chatId: string; sequence: number }
  | { kind: "forgetPosition"; chatId: string }
  /** Tell the application. */
  | { kind: "event"; event: ClientEvent };

/** How a connection ended, or why it never began. */
export type Ended =
  /** It broke, or nobody answered. */
  | { kind: "lost" }
  /** The server closed it. */
  | { kind: "closed"; code: number; reason: string }
  /** The handshake was refused over HTTP. */
  | { kind: "refused"; status: number; retryAfterMs: number };

/** Why there is no new access token: the refresh token is no good, or the server could not be asked. */
export type RefreshFailure = "refused" | "unreachable";

/** Why a chat could not be looked up: there is none, or the user is not in it, or the server could not be asked. */
export type LookUpFailure = "gone" | "unreachable";

/** A chat of the user's, as the inbox shows it. */
export interface ListedChat {
  chatId: string;
  /** How far the user has come on any device. */
  delivered: number;
  head: number;
}
