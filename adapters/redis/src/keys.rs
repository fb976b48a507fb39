//! The names of everything in Redis.
//!
//! Braces are written as they stand: what is between them decides the slot of a cluster. So `user_connections:{user}`,
//! `user_servers:{user}` and `user_presence:{user}` live together and one script may touch them all, and so do the two
//! keys of the queue of presence. No other two keys do.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use domain::{ChatId, ConnectionId, UserId};
use ports::{GatewayId, LimitKey, ProcessRole};

/// The channel on which every gateway hears.
pub(crate) const REVOCATIONS: &str = "server:revoke";

/// The gateways, each scored by when its last beat holds no more. One that is past stays until its routes are swept.
pub(crate) const SERVERS: &str = "servers";

/// The users who are to be announced, each scored by when.
pub(crate) const PRESENCE_DUE: &str = "presence_due:{presence}";

/// Who of them is claimed: the mark of the claim, and behind it when the user is due next, if they changed meanwhile.
pub(crate) const PRESENCE_CLAIMS: &str = "presence_claims:{presence}";

/// A connection's user, device and gateway, since when it is there and when that was last written.
pub(crate) fn connection(connection_id: ConnectionId) -> String {
    format!("connection:{{{connection_id}}}")
}

/// A user's connections, each `CONNECTION@GATEWAY` and scored by its expiry.
pub(crate) fn user_connections(user_id: UserId) -> String {
    format!("user_connections:{{{user_id}}}")
}

/// The gateways of a user's connections, each scored by the expiry of the youngest.
pub(crate) fn user_servers(user_id: UserId) -> String {
    format!("user_servers:{{{user_id}}}")
}

/// Whether a user is online, or since when not, how many connections they have, and what of it was announced last.
pub(crate) fn user_presence(user_id: UserId) -> String {
    format!("user_presence:{{{user_id}}}")
}

/// The connections of a gateway, each scored by its expiry.
pub(crate) fn server_connections(gateway: &GatewayId) -> String {
    format!("server_connections:{{{}}}", gateway.0)
}

/// The processes of a role, each `ID ADDRESS` and scored by its expiry.
pub(crate) fn peers(role: ProcessRole) -> String {
    format!("peers:{{{role}}}")
}

/// The members of a chat, or nothing for a while after they have changed.
pub(crate) fn chat_members(chat_id: ChatId) -> String {
    format!("chat_members:{{{chat_id}}}")
}

/// A ticket for a WebSocket.
pub(crate) fn ws_ticket(digest: [u8; 32]) -> String {
    format!("ws_ticket:{{{}}}", BASE64_URL_SAFE_NO_PAD.encode(digest))
}

/// The moment at which a bucket is full again.
pub(crate) fn rate_limit(key: LimitKey) -> String {
    match key {
        LimitKey::OtpRequestPhone(phone) => {
            format!("ratelimit:otp_request_phone:{}", BASE64_URL_SAFE_NO_PAD.encode(phone))
        }
        LimitKey::OtpRequestIp(ip) => format!("ratelimit:otp_request_ip:{ip}"),
        LimitKey::OtpVerifyIp(ip) => format!("ratelimit:otp_verify_ip:{ip}"),
        LimitKey::Refresh(session_id) => format!("ratelimit:refresh:{session_id}"),
        LimitKey::RestRead(user_id) => format!("ratelimit:rest_read:{user_id}"),
        LimitKey::RestWrite(user_id) => format!("ratelimit:rest_write:{user_id}"),
        LimitKey::LookupNumbers(user_id) => format!("ratelimit:lookup_numbers:{user_id}"),
        LimitKey::ConnectionsNew(user_id) => format!("ratelimit:connections_new:{user_id}"),
        LimitKey::SendPerChat(user_id, chat_id) => format!("ratelimit:send_per_chat:{user_id}:{chat_id}"),
        LimitKey::SendPerUser(user_id) => format!("ratelimit:send_per_user:{user_id}"),
        LimitKey::Sync(user_id) => format!("ratelimit:sync:{user_id}"),
        LimitKey::Typing(user_id, chat_id) => format!("ratelimit:typing:{user_id}:{chat_id}"),
        LimitKey::Export(user_id) => format!("ratelimit:exports:{user_id}"),
    }
}

/// The channel on which one gateway hears.
pub(crate) fn deliveries(gateway: &GatewayId) -> String {
    format!("server:{{{}}}:deliver", gateway.0)
}
