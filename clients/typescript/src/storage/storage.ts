import type { ContentType } from "../wire.js";

/** A send that is not acknowledged yet. */
export interface QueuedSend {
  /** The sender's name for the send, the same on every try. */
  clientMessageId: string;
  chatId: string;
  content: string;
  contentType?: ContentType;
  ttlSeconds?: number;
  /** When it was queued, in milliseconds of the Unix epoch. */
  queuedAt: number;
}

/** The tokens of a session, as they are kept from one run to the next. */
export interface KeptTokens {
  accessToken: string;
  refreshToken: string;
  /** When to renew them, in milliseconds of the Unix epoch. */
  renewAt: number;
}

/** Which device this is, whose, and what it shows to act for them. */
export interface KeptDevice {
  deviceId: string;
  /** Whose sends and positions are kept. It outlives the tokens: nothing of one user is ever sent as another. */
  userId?: string;
  /** Absent while nobody is signed in. */
  tokens?: KeptTokens;
}

/** How far this device has come in a chat: it has everything up to `sequence`. */
export interface Position {
  chatId: string;
  sequence: number;
}

/**
 * What a device keeps from one run to the next.
 *
 * A promise that resolves means that the change is kept. Changes take effect in the order of the calls.
 */
export interface Storage {
  device(): Promise<KeptDevice | undefined>;
  keepDevice(device: KeptDevice): Promise<void>;

  /** Every send that is kept, in the order they were added. */
  sends(): Promise<QueuedSend[]>;
  /** Keeps a send behind the others. One with the same `clientMessageId` keeps its place. */
  addSend(send: QueuedSend): Promise<void>;
  removeSend(clientMessageId: string): Promise<void>;

  positions(): Promise<Position[]>;
  keepPosition(position: Position): Promise<void>;
  forgetPosition(chatId: string): Promise<void>;

  /** Forgets sends and positions. */
  clear(): Promise<void>;
}
