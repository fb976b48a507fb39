// Generated from docs/asyncapi.json by `npm run generate`; not to be edited.

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description Payload of `ack`. */
        Ack: {
            chat_id: components["schemas"]["ChatId"];
            /**
             * Format: int64
             * @description All messages up to this sequence have arrived and are stored.
             */
            last_acked_sequence: number;
        };
        /** @description Acknowledges messages that have arrived and are stored. */
        AckFrame: {
            payload: components["schemas"]["Ack"];
            request_id?: components["schemas"]["RequestId"];
            /** @constant */
            type: "ack";
        };
        /**
         * @description The action of an update on the wire.
         * @enum {string}
         */
        ActionName: "edit" | "delete" | "react" | "unreact";
        /**
         * @description The kind of change to a chat. Later versions may add kinds, which clients ignore.
         * @enum {string}
         */
        ChatChange: "created" | "renamed" | "member_added" | "member_removed" | "role_changed" | "message_ttl_changed";
        /** @description The id of a chat. */
        ChatId: string;
        /** @description Payload of `chat_updated`. */
        ChatUpdated: {
            change: components["schemas"]["ChatChange"];
            chat_id: components["schemas"]["ChatId"];
            user_id?: components["schemas"]["UserId"];
        };
        /** @description A chat or its members have changed. */
        ChatUpdatedFrame: {
            payload: components["schemas"]["ChatUpdated"];
            /** @constant */
            type: "chat_updated";
        };
        /** @description Any frame of the client. */
        ClientFrame: components["schemas"]["SendMessageFrame"] | components["schemas"]["UpdateMessageFrame"] | components["schemas"]["AckFrame"] | components["schemas"]["MarkReadFrame"] | components["schemas"]["SyncRequestFrame"] | components["schemas"]["TypingStartFrame"] | components["schemas"]["TypingStopFrame"] | components["schemas"]["PresenceSubscribeFrame"] | components["schemas"]["PresenceUnsubscribeFrame"] | components["schemas"]["ReauthFrame"] | components["schemas"]["HeartbeatFrame"];
        /**
         * @description Why the server ends a connection.
         * @enum {string}
         */
        CloseReason: "server_shutdown" | "protocol_error" | "internal_error" | "overloaded" | "token_expired" | "session_revoked" | "idle_timeout" | "duplicate_connection" | "frame_too_large" | "rate_limited" | "slow_consumer";
        /** @description Payload of `connection_closing`. */
        ConnectionClosing: {
            message: string;
            reason: components["schemas"]["CloseReason"];
            /** Format: int64 */
            reconnect_delay_ms: number;
        };
        /** @description The connection is about to be closed. */
        ConnectionClosingFrame: {
            payload: components["schemas"]["ConnectionClosing"];
            /** @constant */
            type: "connection_closing";
        };
        /** @description Payload of `connection_established`. */
        ConnectionEstablished: {
            connection_id: components["schemas"]["ConnectionId"];
            /** Format: uuid */
            device_id: string;
            /** Format: int64 */
            heartbeat_interval_ms: number;
            /** Format: int32 */
            protocol_version: number;
            /** Format: date-time */
            server_time: string;
            user_id: components["schemas"]["UserId"];
        };
        /** @description Always the first frame. */
        ConnectionEstablishedFrame: {
            payload: components["schemas"]["ConnectionEstablished"];
            /** @constant */
            type: "connection_established";
        };
        /** @description The id of a connection. */
        ConnectionId: string;
        /**
         * @description The format of the content of a message.
         * @enum {string}
         */
        ContentType: "text/plain" | "text/markdown" | "application/json" | "application/vnd.tidings.encrypted";
        /** @description An error as a client sees it: the payload of an `error` frame, and the body of a REST failure. */
        ErrorBody: {
            /** @description The error code. */
            code: components["schemas"]["ErrorCode"];
            /** @description Details for programs, by code: `retry_after_seconds`, `head_sequence`, `field_errors`. */
            details?: unknown;
            /** @description A text for people. It names the fault of the request and no internals of the service. */
            message: string;
        };
        /**
         * @description The closed table of error codes. A retired code is never reused.
         * @enum {string}
         */
        ErrorCode: "INVALID_MESSAGE" | "VALIDATION_ERROR" | "UNAUTHORIZED" | "FORBIDDEN" | "NOT_A_MEMBER" | "NOT_FOUND" | "CONFLICT" | "IDEMPOTENCY_KEY_REUSED" | "ALREADY_A_MEMBER" | "CHAT_FULL" | "INVALID_OPERATION" | "METHOD_NOT_ALLOWED" | "MESSAGE_TOO_LARGE" | "INVALID_CONTENT_TYPE" | "INVALID_SEQUENCE" | "RATE_LIMITED" | "SLOW_CONSUMER" | "SERVER_BUSY" | "SERVICE_UNAVAILABLE" | "COUNTER_MISSING" | "INTERNAL_ERROR";
        /** @description A request failed. */
        ErrorFrame: {
            payload: components["schemas"]["ErrorBody"];
            request_id?: components["schemas"]["RequestId"];
            /** @constant */
            type: "error";
        };
        /** @description Payload of `heartbeat`: empty. */
        Heartbeat: Record<string, never>;
        /** @description Payload of `heartbeat_ack`. */
        HeartbeatAck: {
            /** Format: date-time */
            server_time: string;
        };
        /** @description A heartbeat was received. */
        HeartbeatAckFrame: {
            payload: components["schemas"]["HeartbeatAck"];
            request_id?: components["schemas"]["RequestId"];
            /** @constant */
            type: "heartbeat_ack";
        };
        /** @description Proves that the client is alive. */
        HeartbeatFrame: {
            payload: components["schemas"]["Heartbeat"];
            request_id?: components["schemas"]["RequestId"];
            /** @constant */
            type: "heartbeat";
        };
        /** @description Payload of `mark_read`. */
        MarkRead: {
            chat_id: components["schemas"]["ChatId"];
            /**
             * Format: int64
             * @description All messages up to this sequence have been read.
             */
            last_read_sequence: number;
        };
        /** @description Marks messages as read. */
        MarkReadFrame: {
            payload: components["schemas"]["MarkRead"];
            request_id?: components["schemas"]["RequestId"];
            /** @constant */
            type: "mark_read";
        };
        /** @description A message as every member sees it. */
        Message: {
            chat_id: components["schemas"]["ChatId"];
            /**
             * Format: uuid
             * @description Present only on the sender's own devices.
             */
            client_message_id?: string;
            content: string;
            content_type: components["schemas"]["ContentType"];
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            expires_at?: string;
            message_id: components["schemas"]["MessageId"];
            /** @description The JSON object that the sender attached. */
            metadata?: {
                [key: string]: unknown;
            };
            sender_id: components["schemas"]["UserId"];
            /** Format: int64 */
            sequence: number;
            state?: components["schemas"]["StateBody"] | null;
        };
        /** @description Payload of `message_expired`. */
        MessageExpired: {
            chat_id: components["schemas"]["ChatId"];
            sequences: number[];
        };
        /** @description Messages have expired. */
        MessageExpiredFrame: {
            payload: components["schemas"]["MessageExpired"];
            /** @constant */
            type: "message_expired";
        };
        /** @description A member sent a message. */
        MessageFrame: {
            payload: components["schemas"]["Message"];
            /** @constant */
            type: "message";
        };
        /** @description The id of a message. */
        MessageId: string;
        /** @description Payload of `message_updated`. */
        MessageUpdated: {
            message?: components["schemas"]["Message"] | null;
            update: components["schemas"]["UpdateBody"];
        };
        /** @description A member edited or deleted a message, or reacted to it. */
        MessageUpdatedFrame: {
            payload: components["schemas"]["MessageUpdated"];
            /** @constant */
            type: "message_updated";
        };
        /** @description One user's presence. */
        Presence: {
            /** Format: date-time */
            last_seen?: string;
            status: components["schemas"]["PresenceStatus"];
            user_id: components["schemas"]["UserId"];
        };
        /** @description The presence of a user has changed. */
        PresenceChangedFrame: {
            payload: components["schemas"]["Presence"];
            /** @constant */
            type: "presence_changed";
        };
        /** @description Payload of `presence_snapshot`, and the response to a presence query over REST. */
        PresenceSnapshot: {
            presences: components["schemas"]["Presence"][];
        };
        /** @description The presence of the requested users. */
        PresenceSnapshotFrame: {
            payload: components["schemas"]["PresenceSnapshot"];
            request_id: components["schemas"]["RequestId"];
            /** @constant */
            type: "presence_snapshot";
        };
        /**
         * @description The presence of a user as the reader may see it.
         * @enum {string}
         */
        PresenceStatus: "online" | "offline" | "unknown";
        /** @description Requests the presence of users, and subscribes to its changes. */
        PresenceSubscribeFrame: {
            payload: components["schemas"]["PresenceUsers"];
            request_id: components["schemas"]["RequestId"];
            /** @constant */
            type: "presence_subscribe";
        };
        /** @description Ends presence subscriptions. */
        PresenceUnsubscribeFrame: {
            payload: components["schemas"]["PresenceUsers"];
            request_id?: components["schemas"]["RequestId"];
            /** @constant */
            type: "presence_unsubscribe";
        };
        /** @description Payload of `presence_subscribe` and `presence_unsubscribe`. */
        PresenceUsers: {
            user_ids: components["schemas"]["UserId"][];
        };
        /** @description A reaction to a message, with the number of members who have it. */
        ReactionBody: {
            /** Format: int32 */
            count: number;
            /** @description Whether the reader has it. Absent in pushes and in a sync: there the updates say who reacted. */
            mine?: boolean | null;
            reaction: string;
        };
        /** @description Payload of `reauth`. */
        Reauth: {
            /** @description An access token of the same user and session. The connection closes when it expires. */
            token: string;
        };
        /** @description Payload of `reauth_ack`. */
        ReauthAck: {
            /**
             * Format: date-time
             * @description When the connection closes now, unless it is renewed again.
             */
            expires_at: string;
        };
        /** @description The authentication of the connection is renewed. */
        ReauthAckFrame: {
            payload: components["schemas"]["ReauthAck"];
            request_id: components["schemas"]["RequestId"];
            /** @constant */
            type: "reauth_ack";
        };
        /** @description Renews the authentication of the connection with a new access token of its session. */
        ReauthFrame: {
            payload: components["schemas"]["Reauth"];
            request_id: components["schemas"]["RequestId"];
            /** @constant */
            type: "reauth";
        };
        /** @description Payload of `receipt`. */
        Receipt: {
            chat_id: components["schemas"]["ChatId"];
            /** Format: int64 */
            delivered_sequence: number;
            /** Format: int64 */
            read_sequence: number;
            user_id: components["schemas"]["UserId"];
        };
        /** @description A member's watermarks have moved. */
        ReceiptFrame: {
            payload: components["schemas"]["Receipt"];
            /** @constant */
            type: "receipt";
        };
        /** @description A client-chosen name for a request, echoed in the reply. */
        RequestId: string;
        /** @description Payload of `resync`. */
        Resync: {
            reason: string;
        };
        /** @description Pushes may have been missed; the client syncs every chat. */
        ResyncFrame: {
            payload: components["schemas"]["Resync"];
            /** @constant */
            type: "resync";
        };
        /** @description Payload of `send_message`. */
        SendMessage: {
            chat_id: components["schemas"]["ChatId"];
            /**
             * Format: uuid
             * @description The sender's id for the send, the same on every retry.
             */
            client_message_id: string;
            /** @description 1 to 4096 bytes of UTF-8 without NUL. */
            content: string;
            content_type?: components["schemas"]["ContentType"] | null;
            /** @description A JSON object of the application, of at most 1024 bytes as compact JSON. The server stores it and passes it on. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /**
             * Format: int64
             * @description Lifetime of the message; defaults to that of the chat.
             */
            ttl_seconds?: number | null;
        };
        /** @description Payload of `send_message_ack`, and the response to a send over REST. */
        SendMessageAck: {
            chat_id: components["schemas"]["ChatId"];
            /** Format: uuid */
            client_message_id: string;
            /** Format: date-time */
            created_at: string;
            deduplicated: boolean;
            message_id: components["schemas"]["MessageId"];
            /** Format: int64 */
            sequence: number;
        };
        /** @description The message is durable. */
        SendMessageAckFrame: {
            payload: components["schemas"]["SendMessageAck"];
            request_id: components["schemas"]["RequestId"];
            /** @constant */
            type: "send_message_ack";
        };
        /** @description Sends a message. */
        SendMessageFrame: {
            payload: components["schemas"]["SendMessage"];
            request_id: components["schemas"]["RequestId"];
            /** @constant */
            type: "send_message";
        };
        /** @description Any frame of the server. */
        ServerFrame: components["schemas"]["ConnectionEstablishedFrame"] | components["schemas"]["SendMessageAckFrame"] | components["schemas"]["MessageFrame"] | components["schemas"]["MessageUpdatedFrame"] | components["schemas"]["SyncResponseFrame"] | components["schemas"]["ReceiptFrame"] | components["schemas"]["MessageExpiredFrame"] | components["schemas"]["ChatUpdatedFrame"] | components["schemas"]["TypingIndicatorFrame"] | components["schemas"]["PresenceSnapshotFrame"] | components["schemas"]["PresenceChangedFrame"] | components["schemas"]["ResyncFrame"] | components["schemas"]["HeartbeatAckFrame"] | components["schemas"]["ReauthAckFrame"] | components["schemas"]["ErrorFrame"] | components["schemas"]["ConnectionClosingFrame"];
        /**
         * @description What updates have changed in a message, besides its content. Of two copies of a message, the one with the higher
         *     `revision` is newer; a message without a state has revision 0.
         */
        StateBody: {
            /**
             * Format: int32
             * @description The number of edits.
             */
            edit_count?: number | null;
            /**
             * Format: date-time
             * @description The time of the last edit.
             */
            edited_at?: string;
            /** @description The reactions, in the order of their first use. */
            reactions?: components["schemas"]["ReactionBody"][];
            /**
             * Format: int64
             * @description The sequence of the last update.
             */
            revision: number;
        };
        /** @description Payload of `sync_request`. */
        SyncRequest: {
            chat_id: components["schemas"]["ChatId"];
            /**
             * Format: int64
             * @description The client has all messages up to this sequence; 0 for none.
             */
            last_acked_sequence: number;
            /**
             * Format: int64
             * @description Most messages in the reply: 100 by default, at most 500.
             */
            limit?: number | null;
        };
        /** @description Requests missed messages. */
        SyncRequestFrame: {
            payload: components["schemas"]["SyncRequest"];
            request_id: components["schemas"]["RequestId"];
            /** @constant */
            type: "sync_request";
        };
        /** @description Payload of `sync_response`. */
        SyncResponse: {
            chat_id: components["schemas"]["ChatId"];
            has_more: boolean;
            /** Format: int64 */
            head_sequence: number;
            messages: components["schemas"]["Message"][];
            /**
             * Format: int64
             * @description The first sequence that was not examined; present if `has_more`.
             */
            next_sequence?: number;
            /** @description The messages of these updates that are not in `messages`, in their current state; deleted ones are absent. */
            updated_messages?: components["schemas"]["Message"][];
            /** @description The updates of messages in this range of sequences. */
            updates?: components["schemas"]["UpdateBody"][];
        };
        /** @description A page of missed messages. */
        SyncResponseFrame: {
            payload: components["schemas"]["SyncResponse"];
            request_id: components["schemas"]["RequestId"];
            /** @constant */
            type: "sync_response";
        };
        /** @description Payload of `typing_start` and `typing_stop`. */
        Typing: {
            chat_id: components["schemas"]["ChatId"];
        };
        /** @description Payload of `typing_indicator`. */
        TypingIndicator: {
            chat_id: components["schemas"]["ChatId"];
            is_typing: boolean;
            user_id: components["schemas"]["UserId"];
        };
        /** @description A member is typing, or has stopped. */
        TypingIndicatorFrame: {
            payload: components["schemas"]["TypingIndicator"];
            /** @constant */
            type: "typing_indicator";
        };
        /** @description Announces that the user is typing; it ends automatically after 10 s. */
        TypingStartFrame: {
            payload: components["schemas"]["Typing"];
            request_id?: components["schemas"]["RequestId"];
            /** @constant */
            type: "typing_start";
        };
        /** @description Announces that the user has stopped typing. */
        TypingStopFrame: {
            payload: components["schemas"]["Typing"];
            request_id?: components["schemas"]["RequestId"];
            /** @constant */
            type: "typing_stop";
        };
        /** @description An update of a message, with a sequence of its own among the messages of the chat. */
        UpdateBody: {
            chat_id: components["schemas"]["ChatId"];
            /**
             * Format: uuid
             * @description Present only on the own devices of the user who made the update.
             */
            client_message_id?: string;
            /** Format: date-time */
            created_at: string;
            kind: components["schemas"]["UpdateKind"];
            /** @description The reaction that was added or removed. */
            reaction?: string;
            /** Format: int64 */
            sequence: number;
            /**
             * Format: int64
             * @description The sequence of the message.
             */
            target_sequence: number;
            user_id: components["schemas"]["UserId"];
        };
        /**
         * @description What an update did to its message. Later versions may add kinds, which clients ignore.
         * @enum {string}
         */
        UpdateKind: "edited" | "deleted" | "reacted" | "unreacted";
        /** @description Payload of `update_message`. */
        UpdateMessage: {
            action: components["schemas"]["ActionName"];
            chat_id: components["schemas"]["ChatId"];
            /**
             * Format: uuid
             * @description The sender's id for the update, the same on every retry.
             */
            client_message_id: string;
            /** @description Of `edit`: 1 to 4096 bytes of UTF-8 without NUL. */
            content?: string | null;
            content_type?: components["schemas"]["ContentType"] | null;
            /** @description Of `edit`: a JSON object of at most 1024 bytes. It replaces the one of the message. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /**
             * @description Of `react` and `unreact`: an emoji or a short code of 1 to 64 bytes in Unicode's composed form (NFC), without
             *     spaces, and without invisible or misleading characters.
             */
            reaction?: string | null;
            /**
             * Format: int64
             * @description The sequence of the message.
             */
            sequence: number;
        };
        /** @description Edits or deletes a message, or reacts to it. */
        UpdateMessageFrame: {
            payload: components["schemas"]["UpdateMessage"];
            request_id: components["schemas"]["RequestId"];
            /** @constant */
            type: "update_message";
        };
        /** @description The id of a user. */
        UserId: string;
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
