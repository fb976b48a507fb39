//! The bounds of the contract, each stated once.

use std::time::Duration;

/// Bytes of content in one message, at the most.
pub const CONTENT_BYTES_MAX: usize = 4096;
/// Bytes of one WebSocket frame and of one REST body, at the most.
pub const FRAME_BYTES_MAX: usize = 64 * 1024;
/// Characters of a `request_id`, at the most.
pub const REQUEST_ID_CHARS_MAX: usize = 64;
/// Members of a group, at the most.
pub const GROUP_MEMBERS_MAX: usize = 1000;
/// Characters of a user's display name, at the most.
pub const DISPLAY_NAME_CHARS_MAX: usize = 64;
/// Characters of a group's name, at the most.
pub const CHAT_NAME_CHARS_MAX: usize = 128;
/// Characters of the preview of a chat's last message, at the most.
pub const PREVIEW_CHARS_MAX: usize = 100;
/// Messages in a sync page unless the client asks otherwise.
pub const SYNC_PAGE_DEFAULT: usize = 100;
/// Messages in a sync page, at the most.
pub const SYNC_PAGE_MAX: usize = 500;
/// Bytes of content in a sync page, at the most.
pub const SYNC_PAGE_BYTES_MAX: usize = 512 * 1024;
/// Messages in a page of history unless the client asks otherwise.
pub const HISTORY_PAGE_DEFAULT: usize = 20;
/// Messages in a page of history, at the most.
pub const HISTORY_PAGE_MAX: usize = 100;
/// Messages above a read watermark that an unread count looks at, at the most; further up every sequence counts.
pub const UNREAD_EXACT_MAX: usize = 1000;
/// Members of a chat whose watermarks are pushed to one another, at the most.
pub const RECEIPT_MEMBERS_MAX: usize = 100;
/// Devices of one user that are registered for notifications, at the most.
pub const PUSH_DEVICES_MAX: usize = 20;
/// Users that one user has blocked, at the most.
pub const BLOCKS_MAX: usize = 1000;
/// Characters of the comment of a report, and of what its resolution says, at the most.
pub const REPORT_TEXT_CHARS_MAX: usize = 1000;
/// Reports of one user that were filed in the last [`REPORTS_PERIOD`] and are still open, at the most.
pub const REPORTS_OPEN_MAX: usize = 20;
/// The time in which open reports of one user are counted.
pub const REPORTS_PERIOD: Duration = Duration::from_secs(24 * 3600);
/// How long a report is kept after it was resolved.
pub const REPORT_RETENTION: Duration = Duration::from_secs(90 * 24 * 3600);
/// Phone numbers in one lookup, at the most.
pub const LOOKUP_NUMBERS_MAX: usize = 100;
/// Users in one question or subscription about presence, at the most.
pub const PRESENCE_USERS_MAX: usize = 100;
/// The longest life a message may be given.
pub const TTL_MAX: Duration = Duration::from_secs(31_536_000);
/// How long a send, its event and its idempotency key are kept for retries and replay.
pub const RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);
/// How long a REST `Idempotency-Key` is remembered.
pub const REQUEST_KEY_RETENTION: Duration = Duration::from_secs(24 * 3600);
/// How long a phone stays locked after too many wrong codes.
pub const CODE_LOCKOUT: Duration = Duration::from_secs(15 * 60);
/// How long a spent refresh token is forgiven for a lost answer.
pub const REFRESH_GRACE: Duration = Duration::from_secs(10);
