import type { ChatSummary, MessageWithStatus } from "@tidings/client";

export const ADA = "user_ADA";
export const BOB = "user_BOB";
export const CHAT = "chat_ONE";

/** A message of Bob's, a minute after the one before it. */
export function message(sequence: number, given: Partial<MessageWithStatus> = {}): MessageWithStatus {
  return {
    message_id: `msg_${sequence}`,
    chat_id: CHAT,
    sequence,
    sender_id: BOB,
    content: `message ${sequence}`,
    content_type: "text/plain",
    created_at: new Date(Date.UTC(2026, 0, 5, 12, sequence)).toISOString(),
    ...given,
  };
}

/** Ada's view of her chat with Bob. */
export function chat(given: Partial<ChatSummary> = {}): ChatSummary {
  return {
    chat_id: CHAT,
    type: "direct",
    name: null,
    member_count: 2,
    created_at: "2026-01-05T12:00:00.000Z",
    other_participants: [{ user_id: BOB, display_name: "Bob Noyce", created_at: "2026-01-05T11:00:00.000Z" }],
    last_message: null,
    last_message_at: null,
    unread_count: 0,
    my_membership: { role: "member", muted_until: null },
    message_ttl_seconds: null,
    head_sequence: 0,
    my_read_sequence: 0,
    my_delivered_sequence: 0,
    ...given,
  };
}

/** The sequences of messages, in display order. */
export function sequences(messages: readonly { sequence: number }[]): number[] {
  return messages.map(({ sequence }) => sequence);
}
