/** The responses of the admin API, field by field as `/admin/v1` writes them. Times are RFC 3339 texts. */

/** A sample of the service over two seconds. Values that were not measured are null. */
export interface Sample {
  at: string;
  sends_per_second: number;
  acks_per_second: number;
  pushes_per_second: number;
  ack_p50_ms: number | null;
  ack_p99_ms: number | null;
  push_p50_ms: number | null;
  push_p99_ms: number | null;
  connections: number | null;
  ingest_queue: number | null;
  mailbox_fullest: number | null;
  lag_events: Record<string, number>;
  errors_per_second: Record<string, number>;
  missed_per_second: number;
  /** Since the start of the process, by invariant. */
  violations: Record<string, number>;
  memory_bytes: number | null;
  cpu_cores: number | null;
  /** Of an embedded store; a process of a fleet has none. */
  disk_used_bytes: number | null;
  disk_free_bytes: number | null;
  disk_limit_bytes: number | null;
}

export interface PulseAnswer {
  interval_ms: number;
  samples: Sample[];
}

/** A process of the service. Fields that processes do not share are null, except for the responding one. */
export interface Node {
  id: string;
  is_this: boolean;
  roles: string[];
  address: string | null;
  version: string | null;
  started_at: string | null;
  connections: number | null;
  has_more: boolean;
  draining: boolean | null;
  safe_to_remove: boolean | null;
}

/** The object of an id, a phone number, or the id of a user at the identity provider. */
export type Found =
  | { kind: "user"; user_id: string; display_name: string; phone_number?: string; external_id?: string }
  | { kind: "chat"; chat_id: string; type: string; name: string | null; member_count: number }
  | { kind: "message"; message_id: string; chat_id: string; sequence: number; sender_id: string; created_at: string }
  | { kind: "session"; session_id: string; device_id: string; user_id: string; display_name: string }
  | {
      kind: "connection";
      connection_id: string;
      gateway: string;
      connected_at: string;
      user_id: string;
      display_name: string;
    };

export interface Session {
  session_id: string;
  device_id: string;
  created_at: string;
  last_active_at: string;
  expires_at: string;
  is_connected: boolean;
  is_notified: boolean;
}

export interface Connection {
  connection_id: string;
  user_id: string;
  device_id: string;
  gateway: string;
  connected_at: string;
}

export interface ChatOfUser {
  chat_id: string;
  type: string | null;
  name: string | null;
  role: string;
  muted_until: string | null;
  last_active_at: string;
  head_sequence: number;
  delivered_sequence: number;
  read_sequence: number;
  unread_count: number;
  unread_count_exact: boolean;
}

export interface UserAnswer {
  user_id: string;
  display_name: string;
  external_id: string | null;
  created_at: string;
  last_seen_at: string | null;
  restrictions: { suspended_since: string | null; suspension_reason: string | null };
  sessions: Session[];
  connections: Connection[];
  chats: ChatOfUser[];
  has_more: boolean;
}

/** A member of a chat: watermarks and presence. */
export interface Member {
  user_id: string;
  display_name: string;
  role: string;
  joined_at: string;
  muted_until: string | null;
  delivered_sequence: number;
  read_sequence: number;
  connected: boolean;
  gateways: string[];
  connected_since: string | null;
  away_since: string | null;
  push_devices: number;
}

export interface ChatAnswer {
  chat_id: string;
  type: string;
  name: string | null;
  created_by: string;
  created_at: string;
  updated_at: string;
  message_ttl_seconds: number | null;
  head_sequence: number;
  published_sequence: number;
  last_message_at: string | null;
  members: Member[];
}

/** A message without its content, which operators must not see. */
export interface MessageFacts {
  message_id: string;
  chat_id: string;
  sequence: number;
  sender_id: string;
  sender_name: string;
  client_message_id: string;
  created_at: string;
  expires_at: string | null;
  content_type: string;
  content_bytes: number;
}

export interface MessageEvent extends MessageFacts {
  kind: "message";
  at: string;
  others_count: number;
  delivered_count: number;
  read_count: number;
  not_delivered_to: string[];
}

/** An event of a chat. */
export type TimelineEvent =
  | MessageEvent
  | { kind: "expired"; from_sequence: number; to_sequence: number }
  | { kind: "joined"; at: string; user_id: string; display_name: string; role: string; with_the_chat: boolean }
  | { kind: "created"; at: string; user_id: string };

export interface TimelineAnswer {
  chat_id: string;
  head_sequence: number;
  members: Member[];
  events: TimelineEvent[];
  next_before: number | null;
}

/** The delivery state of a message for one member. */
export interface Reached extends Member {
  reach: "sender" | "read" | "delivered" | "joined_later" | "waiting";
  reason: string | null;
}

export interface MessageAnswer {
  message: MessageFacts;
  chat: { type: string; name: string | null };
  head_sequence: number;
  published_sequence: number;
  in_log: boolean;
  others_count: number;
  delivered_count: number;
  read_count: number;
  answer: string;
  members: Reached[];
}

/** The delivery of events to the application. */
export interface WebhookAnswer {
  lag_events: number;
  failing_since: string | null;
  last_error: string | null;
  delivered: number;
  failed: number;
}

/** A delivery that was given up. */
export interface DeadLetter {
  id: string;
  kind: "event" | "unreadable" | "notification";
  chat_id?: string;
  user_id?: string;
  attempts: number;
  reason: string;
  dead_at: string;
}

/** An operator action. Without an outcome, the process ended during it. */
export interface AuditedAction {
  id: string;
  at: string;
  /** The operator has a name since they can have several. */
  by: { operator?: string; token: string; address: string | null };
  action: string;
  target: string;
  request?: unknown;
  outcome?: "done" | "refused" | "failed";
  status?: number;
  ended_at?: string;
}
