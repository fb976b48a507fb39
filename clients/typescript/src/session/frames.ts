import type { ServerFrame } from "../wire.js";

type Check = (value: unknown) => boolean;

const isText: Check = (value) => typeof value === "string";
const isTime: Check = (value) => isText(value) && !Number.isNaN(Date.parse(value as string));
const isFlag: Check = (value) => typeof value === "boolean";
const isSequence: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const isListOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);
const has =
  (fields: Record<string, Check>): Check =>
  (value) =>
    typeof value === "object" &&
    value !== null &&
    Object.entries(fields).every(([name, check]) => check((value as Record<string, unknown>)[name]));

const isMissingOr =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);

const isState = has({
  revision: isSequence,
  edited_at: isMissingOr(isTime),
  reactions: isMissingOr(isListOf(has({ reaction: isText, count: isSequence }))),
});
const isMessage = has({
  message_id: isText,
  chat_id: isText,
  sequence: isSequence,
  sender_id: isText,
  content: isText,
  content_type: isText,
  created_at: isTime,
  state: isMissingOr(isState),
});
const isUpdate = has({
  chat_id: isText,
  sequence: isSequence,
  target_sequence: isSequence,
  user_id: isText,
  kind: isText,
  reaction: isMissingOr(isText),
});
const isPresence = has({ user_id: isText, status: isText });

/** The checks that a payload has to pass before the session acts on it. Other fields are passed on unchecked. */
const CHECKS: Record<ServerFrame["type"], Check> = {
  connection_established: has({ connection_id: isText, user_id: isText, heartbeat_interval_ms: isSequence }),
  send_message_ack: has({ message_id: isText, chat_id: isText, sequence: isSequence, created_at: isTime }),
  message: isMessage,
  message_updated: has({ update: isUpdate, message: isMissingOr(isMessage) }),
  sync_response: has({
    messages: isListOf(isMessage),
    updates: isMissingOr(isListOf(isUpdate)),
    updated_messages: isMissingOr(isListOf(isMessage)),
    has_more: isFlag,
    head_sequence: isSequence,
  }),
  receipt: has({ chat_id: isText, user_id: isText, delivered_sequence: isSequence, read_sequence: isSequence }),
  message_expired: has({ chat_id: isText, sequences: isListOf(isSequence) }),
  chat_updated: has({ chat_id: isText, change: isText }),
  typing_indicator: has({ chat_id: isText, user_id: isText, is_typing: isFlag }),
  presence_snapshot: has({ presences: isListOf(isPresence) }),
  presence_changed: isPresence,
  resync: has({}),
  heartbeat_ack: has({}),
  reauth_ack: has({}),
  error: has({ code: isText, message: isText }),
  connection_closing: has({ reason: isText, reconnect_delay_ms: isSequence }),
};

/** Parses the text of a frame. Returns `undefined` for an unreadable frame and for one of a later version. */
export function parseFrame(text: string): ServerFrame | undefined {
  let frame: Record<string, unknown>;
  try {
    frame = JSON.parse(text) as Record<string, unknown>;
  } catch {
    return undefined;
  }
  const { type, request_id, payload } = frame ?? {};
  const isKnown = typeof type === "string" && Object.hasOwn(CHECKS, type);
  if (!isKnown || !CHECKS[type as ServerFrame["type"]](payload)) {
    return undefined;
  }
  return (isText(request_id) ? { type, request_id, payload } : { type, payload }) as ServerFrame;
}
