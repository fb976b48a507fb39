use std::net::IpAddr;

use async_trait::async_trait;
use domain::{ChatId, Decision, Quota, SessionId, UserId};

use crate::{PhoneKey, StoreError};

/// What is counted, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitKey {
    /// One-time codes asked for a phone.
    OtpRequestPhone(PhoneKey),
    /// One-time codes asked from an address.
    OtpRequestIp(IpAddr),
    /// Wrong one-time codes from an address.
    OtpVerifyIp(IpAddr),
    /// Token refreshes of a session.
    Refresh(SessionId),
    /// REST reads of a user.
    RestRead(UserId),
    /// REST writes of a user.
    RestWrite(UserId),
    /// Phone numbers that a user looks up.
    LookupNumbers(UserId),
    /// New connections of a user.
    ConnectionsNew(UserId),
    /// Sends of a user into a chat.
    SendPerChat(UserId, ChatId),
    /// Sends of a user.
    SendPerUser(UserId),
    /// Sync requests of a user.
    Sync(UserId),
    /// Typing signals of a user in a chat.
    Typing(UserId, ChatId),
    /// Exports of a user's account.
    Export(UserId),
}

/// Counts how often things happen, for all processes together.
///
/// Best effort: it may forget, and then allows more for a while. Keys cost memory only while their bucket is not full.
#[async_trait]
pub trait RateLimiter: Send + Sync {
    /// Takes what the quota weighs from the bucket of `key` as `Quota::decide` allows, atomically.
    async fn take(&self, key: LimitKey, quota: Quota) -> Result<Decision, StoreError>;
}
