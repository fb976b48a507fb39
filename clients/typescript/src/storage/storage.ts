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

/** What an update does to a message. */
export type UpdateAction =
  | { action: "edit"; content: string; contentType?: ContentType; metadata?: Record<string, unknown> }
  | { action: "delete" }
  | { action: "react" | "unreact"; reaction: string };

/** An update of a message that is not acknowledged yet. */
export type QueuedUpdate = UpdateAction & {
  /** The user's id for the update, the same on every retry. */
  clientMessageId: string;
  chatId: string;
  /** The sequence of the message. */
  sequence: number;
  /** When it was queued, in milliseconds of the Unix epoch. */
  queuedAt: number;
};

/** A send or an update in the queue of a device. */
export type QueuedEntry = QueuedSend | QueuedUpdate;

/** Whether an entry of the queue is an update. */
export function isUpdate(entry: QueuedEntry): entry is QueuedUpdate {
  return "action" in entry;
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

/** The position of this device in a chat: it has all messages and updates up to `sequence`. */
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

  /** All stored sends and updates, in the order of their addition. */
  sends(): Promise<QueuedEntry[]>;
  /** Stores a send or an update after the others. One with a known `clientMessageId` keeps its position. */
  addSend(entry: QueuedEntry): Promise<void>;
  removeSend(clientMessageId: string): Promise<void>;

  positions(): Promise<Position[]>;
  keepPosition(position: Position): Promise<void>;
  forgetPosition(chatId: string): Promise<void>;

  /** Deletes sends and positions. */
  clear(): Promise<void>;
}
