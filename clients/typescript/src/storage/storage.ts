import type { ContentType } from "../wire.js";

/** A send that is not acknowledged yet. */
export interface QueuedSend {
  /** The sender's id for the send, the same on every retry. */
  clientMessageId: string;
  chatId: string;
  content: string;
  contentType?: ContentType;
  metadata?: Record<string, unknown>;
  ttlSeconds?: number;
  /** When it was queued, in milliseconds of the Unix epoch. */
  queuedAt: number;
}

/** The stored tokens of a session. */
export interface KeptTokens {
  accessToken: string;
  refreshToken: string;
  /** When to renew them, in milliseconds of the Unix epoch. */
  renewAt: number;
}

/** The stored identity of a device: its id, its user and its tokens. */
export interface KeptDevice {
  deviceId: string;
  /**
   * The owner of the stored sends and positions. It is kept after the tokens are gone, so that no data of one user is
   * ever sent as another.
   */
  userId?: string;
  /** Absent while the device is not signed in. */
  tokens?: KeptTokens;
}

/** The position of this device in a chat: it has all messages up to `sequence`. */
export interface Position {
  chatId: string;
  sequence: number;
}

/**
 * The persistent state of a device.
 *
 * A promise resolves once the change is durable. Changes take effect in the order of the calls.
 */
export interface Storage {
  device(): Promise<KeptDevice | undefined>;
  keepDevice(device: KeptDevice): Promise<void>;

  /** All stored sends, in the order of their addition. */
  sends(): Promise<QueuedSend[]>;
  /** Stores a send after the others. A send with a known `clientMessageId` keeps its position. */
  addSend(send: QueuedSend): Promise<void>;
  removeSend(clientMessageId: string): Promise<void>;

  positions(): Promise<Position[]>;
  keepPosition(position: Position): Promise<void>;
  forgetPosition(chatId: string): Promise<void>;

  /** Deletes sends and positions. */
  clear(): Promise<void>;
}
