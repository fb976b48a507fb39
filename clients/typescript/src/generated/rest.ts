// Generated from docs/openapi.json by `npm run generate`; not to be edited.

export interface paths {
    "/.well-known/jwks.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The public keys that verify our access tokens, as a JWK set (RFC 7517), without the envelope.
         * @description Services that trust our tokens fetch it and keep it. A key stays in the set for as long as tokens that it signed are
         *     good.
         */
        get: operations["jwks"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What this service is and what it takes.
         * @description Tells clients the version of the contract, the limits they keep to, and the key that browsers subscribe to
         *     notifications with. It needs no token.
         */
        get: operations["service"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/auth/logout": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Ends the session that asks.
         * @description Its tokens are void at once, its sockets are closed, and the device is no longer told of messages.
         */
        post: operations["logout"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/auth/refresh": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Changes a refresh token for a new pair of tokens.
         * @description A refresh token is good once. One that comes again within 10 s from the same device, because its answer was lost, is
         *     forgiven once; otherwise it ends the session.
         */
        post: operations["refresh"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/auth/request-otp": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Sends a one-time code to a phone.
         * @description The answer is the same whether or not the number is known. Codes for one number, and codes asked for from one
         *     address, are limited.
         */
        post: operations["request_otp"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/auth/verify-otp": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Signs in with a one-time code.
         * @description The first sign-in of a number makes its user, with `display_name`. A code is good once and dies after 5 wrong tries;
         *     the number is then locked for 15 minutes. Wrong codes from one address are limited over all numbers.
         */
        post: operations["verify_otp"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/auth/ws-ticket": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Gives a ticket for one WebSocket, for clients that cannot set headers.
         * @description It is good once and for 30 s, and goes into the query of the handshake: `/v1/ws?ticket=…&device_id=…`.
         */
        post: operations["ws_ticket"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/blocks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Whom the caller has blocked, by id.
         * @description A page holds 100 of them at the most; `pagination.next_cursor` leads to the next.
         */
        get: operations["blocks"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/blocks/{user_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Blocks a user. They cannot write to the caller, add them to a group, or see their presence.
         * @description Nobody is told. In the direct chat of the two neither can send until the caller takes the block back; groups that both
         *     are in stay as they are. Blocking somebody again changes nothing.
         */
        put: operations["block"];
        post?: never;
        /**
         * Takes the block of a user back, whether they are blocked or not.
         * @description What was refused meanwhile stays refused. They see the caller's presence again as `presence_visibility` allows.
         */
        delete: operations["unblock"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/chats": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The caller's chats, newest activity first.
         * @description A chat is at its last message's place, or at its creation's while it is empty. The pages behind a cursor keep the
         *     places of the first page: a message that arrives meanwhile neither repeats nor hides a chat, and shows in it.
         */
        get: operations["inbox"];
        put?: never;
        /**
         * Opens a chat. A pair that has a direct chat gets that one, with status 200.
         * @description The creator is a member whether or not `member_ids` names them, and the owner of a group. A request whose answer was
         *     lost is repeated with the same `Idempotency-Key` and opens no second chat.
         */
        post: operations["create_chat"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/chats/{chat_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A chat with its members.
         * @description For members: with the watermarks of the caller, and all members with their roles.
         */
        get: operations["chat"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /**
         * Renames a group, or changes how long the messages of a chat live from now on.
         * @description What is absent stays; `message_ttl_seconds: null` is for ever. In a group its owner and admins may. In a direct chat
         *     either of the two may set `message_ttl_seconds`, and nothing else can be changed.
         */
        patch: operations["update_chat"];
        trace?: never;
    };
    "/api/v1/chats/{chat_id}/leave": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Leaves a group.
         * @description An owner hands the group over first. Who has left reads nothing of it any more.
         */
        post: operations["leave_chat"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/chats/{chat_id}/members": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Adds a member to a group.
         * @description The owner and admins may. A new member reads all history; both their watermarks start at the head, so nothing is
         *     unread.
         */
        post: operations["add_member"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/chats/{chat_id}/members/{user_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Removes a member; removing oneself is leaving.
         * @description The owner may remove anybody else, an admin plain members. Who was removed gets no further message.
         */
        delete: operations["remove_member"];
        options?: never;
        head?: never;
        /**
         * Changes a member's role; `owner` hands the group over.
         * @description Only the owner may. Who hands the group over becomes an admin.
         */
        patch: operations["change_role"];
        trace?: never;
    };
    "/api/v1/chats/{chat_id}/messages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The messages of a chat, newest first; with `after`, oldest first from there.
         * @description Expired messages are in no page. `before`, `after` and `cursor` exclude each other. `status` is on the caller's own
         *     messages.
         */
        get: operations["history"];
        put?: never;
        /**
         * Sends a message, as the `send_message` frame does.
         * @description For bots and servers. The `client_message_id` is made before the first try and kept for every other: however often
         *     it is sent, the message is stored once.
         */
        post: operations["send_message"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/chats/{chat_id}/messages/around/{sequence}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The messages around one place in a chat, oldest first: half of the page lies before it.
         * @description A target that is gone leaves a hole; one above the head is `INVALID_SEQUENCE`.
         */
        get: operations["around"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/chats/{chat_id}/mute": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Silences a chat for the caller, for a while or for ever.
         * @description Messages still arrive and count as unread; the caller's devices are not notified of them.
         */
        post: operations["mute_chat"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/chats/{chat_id}/read": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Moves the caller's read watermark forward; a place behind the present one changes nothing.
         * @description What has been read has been delivered too. The other members hear of it by a `receipt` push.
         */
        post: operations["mark_read"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/chats/{chat_id}/receipts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * How far the members of a chat have come, and how many have got and read one message.
         * @description `delivered_count` and `read_count` are without the sender, `member_count` and `members` are with everybody.
         */
        get: operations["receipts"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/chats/{chat_id}/unmute": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Lets a chat be heard again.
         * @description A chat that is not muted stays as it is.
         */
        post: operations["unmute_chat"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/contacts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Whom the caller has listed, by id.
         * @description A page holds 100 of them at the most; `pagination.next_cursor` leads to the next.
         */
        get: operations["contacts"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/contacts/{user_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Lists a user as a contact of the caller. Two who have listed each other are mutual contacts.
         * @description Listing somebody again changes nothing. Mutual contacts see each other's presence where `presence_visibility` is
         *     `contacts_only`.
         */
        put: operations["add_contact"];
        post?: never;
        /**
         * Takes a user off the caller's contacts, whether they are listed or not.
         * @description The other side keeps its own list. Somebody who saw the caller as a mutual contact is told that they went offline.
         */
        delete: operations["remove_contact"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/devices/{device_id}/push": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Registers a device of the caller for notifications while they are away, in the place of what was registered before.
         * @description Either `webhook` with the token by which the operator's service knows the device, or `webpush` with the subscription
         *     of a browser. The registration ends with the device's session.
         */
        put: operations["register_push"];
        post?: never;
        /**
         * Ends the notifications of a device; one that has none is left as it is.
         * @description Messages reach the device over its connection as before.
         */
        delete: operations["unregister_push"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/messages/{message_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * One message by its id, for members of its chat.
         * @description With the chat that it is in. A message that has expired is not found.
         */
        get: operations["message"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/presence/query": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * What the caller sees of the presence of many users, in the order asked.
         * @description At most 100 users. It counts as a read, though its users are in a body.
         */
        post: operations["query_presence"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/reports": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Reports a message, a user or a chat to the operators.
         * @description One of `message_id`, `user_id` and `chat_id` is needed; of a message, its sender and chat are added. A message that the
         *     caller can read is copied into the report, where operators can read it until 90 days after they are done with it; a
         *     message that expires, until they are. Nobody else is told. Of each caller 20 reports of a day can be open.
         */
        post: operations["report"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The devices the caller is signed in on, oldest session first.
         * @description `is_current` marks the one that asks.
         */
        get: operations["sessions"];
        put?: never;
        post?: never;
        /**
         * Ends all sessions of the caller but the one that asks.
         * @description With `include_current` that one ends too.
         */
        delete: operations["revoke_sessions"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{session_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Ends one session of the caller and closes its sockets.
         * @description Its tokens are void at once, and its sockets are closed within a second.
         */
        delete: operations["revoke_session"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/lookup": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Finds users by phone number: for each number, in order, its user or `null`.
         * @description At most 100 numbers. One that cannot be a phone number refuses the whole lookup, and is named by its place only. How many
         *     a user looks up in a day is limited: who is registered is nobody's to list.
         */
        post: operations["lookup"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/me": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The caller.
         * @description With what only they see: their phone number and their settings.
         */
        get: operations["me"];
        put?: never;
        post?: never;
        /**
         * Deletes the caller's account.
         * @description All sessions end and their sockets close within a second. The phone number is free: who signs in with it is a new user.
         *     Devices and contacts are forgotten. The rest follows within moments, whatever happens meanwhile: the caller leaves every
         *     group, and where they were the owner the longest-standing admin is, or else the longest-standing member. A direct chat
         *     stays with the other one. Others see `Deleted account` in the place of the caller's name. With `erase_messages` the
         *     caller's messages expire at once, as `message_expired` tells everybody. There is no way back.
         */
        delete: operations["delete_me"];
        options?: never;
        head?: never;
        /**
         * Changes the caller's name, or who sees when they are online.
         * @description What is absent stays as it is. Whoever may not see the caller any more is told that they went offline.
         */
        patch: operations["update_me"];
        trace?: never;
    };
    "/api/v1/users/me/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Everything that is the caller's own, as one document.
         * @description Profile, sessions, devices without what it takes to reach them, contacts, chats with the caller's place in each, and
         *     every message that the caller sent there and that has not expired. What others wrote is theirs, and in the history of
         *     each chat. It is written while it is read, however long it is; a document without `is_complete` at its end is a part. The
         *     limit is `exports`.
         */
        get: operations["export_me"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/{user_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A user as everybody sees them.
         * @description The phone number of somebody else is never told.
         */
        get: operations["user"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/{user_id}/presence": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What the caller sees of a user's presence. Who may not be seen looks like who does not exist: `unknown`.
         * @description `last_seen` is on `offline` alone, and absent for somebody who never connected.
         */
        get: operations["presence"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description An account that is being deleted. */
        AccountDeletion: {
            /** Format: date-time */
            begun_at: string;
            erase_messages: boolean;
            user_id: components["schemas"]["UserId"];
        };
        /** @description Body of POST `/chats/{chat_id}/members`. */
        AddMember: {
            /** @description `member` unless given. */
            role?: components["schemas"]["Role"];
            user_id: components["schemas"]["UserId"];
        };
        /** @description The messages around one, oldest first. */
        Around: {
            has_more_after: boolean;
            has_more_before: boolean;
            /** Format: int64 */
            head_sequence: number;
            messages: components["schemas"]["Message"][];
            /** Format: int64 */
            target_sequence: number;
        };
        /** @description A page of the users whom a user has blocked, by id. */
        Blocks: {
            blocks: components["schemas"]["User"][];
        };
        /** @description Body of PATCH `/chats/{chat_id}/members/{user_id}`; `owner` hands the group over. */
        ChangeRole: {
            role: components["schemas"]["Role"];
        };
        /** @description A chat with its members, as one of them sees it. */
        ChatDetails: components["schemas"]["ChatSummary"] & {
            members: components["schemas"]["Member"][];
        };
        /** @description The id of a chat. */
        ChatId: string;
        /** @description A chat as the inbox of one of its members shows it. */
        ChatSummary: {
            chat_id: components["schemas"]["ChatId"];
            /** Format: date-time */
            created_at: string;
            /** Format: int64 */
            head_sequence: number;
            last_message: components["schemas"]["LastMessage"] | null;
            /** Format: date-time */
            last_message_at: string | null;
            /** Format: int32 */
            member_count: number;
            /**
             * Format: int64
             * @description How long messages live that do not say it themselves; `null` is for ever.
             */
            message_ttl_seconds: number | null;
            /** Format: int64 */
            my_delivered_sequence: number;
            my_membership: components["schemas"]["MyMembership"];
            /** Format: int64 */
            my_read_sequence: number;
            /** @description `null` for direct chats. */
            name: string | null;
            /** @description Up to five of the other members. */
            other_participants: components["schemas"]["User"][];
            type: components["schemas"]["ChatType"];
            /**
             * Format: int64
             * @description Messages above my read watermark that I did not send.
             */
            unread_count: number;
        };
        /**
         * @description How many a chat is for.
         * @enum {string}
         */
        ChatType: "direct" | "group";
        /** @description A page of a user's contacts, by id. */
        Contacts: {
            contacts: components["schemas"]["User"][];
        };
        /**
         * @description How the content of a message is to be read.
         * @enum {string}
         */
        ContentType: "text/plain" | "text/markdown" | "application/json" | "application/vnd.tidings.encrypted";
        /** @description Body of POST `/chats`. */
        CreateChat: {
            /** @description The other members; naming oneself changes nothing. */
            member_ids: components["schemas"]["UserId"][];
            /** @description Needed for a group; a direct chat has none. */
            name?: string | null;
            type: components["schemas"]["ChatType"];
        };
        /** @description A success. */
        Data_AccountDeletion: {
            /** @description An account that is being deleted. */
            data: {
                /** Format: date-time */
                begun_at: string;
                erase_messages: boolean;
                user_id: components["schemas"]["UserId"];
            };
        };
        /** @description A success. */
        Data_Around: {
            /** @description The messages around one, oldest first. */
            data: {
                has_more_after: boolean;
                has_more_before: boolean;
                /** Format: int64 */
                head_sequence: number;
                messages: components["schemas"]["Message"][];
                /** Format: int64 */
                target_sequence: number;
            };
        };
        /** @description A success. */
        Data_ChatDetails: {
            /** @description A chat with its members, as one of them sees it. */
            data: components["schemas"]["ChatSummary"] & {
                members: components["schemas"]["Member"][];
            };
        };
        /** @description A success. */
        Data_Export: {
            /** @description Everything that is a user's own. */
            data: {
                chats: components["schemas"]["ExportedChat"][];
                /** @description Whom the user has listed. */
                contacts: components["schemas"]["UserId"][];
                /** Format: date-time */
                exported_at: string;
                /** @description Always `true`: a document that ends before this is a part. */
                is_complete: boolean;
                push_devices: components["schemas"]["ExportedDevice"][];
                sessions: components["schemas"]["Session"][];
                user: components["schemas"]["Me"];
            };
        };
        /** @description A success. */
        Data_LookupResults: {
            /** @description For each number asked, in order, its user or `null`. */
            data: {
                results: (components["schemas"]["User"] | null)[];
            };
        };
        /** @description A success. */
        Data_MarkedRead: {
            /** @description My watermarks after a `MarkRead`. */
            data: {
                chat_id: components["schemas"]["ChatId"];
                /** Format: int64 */
                delivered_sequence: number;
                /** Format: int64 */
                read_sequence: number;
            };
        };
        /** @description A success. */
        Data_Me: {
            /** @description A user as they see themselves. */
            data: components["schemas"]["User"] & {
                /** @description Absent for users who come with another system's tokens. */
                phone_number?: string;
                presence_visibility: components["schemas"]["PresenceVisibility"];
                /** Format: date-time */
                updated_at: string;
            };
        };
        /** @description A success. */
        Data_Member: {
            /** @description A member of a chat. */
            data: {
                display_name: string;
                /** Format: date-time */
                joined_at: string;
                role: components["schemas"]["Role"];
                user_id: components["schemas"]["UserId"];
            };
        };
        /** @description A success. */
        Data_Message: {
            /** @description A message as one member sees it: the `message` payload, with the fate of their own. */
            data: {
                chat_id: components["schemas"]["ChatId"];
                /**
                 * Format: uuid
                 * @description Only to the sender's own devices.
                 */
                client_message_id?: string;
                content: string;
                content_type: components["schemas"]["ContentType"];
                /** Format: date-time */
                created_at: string;
                /** Format: date-time */
                expires_at?: string;
                message_id: components["schemas"]["MessageId"];
                sender_id: components["schemas"]["UserId"];
                /** Format: int64 */
                sequence: number;
            } & {
                /** @description On my own messages only. */
                status?: components["schemas"]["MessageStatus"];
            };
        };
        /** @description A success. */
        Data_Muted: {
            /** @description Whether a chat is muted for the one who asks. */
            data: {
                chat_id: components["schemas"]["ChatId"];
                muted: boolean;
                /**
                 * Format: date-time
                 * @description Absent if it is not muted, or for ever.
                 */
                muted_until?: string;
            };
        };
        /** @description A success. */
        Data_OtpRequested: {
            /** @description A code is on its way; the answer is the same whether or not the number is known. */
            data: {
                /** Format: date-time */
                expires_at: string;
                phone_number: string;
                /**
                 * Format: int64
                 * @description How long until another code may be asked for; 0 if at once.
                 */
                retry_after_seconds: number;
            };
        };
        /** @description A success. */
        Data_Presence: {
            /** @description One user's presence. */
            data: {
                /** Format: date-time */
                last_seen?: string;
                status: components["schemas"]["PresenceStatus"];
                user_id: components["schemas"]["UserId"];
            };
        };
        /** @description A success. */
        Data_PresenceSnapshot: {
            /** @description Payload of `presence_snapshot`, and the answer to a question about presence over REST. */
            data: {
                presences: components["schemas"]["Presence"][];
            };
        };
        /** @description A success. */
        Data_Receipts: {
            /** @description How many members have got and read a message. */
            data: {
                chat_id: components["schemas"]["ChatId"];
                /** @description Without the sender. */
                delivered_count: number;
                /** @description All members, with the sender. */
                member_count: number;
                members: components["schemas"]["MemberWatermarks"][];
                /** @description Without the sender. */
                read_count: number;
                /** Format: int64 */
                sequence: number;
            };
        };
        /** @description A success. */
        Data_Reported: {
            /** @description A report that operators will see. */
            data: {
                /** Format: date-time */
                created_at: string;
                report_id: components["schemas"]["ReportId"];
            };
        };
        /** @description A success. */
        Data_Revoked: {
            /** @description How many sessions ended. */
            data: {
                revoked_count: number;
            };
        };
        /** @description A success. */
        Data_SendMessageAck: {
            /** @description Payload of `send_message_ack`, and the answer to a send over REST. */
            data: {
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
        };
        /** @description A success. */
        Data_Service: {
            /** @description What this service is and what it takes, GET `/api/v1`. */
            data: {
                /** @description What content may be. */
                content_types: string[];
                limits: components["schemas"]["ServiceLimits"];
                name: string;
                /** Format: int32 */
                protocol_version: number;
                version: string;
                /** @description The key that browsers subscribe to Web Push with (`applicationServerKey`); `null` where it is off. */
                web_push_public_key: string | null;
                /** @description Where the WebSocket is. */
                websocket_path: string;
            };
        };
        /** @description A success. */
        Data_Sessions: {
            /** @description The devices a user is signed in on. */
            data: {
                sessions: components["schemas"]["Session"][];
            };
        };
        /** @description A success. */
        Data_SignedIn: {
            /** @description Somebody is in. */
            data: {
                is_new_user: boolean;
                session: components["schemas"]["Session"];
                tokens: components["schemas"]["Tokens"];
                user: components["schemas"]["Me"];
            };
        };
        /** @description A success. */
        Data_TokensRefreshed: {
            /** @description The next pair of tokens. */
            data: {
                tokens: components["schemas"]["Tokens"];
            };
        };
        /** @description A success. */
        Data_User: {
            /** @description A user as everybody sees them. */
            data: {
                /** Format: date-time */
                created_at: string;
                display_name: string;
                user_id: components["schemas"]["UserId"];
            };
        };
        /** @description A success. */
        Data_WsTicket: {
            /** @description A ticket for one WebSocket. */
            data: {
                /** Format: date-time */
                expires_at: string;
                ticket: string;
            };
        };
        /** @description Body of DELETE `/users/me`. */
        DeleteMe: {
            /** @description The caller's own `user_id`, so that nobody deletes an account by a slip. */
            confirm: components["schemas"]["UserId"];
            /** @description Whether the caller's messages are erased too. Otherwise they stay, under a name that says that the account is gone. */
            erase_messages?: boolean;
        };
        /** @description An error as a client sees it: the payload of an `error` frame, and the heart of a REST failure. */
        ErrorBody: {
            /** @description Which one. */
            code: components["schemas"]["ErrorCode"];
            /** @description What a program may want to know, by code: `retry_after_seconds`, `head_sequence`, `field_errors`. */
            details?: unknown;
            /** @description In words, for people. It names what was wrong with the request and nothing of the inside of the service. */
            message: string;
        };
        /**
         * @description Everything that can be wrong with a request, in one closed table. A retired code is never used again.
         * @enum {string}
         */
        ErrorCode: "INVALID_MESSAGE" | "VALIDATION_ERROR" | "UNAUTHORIZED" | "FORBIDDEN" | "NOT_A_MEMBER" | "NOT_FOUND" | "CONFLICT" | "IDEMPOTENCY_KEY_REUSED" | "ALREADY_A_MEMBER" | "CHAT_FULL" | "INVALID_OPERATION" | "METHOD_NOT_ALLOWED" | "MESSAGE_TOO_LARGE" | "INVALID_CONTENT_TYPE" | "INVALID_SEQUENCE" | "RATE_LIMITED" | "SLOW_CONSUMER" | "SERVER_BUSY" | "SERVICE_UNAVAILABLE" | "COUNTER_MISSING" | "INTERNAL_ERROR";
        /** @description Everything that is a user's own. */
        Export: {
            chats: components["schemas"]["ExportedChat"][];
            /** @description Whom the user has listed. */
            contacts: components["schemas"]["UserId"][];
            /** Format: date-time */
            exported_at: string;
            /** @description Always `true`: a document that ends before this is a part. */
            is_complete: boolean;
            push_devices: components["schemas"]["ExportedDevice"][];
            sessions: components["schemas"]["Session"][];
            user: components["schemas"]["Me"];
        };
        /** @description A user's place in a chat, and what they wrote there. */
        ExportedChat: {
            chat_id: components["schemas"]["ChatId"];
            /** Format: int64 */
            delivered_sequence: number;
            /** Format: date-time */
            joined_at: string;
            /** @description The user's own messages, oldest first. Last, so that they can be written one by one. */
            messages: components["schemas"]["Message"][];
            /**
             * Format: date-time
             * @description `null` unless the user has muted the chat.
             */
            muted_until: string | null;
            /** @description `null` for direct chats. */
            name: string | null;
            /** Format: int64 */
            read_sequence: number;
            role: components["schemas"]["Role"];
            type: components["schemas"]["ChatType"];
        };
        /** @description A device that is told of messages, without what it takes to reach it. */
        ExportedDevice: {
            /** Format: uuid */
            device_id: string;
            provider: components["schemas"]["PushProvider"];
            /** Format: date-time */
            registered_at: string;
        };
        /** @description A failure. */
        Failure: {
            /** @description What went wrong. */
            error: components["schemas"]["FailureBody"];
        };
        /** @description What went wrong, and the request it went wrong with. */
        FailureBody: components["schemas"]["ErrorBody"] & {
            /** @description The `X-Request-ID` of the answer, for a report to the operator. */
            request_id: string;
        };
        /** @description Body of POST `/reports`: what is reported, and why. */
        FileReport: {
            chat_id?: components["schemas"]["ChatId"] | null;
            /** @description For the operators; 1 to 1000 characters. */
            comment?: string | null;
            message_id?: components["schemas"]["MessageId"] | null;
            reason: components["schemas"]["ReportReason"];
            user_id?: components["schemas"]["UserId"] | null;
        };
        /** @description A page of a chat's messages. */
        History: {
            /** Format: int64 */
            head_sequence: number;
            messages: components["schemas"]["Message"][];
        };
        /** @description A page of the inbox, newest activity first. */
        Inbox: {
            chats: components["schemas"]["ChatSummary"][];
        };
        /** @description The start of a chat's last message. */
        LastMessage: {
            /** Format: date-time */
            created_at: string;
            message_id: components["schemas"]["MessageId"];
            /** @description `null` if the content is encrypted. */
            preview: string | null;
            sender_id: components["schemas"]["UserId"];
            /** Format: int64 */
            sequence: number;
        };
        /** @description Body of POST `/users/lookup`. */
        Lookup: {
            /** @description E.164. */
            phone_numbers: string[];
        };
        /** @description For each number asked, in order, its user or `null`. */
        LookupResults: {
            results: (components["schemas"]["User"] | null)[];
        };
        /** @description Body of POST `/chats/{chat_id}/read`. */
        MarkRead: {
            /** Format: int64 */
            last_read_sequence: number;
        };
        /** @description My watermarks after a `MarkRead`. */
        MarkedRead: {
            chat_id: components["schemas"]["ChatId"];
            /** Format: int64 */
            delivered_sequence: number;
            /** Format: int64 */
            read_sequence: number;
        };
        /** @description A user as they see themselves. */
        Me: components["schemas"]["User"] & {
            /** @description Absent for users who come with another system's tokens. */
            phone_number?: string;
            presence_visibility: components["schemas"]["PresenceVisibility"];
            /** Format: date-time */
            updated_at: string;
        };
        /** @description A member of a chat. */
        Member: {
            display_name: string;
            /** Format: date-time */
            joined_at: string;
            role: components["schemas"]["Role"];
            user_id: components["schemas"]["UserId"];
        };
        /** @description How far one member has come. */
        MemberWatermarks: {
            /** Format: int64 */
            delivered_sequence: number;
            /** Format: int64 */
            read_sequence: number;
            user_id: components["schemas"]["UserId"];
        };
        /** @description A message as one member sees it: the `message` payload, with the fate of their own. */
        Message: {
            chat_id: components["schemas"]["ChatId"];
            /**
             * Format: uuid
             * @description Only to the sender's own devices.
             */
            client_message_id?: string;
            content: string;
            content_type: components["schemas"]["ContentType"];
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            expires_at?: string;
            message_id: components["schemas"]["MessageId"];
            sender_id: components["schemas"]["UserId"];
            /** Format: int64 */
            sequence: number;
        } & {
            /** @description On my own messages only. */
            status?: components["schemas"]["MessageStatus"];
        };
        /** @description The id of a message. */
        MessageId: string;
        /**
         * @description How far a message has come, derived from the watermarks of the others (G10).
         * @enum {string}
         */
        MessageStatus: "sent" | "delivered" | "read";
        /** @description Body of POST `/chats/{chat_id}/mute`. */
        Mute: {
            /**
             * Format: uint64
             * @description For ever unless given.
             */
            duration_seconds?: number | null;
        };
        /** @description Whether a chat is muted for the one who asks. */
        Muted: {
            chat_id: components["schemas"]["ChatId"];
            muted: boolean;
            /**
             * Format: date-time
             * @description Absent if it is not muted, or for ever.
             */
            muted_until?: string;
        };
        /** @description My own place in a chat. */
        MyMembership: {
            /**
             * Format: date-time
             * @description `null` if the chat is not muted; the end of the year 9999 if it is muted for ever.
             */
            muted_until: string | null;
            role: components["schemas"]["Role"];
        };
        /** @description A code is on its way; the answer is the same whether or not the number is known. */
        OtpRequested: {
            /** Format: date-time */
            expires_at: string;
            phone_number: string;
            /**
             * Format: int64
             * @description How long until another code may be asked for; 0 if at once.
             */
            retry_after_seconds: number;
        };
        /** @description A success that may go on. */
        Paged_Blocks: {
            /** @description A page of the users whom a user has blocked, by id. */
            data: {
                blocks: components["schemas"]["User"][];
            };
            /** @description The way to the next one. */
            pagination: components["schemas"]["Pagination"];
        };
        /** @description A success that may go on. */
        Paged_Contacts: {
            /** @description A page of a user's contacts, by id. */
            data: {
                contacts: components["schemas"]["User"][];
            };
            /** @description The way to the next one. */
            pagination: components["schemas"]["Pagination"];
        };
        /** @description A success that may go on. */
        Paged_History: {
            /** @description A page of a chat's messages. */
            data: {
                /** Format: int64 */
                head_sequence: number;
                messages: components["schemas"]["Message"][];
            };
            /** @description The way to the next one. */
            pagination: components["schemas"]["Pagination"];
        };
        /** @description A success that may go on. */
        Paged_Inbox: {
            /** @description A page of the inbox, newest activity first. */
            data: {
                chats: components["schemas"]["ChatSummary"][];
            };
            /** @description The way to the next one. */
            pagination: components["schemas"]["Pagination"];
        };
        /** @description Where a list goes on. */
        Pagination: {
            /** @description Whether there is another page. */
            has_more: boolean;
            /** @description Opaque; `null` at the end of the list. */
            next_cursor: string | null;
        };
        /** @description One user's presence. */
        Presence: {
            /** Format: date-time */
            last_seen?: string;
            status: components["schemas"]["PresenceStatus"];
            user_id: components["schemas"]["UserId"];
        };
        /** @description Body of POST `/presence/query`. */
        PresenceQuery: {
            user_ids: components["schemas"]["UserId"][];
        };
        /** @description Payload of `presence_snapshot`, and the answer to a question about presence over REST. */
        PresenceSnapshot: {
            presences: components["schemas"]["Presence"][];
        };
        /**
         * @description What may be known of a user's presence.
         * @enum {string}
         */
        PresenceStatus: "online" | "offline" | "unknown";
        /**
         * @description Who sees when a user is online.
         * @enum {string}
         */
        PresenceVisibility: "everyone" | "contacts_only" | "nobody";
        /** @description The keys of a browser's subscription, in base64url. */
        PushKeys: {
            /** @description The secret that the browser shares with this service, 16 bytes. */
            auth: string;
            /** @description The browser's public key, an uncompressed point on P-256. */
            p256dh: string;
        };
        /**
         * @description Who brings notifications to a device.
         * @enum {string}
         */
        PushProvider: "webhook" | "webpush";
        /**
         * @description Body of PUT `/devices/{device_id}/push`: how the device is told of messages while its user is away. Beside `provider`
         *     a browser's `PushSubscription` can be given as it is.
         */
        PushRegistration: {
            /** @description For `webpush`: the address at the browser's push service. */
            endpoint?: string | null;
            keys?: components["schemas"]["PushKeys"] | null;
            provider: components["schemas"]["PushProvider"];
            /** @description For `webhook`: what the operator's service calls the device, 1 to 2048 visible ASCII characters. */
            token?: string | null;
        };
        /** @description How many members have got and read a message. */
        Receipts: {
            chat_id: components["schemas"]["ChatId"];
            /** @description Without the sender. */
            delivered_count: number;
            /** @description All members, with the sender. */
            member_count: number;
            members: components["schemas"]["MemberWatermarks"][];
            /** @description Without the sender. */
            read_count: number;
            /** Format: int64 */
            sequence: number;
        };
        /** @description Body of POST `/auth/refresh`. */
        RefreshTokens: {
            /** Format: uuid */
            device_id: string;
            refresh_token: string;
        };
        /** @description The id of a report. */
        ReportId: string;
        /**
         * @description Why somebody or something is reported.
         * @enum {string}
         */
        ReportReason: "spam" | "abuse" | "illegal" | "other";
        /** @description A report that operators will see. */
        Reported: {
            /** Format: date-time */
            created_at: string;
            report_id: components["schemas"]["ReportId"];
        };
        /** @description Body of POST `/auth/request-otp`. */
        RequestOtp: {
            /** @description E.164. */
            phone_number: string;
        };
        /** @description How many sessions ended. */
        Revoked: {
            revoked_count: number;
        };
        /**
         * @description What a member may do.
         * @enum {string}
         */
        Role: "owner" | "admin" | "member";
        /** @description Body of POST `/chats/{chat_id}/messages`: a `send_message` frame whose chat is in the path. */
        SendMessage: {
            /**
             * Format: uuid
             * @description The sender's name for the send, the same on every try.
             */
            client_message_id: string;
            /** @description 1 to 4096 bytes of UTF-8 without NUL. */
            content: string;
            content_type?: components["schemas"]["ContentType"] | null;
            /** Format: int64 */
            ttl_seconds?: number | null;
        };
        /** @description Payload of `send_message_ack`, and the answer to a send over REST. */
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
        /** @description What this service is and what it takes, GET `/api/v1`. */
        Service: {
            /** @description What content may be. */
            content_types: string[];
            limits: components["schemas"]["ServiceLimits"];
            name: string;
            /** Format: int32 */
            protocol_version: number;
            version: string;
            /** @description The key that browsers subscribe to Web Push with (`applicationServerKey`); `null` where it is off. */
            web_push_public_key: string | null;
            /** @description Where the WebSocket is. */
            websocket_path: string;
        };
        /** @description The bounds of the contract. */
        ServiceLimits: {
            body_bytes_max: number;
            chat_name_chars_max: number;
            content_bytes_max: number;
            display_name_chars_max: number;
            frame_bytes_max: number;
            group_members_max: number;
            history_page_max: number;
            lookup_numbers_max: number;
            sync_page_max: number;
            /** Format: int64 */
            ttl_seconds_max: number;
        };
        /** @description One login of one device. */
        Session: {
            /** Format: date-time */
            created_at: string;
            /** Format: uuid */
            device_id: string;
            /** Format: date-time */
            expires_at: string;
            /** @description Whether it is the session that asks. */
            is_current: boolean;
            /** Format: date-time */
            last_active_at: string;
            session_id: components["schemas"]["SessionId"];
        };
        /** @description The id of a session. */
        SessionId: string;
        /** @description The devices a user is signed in on. */
        Sessions: {
            sessions: components["schemas"]["Session"][];
        };
        /** @description Somebody is in. */
        SignedIn: {
            is_new_user: boolean;
            session: components["schemas"]["Session"];
            tokens: components["schemas"]["Tokens"];
            user: components["schemas"]["Me"];
        };
        /** @description What a device shows to act for its user. */
        Tokens: {
            access_token: string;
            /**
             * Format: int64
             * @description Seconds until the access token is void.
             */
            expires_in: number;
            /** @description Good once. */
            refresh_token: string;
            /** @description `Bearer`. */
            token_type: string;
        };
        /** @description The next pair of tokens. */
        TokensRefreshed: {
            tokens: components["schemas"]["Tokens"];
        };
        /** @description Body of PATCH `/chats/{chat_id}`; what is absent stays. */
        UpdateChat: {
            /**
             * Format: int64
             * @description How long messages live that do not say it themselves; `null` is for ever.
             */
            message_ttl_seconds?: number | null;
            name?: string | null;
        };
        /** @description Body of PATCH `/users/me`: what is absent stays as it is. */
        UpdateMe: {
            display_name?: string | null;
            /** @enum {string|null} */
            presence_visibility?: "everyone" | "contacts_only" | "nobody" | null;
        };
        /** @description A user as everybody sees them. */
        User: {
            /** Format: date-time */
            created_at: string;
            display_name: string;
            user_id: components["schemas"]["UserId"];
        };
        /** @description The id of a user. */
        UserId: string;
        /** @description Body of POST `/auth/verify-otp`. */
        VerifyOtp: {
            /** Format: uuid */
            device_id: string;
            /** @description What to call a new user; a known one keeps the name. */
            display_name?: string | null;
            otp: string;
            phone_number: string;
        };
        /** @description A ticket for one WebSocket. */
        WsTicket: {
            /** Format: date-time */
            expires_at: string;
            ticket: string;
        };
    };
    responses: {
        /** @description `FORBIDDEN`: The caller's role does not allow it. */
        Forbidden: {
            headers: {
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `FORBIDDEN`: The caller's role does not allow it. `NOT_A_MEMBER`: The caller is not a member of the chat. */
        ForbiddenOrNotAMember: {
            headers: {
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `IDEMPOTENCY_KEY_REUSED`: The same key came with another request. */
        IdempotencyKeyReused: {
            headers: {
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `IDEMPOTENCY_KEY_REUSED`: The same key came with another request. `ALREADY_A_MEMBER`: The user is a member already. */
        IdempotencyKeyReusedOrAlreadyAMember: {
            headers: {
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `INTERNAL_ERROR`: The service has a defect. */
        InternalError: {
            headers: {
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `INVALID_CONTENT_TYPE`: The content type is not carried. */
        InvalidContentType: {
            headers: {
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `INVALID_OPERATION`: It cannot be done to this kind of thing, or not in this state. */
        InvalidOperation: {
            headers: {
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `INVALID_SEQUENCE`: The sequence is above the head of its chat, `details.head_sequence`. */
        InvalidSequence: {
            headers: {
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `MESSAGE_TOO_LARGE`: Content or body is above its limit. */
        MessageTooLarge: {
            headers: {
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `NOT_A_MEMBER`: The caller is not a member of the chat. */
        NotAMember: {
            headers: {
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `NOT_FOUND`: There is no such thing. */
        NotFound: {
            headers: {
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `RATE_LIMITED`: Too often; `details.limit` says what. */
        RateLimited: {
            headers: {
                "Retry-After": components["headers"]["Retry-After"];
                "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `SERVER_BUSY`: Too much work is waiting. `SERVICE_UNAVAILABLE`: Something the service stands on is away. `COUNTER_MISSING`: The chat's counter is gone; an operator has to repair it. */
        ServerBusyOrServiceUnavailableOrCounterMissing: {
            headers: {
                "Retry-After": components["headers"]["Retry-After"];
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `SERVICE_UNAVAILABLE`: Something the service stands on is away. */
        ServiceUnavailable: {
            headers: {
                "Retry-After": components["headers"]["Retry-After"];
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `UNAUTHORIZED`: There is no valid token, or the one-time code is wrong. */
        Unauthorized: {
            headers: {
                "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `VALIDATION_ERROR`: The request cannot be taken; `details.field_errors` says why. */
        ValidationError: {
            headers: {
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `VALIDATION_ERROR`: The request cannot be taken; `details.field_errors` says why. `CHAT_FULL`: The group has as many members as it can. `INVALID_OPERATION`: It cannot be done to this kind of thing, or not in this state. */
        ValidationErrorOrChatFullOrInvalidOperation: {
            headers: {
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `VALIDATION_ERROR`: The request cannot be taken; `details.field_errors` says why. `INVALID_OPERATION`: It cannot be done to this kind of thing, or not in this state. */
        ValidationErrorOrInvalidOperation: {
            headers: {
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
    };
    parameters: never;
    requestBodies: never;
    headers: {
        /** @description Seconds to wait before the next try. */
        "Retry-After": number;
        /** @description `Bearer`. */
        "WWW-Authenticate": string;
        /** @description `true` if this is the answer to an earlier request with the same `Idempotency-Key`. */
        "X-Idempotent-Replay": string;
        /** @description Requests that are allowed at once. Absent where the limit is off. */
        "X-RateLimit-Limit": number;
        /** @description How many of them are left. */
        "X-RateLimit-Remaining": number;
        /** @description When all of them are there again, in Unix seconds. */
        "X-RateLimit-Reset": number;
        /** @description The id of the request, for a report to the operator; the client's own if it gave one. */
        "X-Request-ID": string;
    };
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    jwks: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A JWK set */
            200: {
                headers: {
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": unknown;
                };
            };
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    service: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_Service"];
                };
            };
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    logout: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Signed out */
            204: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    refresh: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RefreshTokens"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_TokensRefreshed"];
                };
            };
            400: components["responses"]["ValidationError"];
            401: components["responses"]["Unauthorized"];
            413: components["responses"]["MessageTooLarge"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    request_otp: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RequestOtp"];
            };
        };
        responses: {
            /** @description A code is on its way */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_OtpRequested"];
                };
            };
            400: components["responses"]["ValidationError"];
            413: components["responses"]["MessageTooLarge"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    verify_otp: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["VerifyOtp"];
            };
        };
        responses: {
            /** @description A known user is signed in */
            200: {
                headers: {
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_SignedIn"];
                };
            };
            /** @description A new user is signed in */
            201: {
                headers: {
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_SignedIn"];
                };
            };
            400: components["responses"]["ValidationError"];
            401: components["responses"]["Unauthorized"];
            413: components["responses"]["MessageTooLarge"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    ws_ticket: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_WsTicket"];
                };
            };
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    blocks: {
        parameters: {
            query?: {
                /**
                 * @description Users in the page: 100 unless given, 100 at the most.
                 * @example 100
                 */
                limit?: number | null;
                /** @description The `next_cursor` of the page before. */
                cursor?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Paged_Blocks"];
                };
            };
            400: components["responses"]["ValidationError"];
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    block: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The user.
                 * @example user_01K9D31E8ZR6V2M9QK3PFS0B0B
                 */
                user_id: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The user is blocked */
            204: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidOperation"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    unblock: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The user.
                 * @example user_01K9D31E8ZR6V2M9QK3PFS0B0B
                 */
                user_id: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The user is not blocked */
            204: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    inbox: {
        parameters: {
            query?: {
                /**
                 * @description Chats in the page: 20 unless given, 100 at the most.
                 * @example 20
                 */
                limit?: number | null;
                /** @description The `next_cursor` of the page before. */
                cursor?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Paged_Inbox"];
                };
            };
            400: components["responses"]["ValidationError"];
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    create_chat: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description The client's name for the request; a repetition within 24 h gets the first answer.
                 * @example b2f6d8a4-1c93-4e57-8d0b-5a7e3f9c6124
                 */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateChat"];
            };
        };
        responses: {
            /** @description The pair has had this chat */
            200: {
                headers: {
                    "X-Idempotent-Replay": components["headers"]["X-Idempotent-Replay"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_ChatDetails"];
                };
            };
            /** @description The chat is open */
            201: {
                headers: {
                    "X-Idempotent-Replay": components["headers"]["X-Idempotent-Replay"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_ChatDetails"];
                };
            };
            400: components["responses"]["ValidationErrorOrChatFullOrInvalidOperation"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            409: components["responses"]["IdempotencyKeyReused"];
            413: components["responses"]["MessageTooLarge"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    chat: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The chat.
                 * @example chat_01K9D36Y4MC2G8JT5XN7D1RECT
                 */
                chat_id: components["schemas"]["ChatId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_ChatDetails"];
                };
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["NotAMember"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    update_chat: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The chat.
                 * @example chat_01K9D3A7PBQ9S4WZ6HK2B0ATSX
                 */
                chat_id: components["schemas"]["ChatId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["UpdateChat"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_ChatDetails"];
                };
            };
            400: components["responses"]["ValidationErrorOrInvalidOperation"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["ForbiddenOrNotAMember"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["MessageTooLarge"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    leave_chat: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The chat.
                 * @example chat_01K9D3A7PBQ9S4WZ6HK2B0ATSX
                 */
                chat_id: components["schemas"]["ChatId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The caller is no member any more */
            204: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidOperation"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["NotAMember"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    add_member: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description The client's name for the request; a repetition within 24 h gets the first answer.
                 * @example 47c1e9d5-8a02-4b6f-93e7-d1f05b8c2a36
                 */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /**
                 * @description The chat.
                 * @example chat_01K9D3A7PBQ9S4WZ6HK2B0ATSX
                 */
                chat_id: components["schemas"]["ChatId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AddMember"];
            };
        };
        responses: {
            /** @description The new member */
            201: {
                headers: {
                    "X-Idempotent-Replay": components["headers"]["X-Idempotent-Replay"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_Member"];
                };
            };
            400: components["responses"]["ValidationErrorOrChatFullOrInvalidOperation"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["ForbiddenOrNotAMember"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["IdempotencyKeyReusedOrAlreadyAMember"];
            413: components["responses"]["MessageTooLarge"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    remove_member: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The chat.
                 * @example chat_01K9D3A7PBQ9S4WZ6HK2B0ATSX
                 */
                chat_id: components["schemas"]["ChatId"];
                /**
                 * @description The user.
                 * @example user_01K9D33S2KG8Y5T1WD7MJXC1E0
                 */
                user_id: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description They are no member any more */
            204: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidOperation"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["ForbiddenOrNotAMember"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    change_role: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The chat.
                 * @example chat_01K9D3A7PBQ9S4WZ6HK2B0ATSX
                 */
                chat_id: components["schemas"]["ChatId"];
                /**
                 * @description The user.
                 * @example user_01K9D33S2KG8Y5T1WD7MJXC1E0
                 */
                user_id: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChangeRole"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_Member"];
                };
            };
            400: components["responses"]["ValidationErrorOrInvalidOperation"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["ForbiddenOrNotAMember"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["MessageTooLarge"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    history: {
        parameters: {
            query?: {
                /**
                 * @description Messages in the page: 20 unless given, 100 at the most.
                 * @example 20
                 */
                limit?: number | null;
                /** @description Only messages below this sequence, newest first. */
                before?: number | null;
                /** @description Only messages above this sequence, oldest first. */
                after?: number | null;
                /** @description The `next_cursor` of the page before; excludes `before` and `after`. */
                cursor?: string | null;
            };
            header?: never;
            path: {
                /**
                 * @description The chat.
                 * @example chat_01K9D36Y4MC2G8JT5XN7D1RECT
                 */
                chat_id: components["schemas"]["ChatId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Paged_History"];
                };
            };
            400: components["responses"]["ValidationError"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["NotAMember"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    send_message: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The chat.
                 * @example chat_01K9D36Y4MC2G8JT5XN7D1RECT
                 */
                chat_id: components["schemas"]["ChatId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SendMessage"];
            };
        };
        responses: {
            /** @description An earlier try had been taken */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_SendMessageAck"];
                };
            };
            /** @description The message is durable */
            201: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_SendMessageAck"];
                };
            };
            400: components["responses"]["ValidationErrorOrInvalidOperation"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["ForbiddenOrNotAMember"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["IdempotencyKeyReused"];
            413: components["responses"]["MessageTooLarge"];
            415: components["responses"]["InvalidContentType"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServerBusyOrServiceUnavailableOrCounterMissing"];
        };
    };
    around: {
        parameters: {
            query?: {
                /**
                 * @description Messages in the page: 20 unless given, 100 at the most.
                 * @example 20
                 */
                limit?: number | null;
            };
            header?: never;
            path: {
                /**
                 * @description The chat.
                 * @example chat_01K9D36Y4MC2G8JT5XN7D1RECT
                 */
                chat_id: components["schemas"]["ChatId"];
                /**
                 * @description The place to look around.
                 * @example 1
                 */
                sequence: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_Around"];
                };
            };
            400: components["responses"]["ValidationError"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["NotAMember"];
            404: components["responses"]["NotFound"];
            422: components["responses"]["InvalidSequence"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    mute_chat: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The chat.
                 * @example chat_01K9D3A7PBQ9S4WZ6HK2B0ATSX
                 */
                chat_id: components["schemas"]["ChatId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Mute"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_Muted"];
                };
            };
            400: components["responses"]["ValidationError"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["NotAMember"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["MessageTooLarge"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    mark_read: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The chat.
                 * @example chat_01K9D36Y4MC2G8JT5XN7D1RECT
                 */
                chat_id: components["schemas"]["ChatId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MarkRead"];
            };
        };
        responses: {
            /** @description The caller's watermarks now */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_MarkedRead"];
                };
            };
            400: components["responses"]["ValidationError"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["NotAMember"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["MessageTooLarge"];
            422: components["responses"]["InvalidSequence"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServerBusyOrServiceUnavailableOrCounterMissing"];
        };
    };
    receipts: {
        parameters: {
            query?: {
                /**
                 * @description The message asked about; the last one unless given.
                 * @example 2
                 */
                sequence?: number | null;
            };
            header?: never;
            path: {
                /**
                 * @description The chat.
                 * @example chat_01K9D36Y4MC2G8JT5XN7D1RECT
                 */
                chat_id: components["schemas"]["ChatId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_Receipts"];
                };
            };
            400: components["responses"]["ValidationError"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["NotAMember"];
            404: components["responses"]["NotFound"];
            422: components["responses"]["InvalidSequence"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    unmute_chat: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The chat.
                 * @example chat_01K9D3A7PBQ9S4WZ6HK2B0ATSX
                 */
                chat_id: components["schemas"]["ChatId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_Muted"];
                };
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["NotAMember"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    contacts: {
        parameters: {
            query?: {
                /**
                 * @description Contacts in the page: 100 unless given, 100 at the most.
                 * @example 100
                 */
                limit?: number | null;
                /** @description The `next_cursor` of the page before. */
                cursor?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Paged_Contacts"];
                };
            };
            400: components["responses"]["ValidationError"];
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    add_contact: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The user.
                 * @example user_01K9D31E8ZR6V2M9QK3PFS0B0B
                 */
                user_id: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The contact */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_User"];
                };
            };
            400: components["responses"]["InvalidOperation"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    remove_contact: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The user.
                 * @example user_01K9D31E8ZR6V2M9QK3PFS0B0B
                 */
                user_id: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The user is no contact of the caller */
            204: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    register_push: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The device.
                 * @example 5b0f6c1e-3a8d-4f27-9c64-2e7d1b9a8f30
                 */
                device_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PushRegistration"];
            };
        };
        responses: {
            /** @description The device will be told */
            204: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["ValidationErrorOrInvalidOperation"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["MessageTooLarge"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    unregister_push: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The device.
                 * @example 5b0f6c1e-3a8d-4f27-9c64-2e7d1b9a8f30
                 */
                device_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The device will not be told */
            204: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    message: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The message.
                 * @example msg_01K9D36Z8HE5T1RV7MN3MSG001
                 */
                message_id: components["schemas"]["MessageId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_Message"];
                };
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["NotAMember"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    query_presence: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PresenceQuery"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_PresenceSnapshot"];
                };
            };
            400: components["responses"]["ValidationError"];
            401: components["responses"]["Unauthorized"];
            413: components["responses"]["MessageTooLarge"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    report: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description The client's name for the request; a repetition within 24 h gets the first answer.
                 * @example 5f2c8e17-9a4b-4d60-8c3f-7e1b6d0a9f42
                 */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["FileReport"];
            };
        };
        responses: {
            /** @description The report is filed */
            201: {
                headers: {
                    "X-Idempotent-Replay": components["headers"]["X-Idempotent-Replay"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_Reported"];
                };
            };
            400: components["responses"]["ValidationErrorOrInvalidOperation"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["NotAMember"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["IdempotencyKeyReused"];
            413: components["responses"]["MessageTooLarge"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    sessions: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_Sessions"];
                };
            };
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    revoke_sessions: {
        parameters: {
            query?: {
                /**
                 * @description Whether the session that asks ends too.
                 * @example false
                 */
                include_current?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_Revoked"];
                };
            };
            400: components["responses"]["ValidationError"];
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    revoke_session: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The session.
                 * @example sess_01K9D3B1FYK8P2VR6XT4SESS0B
                 */
                session_id: components["schemas"]["SessionId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The session has ended */
            204: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    lookup: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Lookup"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_LookupResults"];
                };
            };
            400: components["responses"]["ValidationError"];
            401: components["responses"]["Unauthorized"];
            413: components["responses"]["MessageTooLarge"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    me: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_Me"];
                };
            };
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    delete_me: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DeleteMe"];
            };
        };
        responses: {
            /** @description The account is gone, and the rest is going */
            202: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_AccountDeletion"];
                };
            };
            400: components["responses"]["ValidationError"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["MessageTooLarge"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    update_me: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["UpdateMe"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_Me"];
                };
            };
            400: components["responses"]["ValidationError"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["MessageTooLarge"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    export_me: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_Export"];
                };
            };
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    user: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The user.
                 * @example user_01K9D31E8ZR6V2M9QK3PFS0B0B
                 */
                user_id: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_User"];
                };
            };
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    presence: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The user.
                 * @example user_01K9D31E8ZR6V2M9QK3PFS0B0B
                 */
                user_id: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_Presence"];
                };
            };
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
}
