import type { ClientEvent } from "../events.js";
import type { ClientFrame } from "../wire.js";

/** An instruction to the driver. */
export type Output =
  /** Open a WebSocket, then call `handleConnected` or `handleDisconnected`. */
  | { kind: "connect" }
  /** Close the socket after writing the pending frames. */
  | { kind: "disconnect" }
  /** Write this frame. */
  | { kind: "transmit"; frame: ClientFrame }
  /** Get a new access token, then call `handleTokenRefreshed` or `handleRefreshFailed`. */
  | { kind: "refreshToken" }
  /** List the user's chats and pass them to `handleChats`: some may be new since the last connection. */
  | { kind: "listChats" }
  /** Read the user's delivered watermark of a chat, then call `handleLookedUp` or `handleLookUpFailed`. */
  | { kind: "lookUp"; chatId: string }
  /** Store or delete this device's position in a chat. */
  | { kind: "keepPosition"; chatId: string; sequence: number }
  | { kind: "forgetPosition"; chatId: string }
  /** Deliver this event to the application. */
  | { kind: "event"; event: ClientEvent };

/** How a connection ended, or why it could not be opened. */
export type Ended =
  /** The connection broke, or the server did not respond. */
  | { kind: "lost" }
  /** The server closed it. */
  | { kind: "closed"; code: number; reason: string }
  /** The handshake was refused over HTTP. */
  | { kind: "refused"; status: number; retryAfterMs: number };

/** Why there is no new access token: the server refused the refresh token, or could not be reached. */
export type RefreshFailure = "refused" | "unreachable";

/** Why a look-up failed: the chat does not exist, the user is not a member, or the server could not be reached. */
export type LookUpFailure = "gone" | "unreachable";

/** A chat of the user's, as the inbox shows it. */
export interface ListedChat {
  chatId: string;
  /** The user's delivered watermark. */
  delivered: number;
  head: number;
}
