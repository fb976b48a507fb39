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
         * @description Services that trust our tokens fetch and cache it. A key stays in the set for as long as tokens that it signed are
         *     valid.
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
         * The name, version and limits of this service.
         * @description Clients read the version of the contract, the limits that they must keep, and the key for Web Push subscriptions. No
         *     token is needed.
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
         * Ends the session of this request.
         * @description Its tokens are void at once, its sockets are closed, and its device gets no more notifications.
         */
        post: operations["logout"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/auth/passkeys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The passkeys of the caller, oldest first.
         * @description `last_used_at` is `null` before the first sign-in with it.
         */
        get: operations["passkeys"];
        put?: never;
        /**
         * Registers a passkey, with which the caller can sign in without a code.
         * @description A user has at most 20 passkeys. `CONFLICT` if it is registered already.
         */
        post: operations["add_passkey"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/auth/passkeys/challenges": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Begins a sign-in with a passkey.
         * @description The answer is for `PublicKeyCredential.parseRequestOptionsFromJSON`. It is the same for everybody, apart from the
         *     challenge, and names no user. A server without passkeys refuses with `INVALID_OPERATION`.
         */
        post: operations["passkey_challenge"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/auth/passkeys/registrations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Begins the registration of a passkey.
         * @description The answer is for `PublicKeyCredential.parseCreationOptionsFromJSON`. The challenge in it is valid for 5 minutes. A server
         *     without passkeys refuses with `INVALID_OPERATION`, and so does any server for users of an external identity provider.
         */
        post: operations["begin_passkey"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/auth/passkeys/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Signs in with a passkey.
         * @description The answer is that of `POST /auth/verify-otp` for a known user. Wrong, unknown, removed and repeated answers of
         *     authenticators are refused alike, with `UNAUTHORIZED`. Refused sign-ins from one address are limited.
         */
        post: operations["sign_in_with_passkey"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/auth/passkeys/{passkey_id}": {
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
         * Removes a passkey of the caller.
         * @description It does not sign in any more. Sessions that it opened stay; end them with `DELETE /sessions`.
         */
        delete: operations["remove_passkey"];
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
         * Exchanges a refresh token for a new pair of tokens.
         * @description A refresh token is valid once. A second use within 10 s from the same device is accepted once, because the first
         *     response may have been lost. Any other reuse ends the session.
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
         * @description The response is the same whether or not the number is known. Codes are limited per number, per client address, per
         *     country and in total. A
         *     server whose users sign in elsewhere refuses with `INVALID_OPERATION`.
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
         * @description The first sign-in of a number creates its user, with `display_name`. A code is valid once. After 5 wrong attempts
         *     the number is locked for 15 minutes, except for devices on which its user is signed in; a new code does not renew the
         *     attempts. Wrong codes from one address are limited across all numbers.
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
         * Issues a ticket for one WebSocket, for clients that cannot set headers.
         * @description It is valid once, for 30 s, and goes into the query of the handshake: `/v1/ws?ticket=…&device_id=…`.
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
         * The users that the caller has blocked, by id.
         * @description A page has at most 100 users; `pagination.next_cursor` leads to the next.
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
         * @description The block is not announced to anyone. In the direct chat of the two, neither can send until the caller removes the
         *     block. Groups with both members do not change. Blocking a user again changes nothing.
         */
        put: operations["block"];
        post?: never;
        /**
         * Unblocks a user; succeeds even if they are not blocked.
         * @description Requests that were refused during the block stay refused. The user sees the caller's presence again as
         *     `presence_visibility` allows.
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
         * @description Chats are ordered by their last message, or by their creation while they are empty. Pages after a cursor keep the
         *     order of the first page: a message that arrives in between neither repeats nor hides a chat, but shows in its summary.
         *     A cursor is refused (`VALIDATION_ERROR`) once more than 200 chats have newer messages; start again without it.
         */
        get: operations["inbox"];
        put?: never;
        /**
         * Opens a chat. A pair that has a direct chat gets that one, with status 200.
         * @description The creator is a member whether or not `member_ids` names them, and the owner of a group. Users who do not let the
         *     creator add them (`group_invites` of PATCH `/users/me`) get an invitation, and `invited_user_ids` names them. A request whose answer was
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
         * @description Absent fields stay unchanged; `message_ttl_seconds: null` keeps messages permanently. In a group, the owner and admins
         *     may do this. In a direct chat, either member may set `message_ttl_seconds`, and nothing else can be changed.
         */
        patch: operations["update_chat"];
        trace?: never;
    };
    "/api/v1/chats/{chat_id}/delivered": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Moves the caller's delivered watermark forward; a lower sequence changes nothing.
         * @description It acknowledges messages that were received without a WebSocket, as the frame `ack` does on one. Only acknowledge a
         *     sequence up to which there is no gap. The other members receive a `receipt` push.
         */
        post: operations["mark_delivered"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
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
         * @description An owner must hand the group over first, unless the owner is its last member: then the group is gone for everybody, and
         *     its messages are erased. A user who has left can no longer read the group.
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
         * @description The owner and admins may do this. A new member can read all history. Both their watermarks start at the head, so
         *     nothing is unread. A user who does not let the caller add them (`group_invites` of PATCH `/users/me`) gets an
         *     invitation: the status is 202, and the body has `invited`. The user becomes a plain member by accepting it.
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
         * @description The owner may remove any other member, an admin only plain members. A removed member receives no further messages.
         */
        delete: operations["remove_member"];
        options?: never;
        head?: never;
        /**
         * Changes a member's role; `owner` hands the group over.
         * @description Only the owner may do this. An owner who hands the group over becomes an admin.
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
         * @description Pages omit expired and deleted messages, and the sequences of updates. They end before `limit` when their messages
         *     reach 512 KiB. `before`, `after` and `cursor` exclude each other. Only the caller's own messages have a `status`.
         */
        get: operations["history"];
        put?: never;
        /**
         * Sends a message, as the `send_message` frame does.
         * @description For bots and servers. Choose the `client_message_id` before the first attempt and reuse it for every retry: the
         *     message is then stored once.
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
         * The messages around one sequence of a chat, oldest first: half of the page lies before it.
         * @description A target that has expired, was deleted or is an update leaves a gap; a sequence above the head is `INVALID_SEQUENCE`.
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
    "/api/v1/chats/{chat_id}/messages/{sequence}": {
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
         * Deletes a message for everyone, as the `update_message` frame does.
         * @description Authors delete their messages up to `messages.update_window_seconds` after the send. The owner and the admins of a
         *     group delete any message at any time. The content is erased like that of an expired message.
         */
        delete: operations["delete_message"];
        options?: never;
        head?: never;
        /**
         * Edits a message of the caller, as the `update_message` frame does.
         * @description The new content, content type and metadata replace the old ones, which are not kept. Authors edit their messages up
         *     to `messages.update_window_seconds` after the send. The `sequence` of the answer is that of the update.
         */
        patch: operations["edit_message"];
        trace?: never;
    };
    "/api/v1/chats/{chat_id}/messages/{sequence}/reactions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The members who reacted to a message, with their reactions, by id.
         * @description Members who have left the chat since are included. Messages have the counts in `state.reactions`.
         */
        get: operations["reactions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/chats/{chat_id}/messages/{sequence}/reactions/{reaction}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Adds a reaction of the caller to a message, as the `update_message` frame does.
         * @description A member has at most 10 reactions on a message, and a message at most 20 different ones. A second request for the
         *     same reaction with another `client_message_id` is `CONFLICT`.
         */
        put: operations["add_reaction"];
        post?: never;
        /**
         * Removes a reaction of the caller from a message, as the `update_message` frame does.
         * @description A reaction that the caller does not have is `NOT_FOUND`.
         */
        delete: operations["remove_reaction"];
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
         * Mutes a chat for the caller, for a duration or permanently.
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
         * Moves the caller's read watermark forward; a lower sequence changes nothing.
         * @description A message that is read counts as delivered too. The other members receive a `receipt` push.
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
         * The watermarks of the members of a chat, and how many members have received and read one message.
         * @description `delivered_count` and `read_count` exclude the sender; `member_count` and `members` include every member. In a direct
         *     chat with a block, `members` has only the caller, and the other member counts as without receipts. `delivered_at` and
         *     `read_at` are the times at which a member's watermarks last moved.
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
         * Unmutes a chat for the caller.
         * @description A chat that is not muted does not change.
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
         * The contacts of the caller, by id.
         * @description A page has at most 100 users; `pagination.next_cursor` leads to the next.
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
         * Adds a user to the caller's contacts. Two users who have added each other are mutual contacts.
         * @description Adding a contact again changes nothing. Mutual contacts see each other's presence where `presence_visibility` is
         *     `contacts_only`.
         */
        put: operations["add_contact"];
        post?: never;
        /**
         * Removes a user from the caller's contacts; succeeds even if they are not listed.
         * @description The other user keeps their own list. A user who saw the caller as a mutual contact receives a push that the caller is
         *     offline.
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
         * Registers a device of the caller for notifications while they are away; replaces an earlier registration.
         * @description Either `webhook` with the token by which the operator's service knows the device, or `webpush` with the subscription
         *     of a browser. The registration ends with the device's session.
         */
        put: operations["register_push"];
        post?: never;
        /**
         * Ends the notifications of a device; succeeds even if it is not registered.
         * @description Messages reach the device over its connection as before.
         */
        delete: operations["unregister_push"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/invitations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The pending invitations of the caller to groups, newest first.
         * @description A member of a group who may not add the caller at once (`group_invites` of PATCH `/users/me`) invites them. An
         *     invitation expires after 30 days. Invitations of users whom the caller has blocked, and of users who can no longer
         *     add members, are not listed. There are at most 100, and at most 10 of the same user.
         */
        get: operations["invitations"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/invitations/{chat_id}": {
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
         * Declines an invitation; succeeds even without one.
         * @description For 30 days no member of the group can invite the caller again. The decline is not announced: further invitations
         *     are dropped silently.
         */
        delete: operations["decline_invitation"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/invitations/{chat_id}/accept": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Accepts an invitation: the caller becomes a member of the group.
         * @description The inviter must still be allowed to add members, and the group must have room. While the caller blocks the inviter,
         *     the acceptance is refused. A repeated acceptance of a member succeeds.
         */
        post: operations["accept_invitation"];
        delete?: never;
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
         * @description With the chat that it is in. A message that has expired or was deleted is not found.
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
         * The presence of many users, as the caller may see it, in the order of the request.
         * @description At most 100 users. The request counts as a read, although it has a body.
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
         * @description One of `message_id`, `user_id` and `chat_id` is needed; for a message, its sender and chat are added. A message that the
         *     caller can read is copied into the report. Operators can read the copy until 90 days after they resolve the report, or
         *     only until then if the message expires. The report is not announced to anyone else. Each caller can have 20 open
         *     reports of a day.
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
         * @description `is_current` marks the session of this request. `last_active_at` of it, and of every connected device, is now; of
         *     another device it is the last sign-in or refresh of its tokens.
         */
        get: operations["sessions"];
        put?: never;
        post?: never;
        /**
         * Ends all sessions of the caller except that of this request.
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
         * @description At most 100 numbers. An invalid number refuses the whole lookup, and the error names only its index. A daily limit for
         *     each user prevents the enumeration of registered numbers.
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
         * @description Includes the phone number and the settings, which only the caller sees.
         */
        get: operations["me"];
        put?: never;
        post?: never;
        /**
         * Deletes the caller's account.
         * @description All sessions end and their sockets close within a second. The phone number becomes free: signing in with it creates a
         *     new user. Devices and contacts are deleted. The rest follows within moments, even after a crash. The caller leaves
         *     every group. A group that they owned passes to the longest-standing admin, or else to the longest-standing member. A
         *     direct chat stays with the other member. Others see `Deleted account` instead of the caller's name. With
         *     `erase_messages` the caller's messages expire at once, and members receive `message_expired`. Reactions to messages of
         *     others stay. A deletion cannot be undone.
         */
        delete: operations["delete_me"];
        options?: never;
        head?: never;
        /**
         * Changes the caller's display name or settings.
         * @description Absent fields stay unchanged. `group_invites` holds for later additions to groups, and keeps pending invitations. A server whose names come from an identity provider refuses another name with
         *     `INVALID_OPERATION`. Users who may no longer see the caller receive a push that the caller is offline.
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
         * Exports all data of the caller as one document.
         * @description It contains the profile, sessions, devices without their push credentials, pending invitations, contacts, chats with
         *     the caller's membership, every unexpired message that the caller sent, and the caller's edits, deletions and
         *     reactions. Messages of other users are not included; the history of each chat has them. The response is streamed: a
         *     document without `is_complete` at its end is incomplete. The limit is `exports`.
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
         * The public profile of a user.
         * @description It never includes the phone number.
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
         * The presence of a user, as the caller may see it. Hidden and nonexistent users are both `unknown`.
         * @description Only `offline` has a `last_seen`, which is absent for a user who never connected.
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
            /** @description Defaults to `member`. */
            role?: components["schemas"]["Role"];
            user_id: components["schemas"]["UserId"];
        };
        /** @description Body of POST `/auth/passkeys`. */
        AddPasskey: {
            /** @description The `toJSON` of the new credential. */
            credential: components["schemas"]["PasskeyRegistration"];
            /** @description A name for the list of passkeys. */
            name: string;
        };
        /** @description The messages around a given one, oldest first. */
        Around: {
            has_more_after: boolean;
            has_more_before: boolean;
            /** Format: int64 */
            head_sequence: number;
            messages: components["schemas"]["Message"][];
            /** Format: int64 */
            target_sequence: number;
        };
        /** @description A page of a user's blocked users, ordered by id. */
        Blocks: {
            blocks: components["schemas"]["User"][];
        };
        /** @description Body of PATCH `/chats/{chat_id}/members/{user_id}`; `owner` transfers the ownership of the group. */
        ChangeRole: {
            role: components["schemas"]["Role"];
        };
        /** @description A chat with its members, as one of them sees it. */
        ChatDetails: components["schemas"]["ChatSummary"] & {
            /**
             * @description Only in the response to the creation of a group: the users of `member_ids` who were invited instead of added.
             *     Absent if there are none.
             */
            invited_user_ids?: components["schemas"]["UserId"][];
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
             * @description Lifetime of messages that set none themselves; `null` means they never expire.
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
             * @description Messages above the caller's read watermark that the caller did not send; a lower bound if `unread_count_exact`
             *     is `false`.
             */
            unread_count: number;
            /**
             * @description `false` if there are at least `unread_count` such messages and the server stopped counting. Absent if the count
             *     is exact.
             */
            unread_count_exact?: boolean;
        };
        /**
         * @description Whether a chat is between two users or a group.
         * @enum {string}
         */
        ChatType: "direct" | "group";
        /** @description A page of a user's contacts, ordered by id. */
        Contacts: {
            contacts: components["schemas"]["User"][];
        };
        /**
         * @description The format of the content of a message.
         * @enum {string}
         */
        ContentType: "text/plain" | "text/markdown" | "application/json" | "application/vnd.tidings.encrypted";
        /** @description Body of POST `/chats`. */
        CreateChat: {
            /** @description The other members; the caller's own id is ignored. */
            member_ids: components["schemas"]["UserId"][];
            /** @description Required for a group; a direct chat has none. */
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
            /** @description The messages around a given one, oldest first. */
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
                /**
                 * @description Only in the response to the creation of a group: the users of `member_ids` who were invited instead of added.
                 *     Absent if there are none.
                 */
                invited_user_ids?: components["schemas"]["UserId"][];
                members: components["schemas"]["Member"][];
            };
        };
        /** @description A success. */
        Data_Export: {
            /** @description All data of a user. */
            data: {
                chats: components["schemas"]["ExportedChat"][];
                /** @description The contacts that the user has added. */
                contacts: components["schemas"]["UserId"][];
                /** Format: date-time */
                exported_at: string;
                /** @description The pending invitations of the user to groups. */
                invitations?: components["schemas"]["ExportedInvitation"][];
                /** @description Always `true`: a document without this field is truncated. */
                is_complete: boolean;
                passkeys: components["schemas"]["PasskeySummary"][];
                push_devices: components["schemas"]["ExportedDevice"][];
                sessions: components["schemas"]["Session"][];
                user: components["schemas"]["Me"];
            };
        };
        /** @description A success. */
        Data_Invitations: {
            /** @description The pending invitations of the caller, newest first. */
            data: {
                invitations: components["schemas"]["Invitation"][];
            };
        };
        /** @description A success. */
        Data_LookupResults: {
            /** @description For each requested number, in order, its user or `null`. */
            data: {
                results: (components["schemas"]["User"] | null)[];
            };
        };
        /** @description A success. */
        Data_MarkedRead: {
            /** @description The caller's watermarks after a `MarkDelivered` or a `MarkRead`. */
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
                /** @description The user's id at the identity provider; absent for users of a phone number. Other users do not see it. */
                external_id?: string;
                /** @description The users who may add the user to a group at once. Others can only invite the user. */
                group_invites: components["schemas"]["GroupInvites"];
                /** @description Absent for users who authenticate with another system's tokens. */
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
                /**
                 * @description `true` only in the response to an addition, if the user was invited instead and is not a member. The role is then
                 *     `member`, and `joined_at` the time of the invitation. Absent for members.
                 */
                invited?: boolean;
                /** Format: date-time */
                joined_at: string;
                role: components["schemas"]["Role"];
                user_id: components["schemas"]["UserId"];
            };
        };
        /** @description A success. */
        Data_Message: {
            /** @description A message as one member sees it: the `message` payload, with a status on the member's own messages. */
            data: {
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
            } & {
                /** @description Present only on the caller's own messages. */
                status?: components["schemas"]["MessageStatus"];
            };
        };
        /** @description A success. */
        Data_Muted: {
            /** @description Whether a chat is muted for the caller. */
            data: {
                chat_id: components["schemas"]["ChatId"];
                muted: boolean;
                /**
                 * Format: date-time
                 * @description Absent if the chat is not muted, or muted permanently.
                 */
                muted_until?: string;
            };
        };
        /** @description A success. */
        Data_OtpRequested: {
            /** @description The response to a request for a code; it does not reveal whether the number is known. */
            data: {
                /** Format: date-time */
                expires_at: string;
                phone_number: string;
                /**
                 * Format: int64
                 * @description Time until another code may be requested; 0 if at once.
                 */
                retry_after_seconds: number;
            };
        };
        /** @description A success. */
        Data_PasskeyCreationOptions: {
            /** @description `PublicKeyCredentialCreationOptionsJSON`: for `navigator.credentials.create`. */
            data: {
                /** @description `none`. */
                attestation: string;
                authenticatorSelection: components["schemas"]["PasskeyAuthenticatorSelection"];
                /** @description Base64url; valid once, for 5 minutes. */
                challenge: string;
                excludeCredentials: components["schemas"]["PasskeyDescriptor"][];
                pubKeyCredParams: components["schemas"]["PasskeyAlgorithm"][];
                rp: components["schemas"]["PasskeyRelyingParty"];
                /**
                 * Format: int64
                 * @description In milliseconds.
                 */
                timeout: number;
                user: components["schemas"]["PasskeyUserEntity"];
            };
        };
        /** @description A success. */
        Data_PasskeyRequestOptions: {
            /** @description `PublicKeyCredentialRequestOptionsJSON`: for `navigator.credentials.get`. */
            data: {
                /** @description Empty: the user chooses one of their passkeys for the site. */
                allowCredentials: components["schemas"]["PasskeyDescriptor"][];
                /** @description Base64url; valid once, for 5 minutes. */
                challenge: string;
                rpId: string;
                /**
                 * Format: int64
                 * @description In milliseconds.
                 */
                timeout: number;
                /** @description `required`. */
                userVerification: string;
            };
        };
        /** @description A success. */
        Data_PasskeySummary: {
            /** @description A passkey of the caller. */
            data: {
                /** Format: date-time */
                created_at: string;
                /** @description Whether its provider has copied it to other devices. */
                is_backed_up: boolean;
                /**
                 * Format: date-time
                 * @description `null` before the first sign-in.
                 */
                last_used_at: string | null;
                name: string;
                passkey_id: components["schemas"]["PasskeyId"];
            };
        };
        /** @description A success. */
        Data_Passkeys: {
            /** @description The passkeys of a user. */
            data: {
                passkeys: components["schemas"]["PasskeySummary"][];
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
            /** @description Payload of `presence_snapshot`, and the response to a presence query over REST. */
            data: {
                presences: components["schemas"]["Presence"][];
            };
        };
        /** @description A success. */
        Data_Receipts: {
            /** @description The number of members that have received and read a message. */
            data: {
                chat_id: components["schemas"]["ChatId"];
                /** @description Excluding the sender. */
                delivered_count: number;
                /** @description All members, including the sender. */
                member_count: number;
                members: components["schemas"]["MemberWatermarks"][];
                /** @description Excluding the sender. */
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
            /** @description The number of sessions that were revoked. */
            data: {
                revoked_count: number;
            };
        };
        /** @description A success. */
        Data_SendMessageAck: {
            /** @description Payload of `send_message_ack`, and the response to a send over REST. */
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
            /** @description Name, versions and limits of this service, GET `/api/v1`. */
            data: {
                /** @description The content types that the service accepts. */
                content_types: string[];
                limits: components["schemas"]["ServiceLimits"];
                name: string;
                /** @description Whether users can register passkeys and sign in with them. */
                passkeys: boolean;
                /** Format: int32 */
                protocol_version: number;
                version: string;
                /** @description The key with which browsers subscribe to Web Push (`applicationServerKey`); `null` if Web Push is off. */
                web_push_public_key: string | null;
                /** @description The path of the WebSocket. */
                websocket_path: string;
            };
        };
        /** @description A success. */
        Data_Sessions: {
            /** @description The sessions of a user. */
            data: {
                sessions: components["schemas"]["Session"][];
            };
        };
        /** @description A success. */
        Data_SignedIn: {
            /** @description A successful sign-in. */
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
            /** @description A user as other users see them. */
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
            /** @description The caller's own `user_id`, as a guard against accidental deletion. */
            confirm: components["schemas"]["UserId"];
            /**
             * @description Whether the caller's messages are erased too. Otherwise they stay, under a name that marks the account as
             *     deleted.
             */
            erase_messages?: boolean;
        };
        /** @description Body of PATCH `/chats/{chat_id}/messages/{sequence}`. */
        EditMessage: {
            /**
             * Format: uuid
             * @description The author's id for the edit, the same on every retry.
             */
            client_message_id: string;
            /** @description 1 to 4096 bytes of UTF-8 without NUL. */
            content: string;
            content_type?: components["schemas"]["ContentType"] | null;
            /** @description A JSON object of at most 1024 bytes. It replaces the one of the message. */
            metadata?: {
                [key: string]: unknown;
            } | null;
        };
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
        /** @description All data of a user. */
        Export: {
            chats: components["schemas"]["ExportedChat"][];
            /** @description The contacts that the user has added. */
            contacts: components["schemas"]["UserId"][];
            /** Format: date-time */
            exported_at: string;
            /** @description The pending invitations of the user to groups. */
            invitations?: components["schemas"]["ExportedInvitation"][];
            /** @description Always `true`: a document without this field is truncated. */
            is_complete: boolean;
            passkeys: components["schemas"]["PasskeySummary"][];
            push_devices: components["schemas"]["ExportedDevice"][];
            sessions: components["schemas"]["Session"][];
            user: components["schemas"]["Me"];
        };
        /** @description A user's membership in a chat, their messages, and their updates of messages. */
        ExportedChat: {
            chat_id: components["schemas"]["ChatId"];
            /**
             * Format: date-time
             * @description When `delivered_sequence` was reached, if it is known.
             */
            delivered_at?: string;
            /** Format: int64 */
            delivered_sequence: number;
            /** Format: date-time */
            joined_at: string;
            /** @description The user's own messages, oldest first. */
            messages: components["schemas"]["Message"][];
            /**
             * Format: date-time
             * @description `null` unless the user has muted the chat.
             */
            muted_until: string | null;
            /** @description `null` for direct chats. */
            name: string | null;
            /**
             * Format: date-time
             * @description When `read_sequence` was reached, if it is known.
             */
            read_at?: string;
            /** Format: int64 */
            read_sequence: number;
            role: components["schemas"]["Role"];
            type: components["schemas"]["ChatType"];
            /** @description The user's edits, deletions and reactions, oldest first, on messages of others too. */
            updates?: components["schemas"]["UpdateBody"][];
        };
        /** @description A device with push notifications, without its push credentials. */
        ExportedDevice: {
            /** Format: uuid */
            device_id: string;
            provider: components["schemas"]["PushProvider"];
            /** Format: date-time */
            registered_at: string;
        };
        /** @description A pending invitation of a user to a group. */
        ExportedInvitation: {
            chat_id: components["schemas"]["ChatId"];
            /** Format: date-time */
            created_at: string;
            invited_by: components["schemas"]["UserId"];
        };
        /** @description A failure. */
        Failure: {
            /** @description The error. */
            error: components["schemas"]["FailureBody"];
        };
        /** @description The error, and the id of the request that failed. */
        FailureBody: components["schemas"]["ErrorBody"] & {
            /** @description The `X-Request-ID` of the response, for a report to the operator. */
            request_id: string;
        };
        /** @description Body of POST `/reports`: the reported message, user or chat, and the reason. */
        FileReport: {
            chat_id?: components["schemas"]["ChatId"] | null;
            /** @description For the operators; 1 to 1000 characters. */
            comment?: string | null;
            message_id?: components["schemas"]["MessageId"] | null;
            reason: components["schemas"]["ReportReason"];
            user_id?: components["schemas"]["UserId"] | null;
        };
        /**
         * @description The users who may add a user to a group at once. All others can only invite the user.
         * @enum {string}
         */
        GroupInvites: "everyone" | "contacts" | "nobody";
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
        /** @description An invitation of the caller to a group. */
        Invitation: {
            chat_id: components["schemas"]["ChatId"];
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            expires_at: string;
            invited_by: components["schemas"]["User"];
            /** Format: int32 */
            member_count: number;
            name: string;
        };
        /** @description The pending invitations of the caller, newest first. */
        Invitations: {
            invitations: components["schemas"]["Invitation"][];
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
        /** @description For each requested number, in order, its user or `null`. */
        LookupResults: {
            results: (components["schemas"]["User"] | null)[];
        };
        /** @description Body of POST `/chats/{chat_id}/delivered`. */
        MarkDelivered: {
            /** Format: int64 */
            last_acked_sequence: number;
        };
        /** @description Body of POST `/chats/{chat_id}/read`. */
        MarkRead: {
            /** Format: int64 */
            last_read_sequence: number;
        };
        /** @description The caller's watermarks after a `MarkDelivered` or a `MarkRead`. */
        MarkedRead: {
            chat_id: components["schemas"]["ChatId"];
            /** Format: int64 */
            delivered_sequence: number;
            /** Format: int64 */
            read_sequence: number;
        };
        /** @description A user as they see themselves. */
        Me: components["schemas"]["User"] & {
            /** @description The user's id at the identity provider; absent for users of a phone number. Other users do not see it. */
            external_id?: string;
            /** @description The users who may add the user to a group at once. Others can only invite the user. */
            group_invites: components["schemas"]["GroupInvites"];
            /** @description Absent for users who authenticate with another system's tokens. */
            phone_number?: string;
            presence_visibility: components["schemas"]["PresenceVisibility"];
            /** Format: date-time */
            updated_at: string;
        };
        /** @description A member of a chat. */
        Member: {
            display_name: string;
            /**
             * @description `true` only in the response to an addition, if the user was invited instead and is not a member. The role is then
             *     `member`, and `joined_at` the time of the invitation. Absent for members.
             */
            invited?: boolean;
            /** Format: date-time */
            joined_at: string;
            role: components["schemas"]["Role"];
            user_id: components["schemas"]["UserId"];
        };
        /** @description The watermarks of one member. */
        MemberWatermarks: {
            /**
             * Format: date-time
             * @description When `delivered_sequence` was reached; lower sequences were delivered then or earlier. Absent if the watermark has
             *     not moved since the member joined, or last moved under a release without this field.
             */
            delivered_at?: string;
            /** Format: int64 */
            delivered_sequence: number;
            /**
             * Format: date-time
             * @description When `read_sequence` was reached; as `delivered_at`.
             */
            read_at?: string;
            /** Format: int64 */
            read_sequence: number;
            user_id: components["schemas"]["UserId"];
        };
        /** @description A message as one member sees it: the `message` payload, with a status on the member's own messages. */
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
        } & {
            /** @description Present only on the caller's own messages. */
            status?: components["schemas"]["MessageStatus"];
        };
        /** @description The id of a message. */
        MessageId: string;
        /**
         * @description The delivery status of a message, derived from the watermarks of the other members (G10).
         * @enum {string}
         */
        MessageStatus: "sent" | "delivered" | "read";
        /** @description Body of POST `/chats/{chat_id}/mute`. */
        Mute: {
            /**
             * Format: uint64
             * @description Permanent if absent.
             */
            duration_seconds?: number | null;
        };
        /** @description Whether a chat is muted for the caller. */
        Muted: {
            chat_id: components["schemas"]["ChatId"];
            muted: boolean;
            /**
             * Format: date-time
             * @description Absent if the chat is not muted, or muted permanently.
             */
            muted_until?: string;
        };
        /** @description The caller's own membership in a chat. */
        MyMembership: {
            /**
             * Format: date-time
             * @description `null` if the chat is not muted; the end of the year 9999 if it is muted permanently.
             */
            muted_until: string | null;
            role: components["schemas"]["Role"];
        };
        /** @description The response to a request for a code; it does not reveal whether the number is known. */
        OtpRequested: {
            /** Format: date-time */
            expires_at: string;
            phone_number: string;
            /**
             * Format: int64
             * @description Time until another code may be requested; 0 if at once.
             */
            retry_after_seconds: number;
        };
        /** @description A success with one page of a list. */
        Paged_Blocks: {
            /** @description A page of a user's blocked users, ordered by id. */
            data: {
                blocks: components["schemas"]["User"][];
            };
            /** @description How to get the next page. */
            pagination: components["schemas"]["Pagination"];
        };
        /** @description A success with one page of a list. */
        Paged_Contacts: {
            /** @description A page of a user's contacts, ordered by id. */
            data: {
                contacts: components["schemas"]["User"][];
            };
            /** @description How to get the next page. */
            pagination: components["schemas"]["Pagination"];
        };
        /** @description A success with one page of a list. */
        Paged_History: {
            /** @description A page of a chat's messages. */
            data: {
                /** Format: int64 */
                head_sequence: number;
                messages: components["schemas"]["Message"][];
            };
            /** @description How to get the next page. */
            pagination: components["schemas"]["Pagination"];
        };
        /** @description A success with one page of a list. */
        Paged_Inbox: {
            /** @description A page of the inbox, newest activity first. */
            data: {
                chats: components["schemas"]["ChatSummary"][];
            };
            /** @description How to get the next page. */
            pagination: components["schemas"]["Pagination"];
        };
        /** @description A success with one page of a list. */
        Paged_Reactions: {
            /** @description The members who reacted to a message. */
            data: {
                chat_id: components["schemas"]["ChatId"];
                members: components["schemas"]["Reactor"][];
                /** Format: int64 */
                sequence: number;
            };
            /** @description How to get the next page. */
            pagination: components["schemas"]["Pagination"];
        };
        /** @description How a list continues. */
        Pagination: {
            /** @description Whether there is another page. */
            has_more: boolean;
            /** @description Opaque; `null` at the end of the list. */
            next_cursor: string | null;
        };
        /** @description A signature algorithm that the service accepts. */
        PasskeyAlgorithm: {
            /**
             * Format: int64
             * @description The number of the algorithm in the COSE registry.
             */
            alg: number;
            type: components["schemas"]["PublicKeyType"];
        };
        /** @description The part of the authenticator in a registration. */
        PasskeyAttestation: {
            /** @description Base64url. */
            attestationObject: string;
            /** @description Base64url. */
            clientDataJSON: string;
        };
        /** @description `AuthenticationResponseJSON`, as far as the service uses it. Other members are allowed and ignored. */
        PasskeyAuthentication: {
            /** @description Base64url. */
            id: string;
            /** @description The same as `id`. */
            rawId: string;
            response: components["schemas"]["PasskeySignature"];
            type: components["schemas"]["PublicKeyType"];
        };
        /** @description The requirements of the service for an authenticator. */
        PasskeyAuthenticatorSelection: {
            requireResidentKey: boolean;
            /** @description `required`. */
            residentKey: string;
            /** @description `required`. */
            userVerification: string;
        };
        /** @description `PublicKeyCredentialCreationOptionsJSON`: for `navigator.credentials.create`. */
        PasskeyCreationOptions: {
            /** @description `none`. */
            attestation: string;
            authenticatorSelection: components["schemas"]["PasskeyAuthenticatorSelection"];
            /** @description Base64url; valid once, for 5 minutes. */
            challenge: string;
            excludeCredentials: components["schemas"]["PasskeyDescriptor"][];
            pubKeyCredParams: components["schemas"]["PasskeyAlgorithm"][];
            rp: components["schemas"]["PasskeyRelyingParty"];
            /**
             * Format: int64
             * @description In milliseconds.
             */
            timeout: number;
            user: components["schemas"]["PasskeyUserEntity"];
        };
        /** @description A credential by its id. */
        PasskeyDescriptor: {
            /** @description Base64url. */
            id: string;
            type: components["schemas"]["PublicKeyType"];
        };
        /** @description The id of a passkey. */
        PasskeyId: string;
        /** @description `RegistrationResponseJSON`, as far as the service uses it. Other members are allowed and ignored. */
        PasskeyRegistration: {
            /** @description Base64url. */
            id: string;
            /** @description The same as `id`. */
            rawId: string;
            response: components["schemas"]["PasskeyAttestation"];
            type: components["schemas"]["PublicKeyType"];
        };
        /** @description The service as a relying party. */
        PasskeyRelyingParty: {
            id: string;
            name: string;
        };
        /** @description `PublicKeyCredentialRequestOptionsJSON`: for `navigator.credentials.get`. */
        PasskeyRequestOptions: {
            /** @description Empty: the user chooses one of their passkeys for the site. */
            allowCredentials: components["schemas"]["PasskeyDescriptor"][];
            /** @description Base64url; valid once, for 5 minutes. */
            challenge: string;
            rpId: string;
            /**
             * Format: int64
             * @description In milliseconds.
             */
            timeout: number;
            /** @description `required`. */
            userVerification: string;
        };
        /** @description The part of the authenticator in a sign-in. */
        PasskeySignature: {
            /** @description Base64url. */
            authenticatorData: string;
            /** @description Base64url. */
            clientDataJSON: string;
            /** @description Base64url. */
            signature: string;
            /** @description Base64url. A passkey has one; without it the sign-in is refused. */
            userHandle?: string | null;
        };
        /** @description A passkey of the caller. */
        PasskeySummary: {
            /** Format: date-time */
            created_at: string;
            /** @description Whether its provider has copied it to other devices. */
            is_backed_up: boolean;
            /**
             * Format: date-time
             * @description `null` before the first sign-in.
             */
            last_used_at: string | null;
            name: string;
            passkey_id: components["schemas"]["PasskeyId"];
        };
        /** @description The user, as authenticators store and show them. */
        PasskeyUserEntity: {
            displayName: string;
            /** @description Base64url. */
            id: string;
            /** @description The phone number, or else the display name. */
            name: string;
        };
        /** @description The passkeys of a user. */
        Passkeys: {
            passkeys: components["schemas"]["PasskeySummary"][];
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
        /** @description Payload of `presence_snapshot`, and the response to a presence query over REST. */
        PresenceSnapshot: {
            presences: components["schemas"]["Presence"][];
        };
        /**
         * @description The presence of a user as the reader may see it.
         * @enum {string}
         */
        PresenceStatus: "online" | "offline" | "unknown";
        /**
         * @description The audience of a user's presence.
         * @enum {string}
         */
        PresenceVisibility: "everyone" | "contacts_only" | "nobody";
        /**
         * @description The only type of credentials.
         * @enum {string}
         */
        PublicKeyType: "public-key";
        /** @description The keys of a browser's subscription, in base64url. */
        PushKeys: {
            /** @description The secret that the browser shares with this service, 16 bytes. */
            auth: string;
            /** @description The browser's public key, an uncompressed point on P-256. */
            p256dh: string;
        };
        /**
         * @description The service that delivers notifications to a device.
         * @enum {string}
         */
        PushProvider: "webhook" | "webpush";
        /**
         * @description Body of PUT `/devices/{device_id}/push`: how the device is notified of messages while its user is offline. A
         *     browser's `PushSubscription` can be sent unchanged beside `provider`.
         */
        PushRegistration: {
            /** @description For `webpush`: the address at the browser's push service. */
            endpoint?: string | null;
            keys?: components["schemas"]["PushKeys"] | null;
            provider: components["schemas"]["PushProvider"];
            /** @description For `webhook`: the device's name at the operator's service, 1 to 2048 visible ASCII characters. */
            token?: string | null;
        };
        /** @description A reaction to a message, with the number of members who have it. */
        ReactionBody: {
            /** Format: int32 */
            count: number;
            /** @description Whether the reader has it. Absent in pushes and in a sync: there the updates say who reacted. */
            mine?: boolean | null;
            reaction: string;
        };
        /** @description The members who reacted to a message. */
        Reactions: {
            chat_id: components["schemas"]["ChatId"];
            members: components["schemas"]["Reactor"][];
            /** Format: int64 */
            sequence: number;
        };
        /** @description A member who reacted, with their reactions in the order in which they added them. */
        Reactor: {
            reactions: string[];
            user_id: components["schemas"]["UserId"];
        };
        /** @description The number of members that have received and read a message. */
        Receipts: {
            chat_id: components["schemas"]["ChatId"];
            /** @description Excluding the sender. */
            delivered_count: number;
            /** @description All members, including the sender. */
            member_count: number;
            members: components["schemas"]["MemberWatermarks"][];
            /** @description Excluding the sender. */
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
         * @description The reason of a report.
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
        /** @description The number of sessions that were revoked. */
        Revoked: {
            revoked_count: number;
        };
        /**
         * @description The role of a member, which determines their permissions.
         * @enum {string}
         */
        Role: "owner" | "admin" | "member";
        /** @description Body of POST `/chats/{chat_id}/messages`: a `send_message` frame with the chat in the path. */
        SendMessage: {
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
            /** Format: int64 */
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
        /** @description Name, versions and limits of this service, GET `/api/v1`. */
        Service: {
            /** @description The content types that the service accepts. */
            content_types: string[];
            limits: components["schemas"]["ServiceLimits"];
            name: string;
            /** @description Whether users can register passkeys and sign in with them. */
            passkeys: boolean;
            /** Format: int32 */
            protocol_version: number;
            version: string;
            /** @description The key with which browsers subscribe to Web Push (`applicationServerKey`); `null` if Web Push is off. */
            web_push_public_key: string | null;
            /** @description The path of the WebSocket. */
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
            metadata_bytes_max: number;
            reaction_bytes_max: number;
            /** @description Different reactions on a message. */
            reaction_kinds_max: number;
            /** @description Reactions of a member on a message. */
            reactions_per_user_max: number;
            sync_page_max: number;
            /** Format: int64 */
            ttl_seconds_max: number;
            /**
             * Format: int64
             * @description The age in seconds up to which authors edit and delete their messages; 0 means unlimited.
             */
            update_window_seconds: number;
        };
        /** @description One login of one device. */
        Session: {
            /** Format: date-time */
            created_at: string;
            /** Format: uuid */
            device_id: string;
            /** Format: date-time */
            expires_at: string;
            /** @description Whether it is the session of this request. */
            is_current: boolean;
            /** Format: date-time */
            last_active_at: string;
            session_id: components["schemas"]["SessionId"];
        };
        /** @description The id of a session. */
        SessionId: string;
        /** @description The sessions of a user. */
        Sessions: {
            sessions: components["schemas"]["Session"][];
        };
        /** @description Body of POST `/auth/passkeys/sessions`. */
        SignInWithPasskey: {
            /** @description The `toJSON` of the credential. */
            credential: components["schemas"]["PasskeyAuthentication"];
            /**
             * Format: uuid
             * @description The device that signs in.
             */
            device_id: string;
        };
        /** @description A successful sign-in. */
        SignedIn: {
            is_new_user: boolean;
            session: components["schemas"]["Session"];
            tokens: components["schemas"]["Tokens"];
            user: components["schemas"]["Me"];
        };
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
        /** @description The tokens with which a device acts for its user. */
        Tokens: {
            access_token: string;
            /**
             * Format: int64
             * @description Seconds until the access token expires.
             */
            expires_in: number;
            /** @description Valid once. */
            refresh_token: string;
            /** @description `Bearer`. */
            token_type: string;
        };
        /** @description The next pair of tokens. */
        TokensRefreshed: {
            tokens: components["schemas"]["Tokens"];
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
        /** @description Body of PATCH `/chats/{chat_id}`; absent fields stay unchanged. */
        UpdateChat: {
            /**
             * Format: int64
             * @description Lifetime of messages that set none themselves; `null` means they never expire.
             */
            message_ttl_seconds?: number | null;
            name?: string | null;
        };
        /**
         * @description What an update did to its message. Later versions may add kinds, which clients ignore.
         * @enum {string}
         */
        UpdateKind: "edited" | "deleted" | "reacted" | "unreacted";
        /** @description Body of PATCH `/users/me`; absent fields stay unchanged. */
        UpdateMe: {
            display_name?: string | null;
            /** @enum {string|null} */
            group_invites?: "everyone" | "contacts" | "nobody" | null;
            /** @enum {string|null} */
            presence_visibility?: "everyone" | "contacts_only" | "nobody" | null;
        };
        /** @description A user as other users see them. */
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
            /** @description Display name of a new user; an existing user keeps theirs. */
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
        /** @description `CHAT_FULL`: The group has reached its member limit. `INVALID_OPERATION`: The operation does not apply to this resource or its state. */
        ChatFullOrInvalidOperation: {
            headers: {
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `CONFLICT`: The request conflicts with the current state. */
        Conflict: {
            headers: {
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `CONFLICT`: The request conflicts with the current state. `IDEMPOTENCY_KEY_REUSED`: The idempotency key was used for a different request. */
        ConflictOrIdempotencyKeyReused: {
            headers: {
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `FORBIDDEN`: The caller's role does not allow it, or the account is suspended (`details.reason`). */
        Forbidden: {
            headers: {
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `FORBIDDEN`: The caller's role does not allow it, or the account is suspended (`details.reason`). `NOT_A_MEMBER`: The caller is not a member of the chat. */
        ForbiddenOrNotAMember: {
            headers: {
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `IDEMPOTENCY_KEY_REUSED`: The idempotency key was used for a different request. */
        IdempotencyKeyReused: {
            headers: {
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `IDEMPOTENCY_KEY_REUSED`: The idempotency key was used for a different request. `ALREADY_A_MEMBER`: The user is already a member. */
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
        /** @description `INVALID_CONTENT_TYPE`: The content type is not supported. */
        InvalidContentType: {
            headers: {
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `INVALID_OPERATION`: The operation does not apply to this resource or its state. */
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
        /** @description `NOT_FOUND`: The resource does not exist. */
        NotFound: {
            headers: {
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `RATE_LIMITED`: A rate limit is exceeded; `details.limit` names it. */
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
        /** @description `SERVER_BUSY`: The server is saturated. `SERVICE_UNAVAILABLE`: A dependency of the service is unavailable. `COUNTER_MISSING`: The head sequence of the chat is missing; an operator has to repair it. */
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
        /** @description `SERVICE_UNAVAILABLE`: A dependency of the service is unavailable. */
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
        /** @description `VALIDATION_ERROR`: The request is invalid; `details.field_errors` says why. */
        ValidationError: {
            headers: {
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `VALIDATION_ERROR`: The request is invalid; `details.field_errors` says why. `CHAT_FULL`: The group has reached its member limit. `INVALID_OPERATION`: The operation does not apply to this resource or its state. */
        ValidationErrorOrChatFullOrInvalidOperation: {
            headers: {
                "X-Request-ID": components["headers"]["X-Request-ID"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description `VALIDATION_ERROR`: The request is invalid; `details.field_errors` says why. `INVALID_OPERATION`: The operation does not apply to this resource or its state. */
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
        /** @description Requests that are left. */
        "X-RateLimit-Remaining": number;
        /** @description When all requests are available again, in Unix seconds. */
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
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    passkeys: {
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
                    "application/json": components["schemas"]["Data_Passkeys"];
                };
            };
            400: components["responses"]["InvalidOperation"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    add_passkey: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AddPasskey"];
            };
        };
        responses: {
            /** @description The passkey is registered */
            201: {
                headers: {
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_PasskeySummary"];
                };
            };
            400: components["responses"]["ValidationErrorOrInvalidOperation"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["MessageTooLarge"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    passkey_challenge: {
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
                    "application/json": components["schemas"]["Data_PasskeyRequestOptions"];
                };
            };
            400: components["responses"]["InvalidOperation"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    begin_passkey: {
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
                    "application/json": components["schemas"]["Data_PasskeyCreationOptions"];
                };
            };
            400: components["responses"]["InvalidOperation"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    sign_in_with_passkey: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SignInWithPasskey"];
            };
        };
        responses: {
            /** @description The owner of the passkey is signed in */
            200: {
                headers: {
                    "X-Request-ID": components["headers"]["X-Request-ID"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Data_SignedIn"];
                };
            };
            400: components["responses"]["ValidationErrorOrInvalidOperation"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["MessageTooLarge"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    remove_passkey: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The passkey.
                 * @example pk_01K9D3F6QHZ4M8RT2VX5PASS01
                 */
                passkey_id: components["schemas"]["PasskeyId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The passkey is removed */
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
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
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
            403: components["responses"]["Forbidden"];
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
            400: components["responses"]["ValidationErrorOrInvalidOperation"];
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
            400: components["responses"]["ValidationErrorOrInvalidOperation"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
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
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    blocks: {
        parameters: {
            query?: {
                /**
                 * @description Users in the page: 100 unless given, at most 100.
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
            403: components["responses"]["Forbidden"];
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
            403: components["responses"]["Forbidden"];
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
            403: components["responses"]["Forbidden"];
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
                 * @description Chats in the page: 20 unless given, at most 100.
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
            403: components["responses"]["Forbidden"];
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
            /** @description The pair already has this chat */
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
            403: components["responses"]["ForbiddenOrNotAMember"];
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
    mark_delivered: {
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
                "application/json": components["schemas"]["MarkDelivered"];
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
            403: components["responses"]["ForbiddenOrNotAMember"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["MessageTooLarge"];
            422: components["responses"]["InvalidSequence"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServerBusyOrServiceUnavailableOrCounterMissing"];
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
            /** @description The caller is not a member any more */
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
            /** @description The user is invited and not a member */
            202: {
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
            /** @description The user is not a member any more */
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
                 * @description Messages in the page: 20 unless given, at most 100.
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
            403: components["responses"]["ForbiddenOrNotAMember"];
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
            /** @description An earlier attempt was accepted */
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
                 * @description Messages in the page: 20 unless given, at most 100.
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
                 * @description The sequence to look around.
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
            403: components["responses"]["ForbiddenOrNotAMember"];
            404: components["responses"]["NotFound"];
            422: components["responses"]["InvalidSequence"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    delete_message: {
        parameters: {
            query?: {
                /**
                 * @description The caller's id for the update, the same on every retry. Without one, the server generates one, and a retry is
                 *     another update.
                 * @example d50b8c36-7e24-4f91-a86d-29f1e3b7c045
                 */
                client_message_id?: string | null;
            };
            header?: never;
            path: {
                /**
                 * @description The chat.
                 * @example chat_01K9D36Y4MC2G8JT5XN7D1RECT
                 */
                chat_id: components["schemas"]["ChatId"];
                /**
                 * @description The sequence of the message.
                 * @example 1
                 */
                sequence: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The deletion is durable */
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
            400: components["responses"]["ValidationErrorOrInvalidOperation"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["ForbiddenOrNotAMember"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["IdempotencyKeyReused"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServerBusyOrServiceUnavailableOrCounterMissing"];
        };
    };
    edit_message: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The chat.
                 * @example chat_01K9D36Y4MC2G8JT5XN7D1RECT
                 */
                chat_id: components["schemas"]["ChatId"];
                /**
                 * @description The sequence of the message.
                 * @example 1
                 */
                sequence: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EditMessage"];
            };
        };
        responses: {
            /** @description The edit is durable */
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
    reactions: {
        parameters: {
            query?: {
                /**
                 * @description Members in the page: 20 unless given, at most 100.
                 * @example 20
                 */
                limit?: number | null;
                /** @description The `next_cursor` of the page before. */
                cursor?: string | null;
            };
            header?: never;
            path: {
                /**
                 * @description The chat.
                 * @example chat_01K9D36Y4MC2G8JT5XN7D1RECT
                 */
                chat_id: components["schemas"]["ChatId"];
                /**
                 * @description The sequence of the message.
                 * @example 2
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
                    "application/json": components["schemas"]["Paged_Reactions"];
                };
            };
            400: components["responses"]["ValidationError"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["ForbiddenOrNotAMember"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    add_reaction: {
        parameters: {
            query?: {
                /**
                 * @description The caller's id for the update, the same on every retry. Without one, the server generates one, and a retry is
                 *     another update.
                 * @example 3f6a08d1-95c2-4e7b-a0d4-57b1e2c96f83
                 */
                client_message_id?: string | null;
            };
            header?: never;
            path: {
                /**
                 * @description The chat.
                 * @example chat_01K9D36Y4MC2G8JT5XN7D1RECT
                 */
                chat_id: components["schemas"]["ChatId"];
                /**
                 * @description The sequence of the message.
                 * @example 2
                 */
                sequence: number;
                /**
                 * @description The reaction, percent-encoded: an emoji or a short code of 1 to 64 bytes in Unicode's composed form (NFC), without
                 *     spaces, and without invisible or misleading characters.
                 * @example 👍
                 */
                reaction: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The reaction is durable */
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
            400: components["responses"]["ValidationErrorOrInvalidOperation"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["ForbiddenOrNotAMember"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["ConflictOrIdempotencyKeyReused"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServerBusyOrServiceUnavailableOrCounterMissing"];
        };
    };
    remove_reaction: {
        parameters: {
            query?: {
                /**
                 * @description The caller's id for the update, the same on every retry. Without one, the server generates one, and a retry is
                 *     another update.
                 * @example a1c95e27-40d8-4b63-9f12-8e6d73b0f54c
                 */
                client_message_id?: string | null;
            };
            header?: never;
            path: {
                /**
                 * @description The chat.
                 * @example chat_01K9D36Y4MC2G8JT5XN7D1RECT
                 */
                chat_id: components["schemas"]["ChatId"];
                /**
                 * @description The sequence of the message.
                 * @example 2
                 */
                sequence: number;
                /**
                 * @description The reaction, percent-encoded: an emoji or a short code of 1 to 64 bytes in Unicode's composed form (NFC), without
                 *     spaces, and without invisible or misleading characters.
                 * @example 👍
                 */
                reaction: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The removal is durable */
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
            400: components["responses"]["ValidationErrorOrInvalidOperation"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["ForbiddenOrNotAMember"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["IdempotencyKeyReused"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServerBusyOrServiceUnavailableOrCounterMissing"];
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
            403: components["responses"]["ForbiddenOrNotAMember"];
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
            403: components["responses"]["ForbiddenOrNotAMember"];
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
                 * @description The sequence of the message; the last one unless given.
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
            403: components["responses"]["ForbiddenOrNotAMember"];
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
            403: components["responses"]["ForbiddenOrNotAMember"];
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
                 * @description Contacts in the page: 100 unless given, at most 100.
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
            403: components["responses"]["Forbidden"];
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
            403: components["responses"]["Forbidden"];
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
            /** @description The user is not a contact of the caller */
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
            403: components["responses"]["Forbidden"];
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
            /** @description The device is registered */
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
            403: components["responses"]["Forbidden"];
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
            /** @description The device is not registered */
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
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    invitations: {
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
                    "application/json": components["schemas"]["Data_Invitations"];
                };
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    decline_invitation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The chat.
                 * @example chat_01K9D3D4ZXR7T2VB5NM8REGATT
                 */
                chat_id: components["schemas"]["ChatId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description There is no pending invitation */
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
            403: components["responses"]["ForbiddenOrNotAMember"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    accept_invitation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The chat.
                 * @example chat_01K9D3D4ZXR7T2VB5NM8REGATT
                 */
                chat_id: components["schemas"]["ChatId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The group */
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
            400: components["responses"]["ChatFullOrInvalidOperation"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["ForbiddenOrNotAMember"];
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
            403: components["responses"]["ForbiddenOrNotAMember"];
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
            403: components["responses"]["Forbidden"];
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
            403: components["responses"]["ForbiddenOrNotAMember"];
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
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    revoke_sessions: {
        parameters: {
            query?: {
                /**
                 * @description Whether the session of this request ends too.
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
            403: components["responses"]["Forbidden"];
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
            403: components["responses"]["Forbidden"];
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
            403: components["responses"]["Forbidden"];
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
            403: components["responses"]["Forbidden"];
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
            /** @description The account is deleted; its remaining data follows */
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
            403: components["responses"]["Forbidden"];
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
            400: components["responses"]["ValidationErrorOrInvalidOperation"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
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
            403: components["responses"]["Forbidden"];
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
            403: components["responses"]["Forbidden"];
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
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
}
