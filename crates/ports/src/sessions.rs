use async_trait::async_trait;
use domain::{
    CodeAttempt, CodeDigest, DeviceId, PendingCode, PhoneNumber, RefreshAttempt, RefreshOutcome, Session, SessionId,
    Timestamp, UserId,
};

use crate::{BoxError, StoreError};

/// Keeps logins. A session that is not here, or expired, authorizes nothing: deleting it is revoking it. A device whose
/// session ends is no longer told of messages: its registration in [`PushDeviceStore`](crate::PushDeviceStore) ends with
/// it, unless a new session of the same device takes its place.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Keeps a new session; the sessions that the same device of the same user had before end, and are returned.
    async fn create(&self, session: Session) -> Result<Vec<SessionId>, StoreError>;

    /// One session, if it is there and not expired.
    async fn session(&self, session_id: SessionId, now: Timestamp) -> Result<Option<Session>, StoreError>;

    /// All sessions of a user that are not expired, oldest first.
    async fn sessions(&self, user_id: UserId, now: Timestamp) -> Result<Vec<Session>, StoreError>;

    /// Decides a refresh by `Session::refresh` and writes the outcome, in one transaction: a rotated session is stored,
    /// a reused one is deleted. `None` if there is no such session.
    async fn refresh(
        &self,
        session_id: SessionId,
        attempt: RefreshAttempt,
    ) -> Result<Option<(Session, RefreshOutcome)>, StoreError>;

    /// Ends sessions of a user and returns those that were there.
    async fn revoke(&self, user_id: UserId, session_ids: &[SessionId]) -> Result<Vec<SessionId>, StoreError>;
}

/// A keyed digest of a phone number: the key under which codes are kept.
pub type PhoneKey = [u8; 32];

/// Keeps one-time codes as digests.
#[async_trait]
pub trait CodeStore: Send + Sync {
    /// Keeps a new code in the place of any earlier one; a lock stays.
    async fn issue(&self, phone: PhoneKey, code: PendingCode) -> Result<(), StoreError>;

    /// Tries a code by `OneTimeCode::attempt` and writes the outcome, in one transaction: concurrent tries are counted
    /// each, and of concurrent right ones one is correct. Digests are compared in constant time.
    async fn attempt(&self, phone: PhoneKey, digest: CodeDigest, now: Timestamp) -> Result<CodeAttempt, StoreError>;
}

/// Who may open a WebSocket with a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The user.
    pub user_id: UserId,
    /// The session, for users of ours; users of another system have none.
    pub session_id: Option<SessionId>,
    /// The session's device, if there is a session.
    pub device_id: Option<DeviceId>,
    /// When the token behind the ticket expires, and with it the connection.
    pub token_expires_at: Timestamp,
    /// When the ticket itself is void.
    pub expires_at: Timestamp,
}

/// Keeps single-use tickets for some seconds. It may forget them at any moment; a client asks for another.
#[async_trait]
pub trait TicketStore: Send + Sync {
    /// Keeps a ticket under a digest of its text.
    async fn put(&self, digest: [u8; 32], ticket: Ticket) -> Result<(), StoreError>;

    /// Takes a ticket out, if it is there and not void. Of concurrent takers one gets it.
    async fn take(&self, digest: [u8; 32], now: Timestamp) -> Result<Option<Ticket>, StoreError>;
}

/// A code that did not leave the house.
#[derive(Debug, thiserror::Error)]
#[error("the one-time code could not be sent")]
pub struct OtpError(#[source] pub BoxError);

/// Sends one-time codes to people.
#[async_trait]
pub trait OtpSender: Send + Sync {
    /// Sends `code` to a phone. Returns when it is on its way.
    async fn send(&self, phone_number: &PhoneNumber, code: &str, expires_at: Timestamp) -> Result<(), OtpError>;
}
