//! The limits of the wire contract, each defined once.

use std::time::Duration;

/// Maximum bytes of content per message.
pub const CONTENT_BYTES_MAX: usize = 4096;
/// Maximum bytes of the custom metadata of a message, as compact JSON.
pub const METADATA_BYTES_MAX: usize = 1024;
/// Maximum bytes of a reaction: an emoji of many code points fits.
pub const REACTION_BYTES_MAX: usize = 64;
/// Maximum different reactions on a message.
pub const REACTION_KINDS_MAX: usize = 20;
/// Maximum reactions of one member on a message.
pub const REACTIONS_PER_USER_MAX: usize = 10;
/// Maximum bytes of a WebSocket frame and of a REST body.
pub const FRAME_BYTES_MAX: usize = 64 * 1024;
/// Maximum characters of a `request_id`.
pub const REQUEST_ID_CHARS_MAX: usize = 64;
/// Maximum members of a group.
pub const GROUP_MEMBERS_MAX: usize = 1000;
/// Maximum characters of a user's display name.
pub const DISPLAY_NAME_CHARS_MAX: usize = 64;
/// Maximum characters of a group's name.
pub const CHAT_NAME_CHARS_MAX: usize = 128;
/// Maximum characters of the preview of a chat's last message.
pub const PREVIEW_CHARS_MAX: usize = 100;
/// Messages per sync page if the client names no limit.
pub const SYNC_PAGE_DEFAULT: usize = 100;
/// Maximum messages per sync page.
pub const SYNC_PAGE_MAX: usize = 500;
/// Maximum bytes of the messages of a sync page or a page of history, as JSON.
pub const SYNC_PAGE_BYTES_MAX: usize = 512 * 1024;
/// The bytes that a page counts for the other fields of a message than its body: as JSON they have at most 450.
pub const MESSAGE_FIELDS_BYTES: usize = 512;
/// The bytes that a page counts for the state of an updated message without its reactions: as JSON it has at most 130.
pub const STATE_FIELDS_BYTES: usize = 144;
/// The bytes that a page counts for a reaction besides its text: as JSON it has at most 48.
pub const REACTION_FIELDS_BYTES: usize = 64;
/// Messages per page of history if the client names no limit.
pub const HISTORY_PAGE_DEFAULT: usize = 20;
/// Maximum messages per page of history.
pub const HISTORY_PAGE_MAX: usize = 100;
/// The largest exact unread count. Beyond it, the count is a lower bound.
pub const UNREAD_EXACT_MAX: u64 = 1000;
/// Maximum messages above a read watermark that an unread count examines, the newest first.
pub const UNREAD_ROWS_MAX: usize = 2000;
/// Maximum chats with new activity since the first page of an inbox; beyond it, the cursor is too old.
pub const INBOX_NEWER_MAX: usize = 200;
/// Maximum members of a direct chat. Larger chats are groups, which blocks do not affect.
pub const DIRECT_MEMBERS_MAX: usize = 2;
/// Maximum members of a chat in which members receive each other's watermarks as pushes.
pub const RECEIPT_MEMBERS_MAX: usize = 100;
/// Maximum devices per user that are registered for notifications.
pub const PUSH_DEVICES_MAX: usize = 20;
/// Maximum passkeys per user.
pub const PASSKEYS_MAX: usize = 20;
/// Maximum bytes of the id of a WebAuthn credential (WebAuthn Level 3, 4).
pub const CREDENTIAL_ID_BYTES_MAX: usize = 1023;
/// Maximum bytes of the public key of a passkey: enough for RSA with 4096 bits.
pub const PASSKEY_KEY_BYTES_MAX: usize = 1024;
/// Lifetime of the challenge that a passkey signs.
pub const PASSKEY_CHALLENGE_LIFETIME: Duration = Duration::from_secs(300);
/// Maximum contacts per user. Concurrent additions may exceed it by a few.
pub const CONTACTS_MAX: usize = 5000;
/// Maximum users that one user can block.
pub const BLOCKS_MAX: usize = 1000;
/// Lifetime of an invitation to a group. A declined one prevents a new one to the same group for as long.
pub const INVITATION_LIFETIME: Duration = Duration::from_secs(30 * 24 * 3600);
/// Maximum pending invitations of one user.
pub const INVITATIONS_PENDING_MAX: usize = 100;
/// Maximum pending invitations of one user by the same inviter, so that one account cannot fill the user's list.
pub const INVITATIONS_PER_INVITER_MAX: usize = 10;
/// Maximum pending invitations to one group.
pub const INVITATIONS_PER_CHAT_MAX: usize = GROUP_MEMBERS_MAX;
/// Maximum declined invitations of one user that are kept.
pub const INVITATION_DECLINES_MAX: usize = 200;
/// Maximum characters of the reason of a suspension.
pub const SUSPENSION_REASON_CHARS_MAX: usize = 200;
/// Maximum unexpired tokens of a user that are denied one by one.
pub const DENIED_TOKENS_MAX: usize = 100;
/// Maximum characters of a report's comment, and of the note of its resolution.
pub const REPORT_TEXT_CHARS_MAX: usize = 1000;
/// Maximum open reports of one user that were filed in the last [`REPORTS_PERIOD`].
pub const REPORTS_OPEN_MAX: usize = 20;
/// The period over which open reports of one user are counted.
pub const REPORTS_PERIOD: Duration = Duration::from_secs(24 * 3600);
/// Retention time of a report after its resolution.
pub const REPORT_RETENTION: Duration = Duration::from_secs(90 * 24 * 3600);
/// Maximum phone numbers per lookup.
pub const LOOKUP_NUMBERS_MAX: usize = 100;
/// Maximum users per presence query or subscription.
pub const PRESENCE_USERS_MAX: usize = 100;
/// Maximum lifetime of a message.
pub const TTL_MAX: Duration = Duration::from_secs(31_536_000);
/// Retention time of events and send keys, for replay and retries.
pub const RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);
/// Retention time of a REST `Idempotency-Key`.
pub const REQUEST_KEY_RETENTION: Duration = Duration::from_secs(24 * 3600);
/// Lockout of a phone after too many wrong codes.
pub const CODE_LOCKOUT: Duration = Duration::from_secs(15 * 60);
/// Grace period in which one reuse of a spent refresh token is forgiven, because the response may have been lost.
pub const REFRESH_GRACE: Duration = Duration::from_secs(10);
/// Maximum valid refresh tokens of a session: those of tabs that refreshed at once, and of lost responses.
pub const TOKEN_CHAINS_MAX: usize = 4;
