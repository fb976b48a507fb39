//! The names of all keys and channels in Redis.
//!
//! Braces are hash tags: in a cluster, the text between them determines the slot. So `user_connections:{user}`,
//! `user_servers:{user}` and `user_presence:{user}` share a slot and one script may use them all. So do the rate limits
//! of a user, and the two keys of the presence queue. No other keys are used together.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use domain::{ChatId, ConnectionId, UserId};
use ports::{GatewayId, LimitKey, ProcessRole};

/// The channel to which every gateway subscribes.
pub(crate) const REVOCATIONS: &str = "server:revoke";

/// The gateways, scored by the expiry of their last heartbeat. An expired gateway stays until its routes are swept.
pub(crate) const SERVERS: &str = "servers";

/// The users with a presence change to announce, scored by the due time.
pub(crate) const PRESENCE_DUE: &str = "presence_due:{presence}";

/// The claimed users: the token of the claim, followed by the next due time if the user changed meanwhile.
pub(crate) const PRESENCE_CLAIMS: &str = "presence_claims:{presence}";

/// The user, device and gateway of a connection, its connect time and the time of the last write.
pub(crate) fn connection(connection_id: ConnectionId) -> String {
    format!("connection:{{{connection_id}}}")
}

/// The connections of a user, each `CONNECTION@GATEWAY` and scored by its expiry.
pub(crate) fn user_connections(user_id: UserId) -> String {
    format!("user_connections:{{{user_id}}}")
}

/// The gateways of a user's connections, each scored by its latest expiry.
pub(crate) fn user_servers(user_id: UserId) -> String {
    format!("user_servers:{{{user_id}}}")
}

/// The presence of a user: status, last-seen time, number of connections, and the status that was last announced.
pub(crate) fn user_presence(user_id: UserId) -> String {
    format!("user_presence:{{{user_id}}}")
}

/// The connections of a gateway, scored by their expiry.
pub(crate) fn server_connections(gateway: &GatewayId) -> String {
    format!("server_connections:{{{}}}", gateway.0)
}

/// The processes of a role, each `ID ADDRESS` and scored by its expiry.
pub(crate) fn peers(role: ProcessRole) -> String {
    format!("peers:{{{role}}}")
}

/// The members of a chat; the empty value for a while after an invalidation.
pub(crate) fn chat_members(chat_id: ChatId) -> String {
    format!("chat_members:{{{chat_id}}}")
}

/// A WebSocket ticket.
pub(crate) fn ws_ticket(digest: [u8; 32]) -> String {
    format!("ws_ticket:{{{}}}", BASE64_URL_SAFE_NO_PAD.encode(digest))
}

/// The mark of a challenge that was answered.
pub(crate) fn spent_challenge(digest: [u8; 32]) -> String {
    format!("spent_challenge:{{{}}}", BASE64_URL_SAFE_NO_PAD.encode(digest))
}

/// The time at which a rate-limit bucket is full again.
pub(crate) fn rate_limit(key: LimitKey) -> String {
    match key {
        LimitKey::OtpRequestPhone(phone) => {
            format!("ratelimit:otp_request_phone:{}", BASE64_URL_SAFE_NO_PAD.encode(phone))
        }
        LimitKey::OtpRequestIp(ip) => format!("ratelimit:otp_request_ip:{ip}"),
        LimitKey::OtpRequestCountry(code) => format!("ratelimit:otp_request_country:{code}"),
        LimitKey::OtpRequestTotal => "ratelimit:otp_request_total".to_owned(),
        LimitKey::OtpVerifyPhone(phone) => {
            format!("ratelimit:otp_verify_phone:{}", BASE64_URL_SAFE_NO_PAD.encode(phone))
        }
        LimitKey::OtpVerifyIp(ip) => format!("ratelimit:otp_verify_ip:{ip}"),
        LimitKey::PasskeyChallengeIp(ip) => format!("ratelimit:passkey_challenge_ip:{ip}"),
        LimitKey::PasskeyVerifyIp(ip) => format!("ratelimit:passkey_verify_ip:{ip}"),
        LimitKey::PasskeyRegistration(user_id) => format!("ratelimit:passkey_registration:{{{user_id}}}"),
        LimitKey::Refresh(session_id) => format!("ratelimit:refresh:{session_id}"),
        LimitKey::UnprovenRefresh(session_id) => format!("ratelimit:unproven_refresh:{session_id}"),
        LimitKey::RestRead(user_id) => format!("ratelimit:rest_read:{{{user_id}}}"),
        LimitKey::RestWrite(user_id) => format!("ratelimit:rest_write:{{{user_id}}}"),
        LimitKey::LookupNumbers(user_id) => format!("ratelimit:lookup_numbers:{{{user_id}}}"),
        LimitKey::ConnectionsNew(user_id) => format!("ratelimit:connections_new:{{{user_id}}}"),
        LimitKey::SendPerChat(user_id, chat_id) => format!("ratelimit:send_per_chat:{{{user_id}}}:{chat_id}"),
        LimitKey::SendPerUser(user_id) => format!("ratelimit:send_per_user:{{{user_id}}}"),
        LimitKey::Sync(user_id) => format!("ratelimit:sync:{{{user_id}}}"),
        LimitKey::Typing(user_id, chat_id) => format!("ratelimit:typing:{{{user_id}}}:{chat_id}"),
        LimitKey::TypingPerUser(user_id) => format!("ratelimit:typing_per_user:{{{user_id}}}"),
        LimitKey::Export(user_id) => format!("ratelimit:exports:{{{user_id}}}"),
        LimitKey::GroupsCreated(user_id) => format!("ratelimit:groups_created:{{{user_id}}}"),
        LimitKey::MembersAdded(user_id) => format!("ratelimit:members_added:{{{user_id}}}"),
        LimitKey::MessageKib(user_id) => format!("ratelimit:message_kib:{{{user_id}}}"),
        LimitKey::MessageTotal => "ratelimit:message_total".to_owned(),
    }
}

/// The channel of one gateway.
pub(crate) fn deliveries(gateway: &GatewayId) -> String {
    format!("server:{{{}}}:deliver", gateway.0)
}
