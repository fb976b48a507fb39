import { isUpdate, type QueuedEntry, type QueuedSend } from "../storage/storage.js";
import type { ClientFrame, Message, SendMessageAck } from "../wire.js";

/** The frame that requests a queued send or update. */
export function requestOf(requestId: string, entry: QueuedEntry): ClientFrame {
  const { clientMessageId: client_message_id, chatId: chat_id } = entry;
  const ids = { client_message_id, chat_id };
  const frame = isUpdate(entry)
    ? { type: "update_message", payload: { ...ids, ...updatePayload(entry) } }
    : { type: "send_message", payload: { ...ids, ...sendPayload(entry) } };
  return { ...frame, request_id: requestId } as ClientFrame;
}

/** The message that an acknowledged send has become. */
export function messageOf(send: QueuedSend, ack: SendMessageAck, senderId: string): Message {
  return {
    message_id: ack.message_id,
    chat_id: send.chatId,
    sequence: ack.sequence,
    sender_id: senderId,
    content: send.content,
    content_type: send.contentType ?? "text/plain",
    ...(send.metadata && { metadata: send.metadata }),
    created_at: ack.created_at,
    client_message_id: send.clientMessageId,
    ...(send.ttlSeconds && { expires_at: later(ack.created_at, send.ttlSeconds) }),
  };
}

// JSON leaves undefined fields out.

function sendPayload({ content, contentType, metadata, ttlSeconds }: QueuedSend): object {
  return { content, content_type: contentType, metadata, ttl_seconds: ttlSeconds };
}

function updatePayload({ sequence, ...update }: Extract<QueuedEntry, { action: string }>): object {
  const { action } = update;
  switch (action) {
    case "edit":
      return { sequence, action, content: update.content, content_type: update.contentType, metadata: update.metadata };
    case "delete":
      return { sequence, action };
    case "react":
    case "unreact":
      return { sequence, action, reaction: update.reaction };
  }
}

function later(time: string, seconds: number): string {
  return new Date(Date.parse(time) + seconds * 1000).toISOString();
}
