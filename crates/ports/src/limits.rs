use std::net::IpAddr;

use async_trait::async_trait;
use domain::{ChatId, Quota, RateDecision, SessionId, UserId};

use crate::{PhoneKey, StoreError};

/// The kind of action that is limited, and the subject that it is counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitKey {
    /// Requests of one-time codes for a phone.
    OtpRequestPhone(PhoneKey),
    /// Requests of one-time codes from an IP address.
    OtpRequestIp(IpAddr),
    /// Requests of one-time codes for the numbers of a country calling code.
    OtpRequestCountry(u16),
    /// All requests of one-time codes.
    OtpRequestTotal,
    /// Wrong one-time codes for a phone.
    OtpVerifyPhone(PhoneKey),
    /// Wrong one-time codes from an IP address.
    OtpVerifyIp(IpAddr),
    /// Challenges for sign-ins with a passkey from an IP address.
    PasskeyChallengeIp(IpAddr),
    /// Refused sign-ins with a passkey from an IP address.
    PasskeyVerifyIp(IpAddr),
    /// Registrations of passkeys that a user begins.
    PasskeyRegistration(UserId),
    /// Token refreshes of a session.
    Refresh(SessionId),
    /// Refreshes with a token that names a session and does not prove that it was issued for it. A session id is not
    /// secret, so these must not use up the refreshes of the session.
    UnprovenRefresh(SessionId),
    /// REST reads of a user.
    RestRead(UserId),
    /// REST writes of a user.
    RestWrite(UserId),
    /// Phone numbers that a user looks up.
    LookupNumbers(UserId),
    /// New connections of a user.
    ConnectionsNew(UserId),
    /// Messages that a user sends to a chat.
    SendPerChat(UserId, ChatId),
    /// Messages that a user sends to any chat.
    SendPerUser(UserId),
    /// Sync requests of a user.
    Sync(UserId),
    /// Typing signals of a user in a chat.
    Typing(UserId, ChatId),
    /// Typing signals of a user in all chats.
    TypingPerUser(UserId),
    /// Exports of a user's account.
    Export(UserId),
    /// Groups that a user creates.
    GroupsCreated(UserId),
    /// Members that a user adds to groups.
    MembersAdded(UserId),
    /// Kibibytes of messages that a user sends.
    MessageKib(UserId),
    /// Messages of all users. Processes take mebibytes of it, and spend them on single messages.
    MessageTotal,
}

/// Rate limits that all processes share.
///
/// Best effort: the limiter may lose its state, and then allows more for a while. A key needs memory only while its
/// bucket is not full.
#[async_trait]
pub trait RateLimiter: Send + Sync {
    /// Takes from several buckets of one user if each of them allows it, and from none otherwise: a refused request costs
    /// nothing. It is atomic and one round trip. `Quota::decide_all` has the rule, and the decisions are in the order of
    /// the arguments. The keys must differ, and must all count for the same user.
    async fn take_all(&self, takes: &[(LimitKey, Quota)]) -> Result<Vec<RateDecision>, StoreError>;

    /// Takes the weight of `quota` from the bucket of `key` if `Quota::decide` allows it, atomically.
    async fn take(&self, key: LimitKey, quota: Quota) -> Result<RateDecision, StoreError> {
        let decisions = self.take_all(&[(key, quota)]).await?;
        decisions.first().copied().ok_or_else(|| StoreError::unavailable("the rate limiter made no decision"))
    }
}
