use async_trait::async_trait;
use domain::{
    CodeAttempt, CodeDevice, CodeDigest, DeviceId, PendingCode, PhoneNumber, RefreshAttempt, RefreshOutcome, Session,
    SessionId, Timestamp, UserId,
};

use crate::{BoxError, StoreError};

/// Keeps login sessions. A missing or expired session authorizes nothing, so deleting a session revokes it. When a
/// session ends, the registration of its device in [`PushDeviceStore`](crate::PushDeviceStore) ends too, unless a new
/// session of the same device replaces it.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Stores a new session. Earlier sessions of the same device and user end; the call returns their ids.
    async fn create(&self, session: Session) -> Result<Vec<SessionId>, StoreError>;

    /// One session, if it exists and has not expired.
    async fn session(&self, session_id: SessionId, now: Timestamp) -> Result<Option<Session>, StoreError>;

    /// All unexpired sessions of a user, oldest first.
    async fn sessions(&self, user_id: UserId, now: Timestamp) -> Result<Vec<Session>, StoreError>;

    /// Decides a refresh by `Session::refresh` and writes the outcome, in one transaction. A rotated session is stored;
    /// a session with a reused token is deleted. `None` if the session does not exist.
    async fn refresh(
        &self,
        session_id: SessionId,
        attempt: RefreshAttempt,
    ) -> Result<Option<(Session, RefreshOutcome)>, StoreError>;

    /// Deletes sessions of a user and returns the ids of those that existed.
    async fn revoke(&self, user_id: UserId, session_ids: &[SessionId]) -> Result<Vec<SessionId>, StoreError>;
}

/// A keyed digest of a phone number: the key of its one-time code.
pub type PhoneKey = [u8; 32];

/// Keeps one-time codes as digests.
#[async_trait]
pub trait CodeStore: Send + Sync {
    /// Stores a new code by `OneTimeCode::issue`, replacing any earlier one; a lock and used tries stay.
    async fn issue(&self, phone: PhoneKey, code: PendingCode) -> Result<(), StoreError>;

    /// Tries a code by `OneTimeCode::attempt` and writes the outcome, in one transaction. Every concurrent attempt is
    /// counted, and at most one of them is correct. Digests are compared in constant time.
    async fn attempt(
        &self,
        phone: PhoneKey,
        digest: CodeDigest,
        device: CodeDevice,
        now: Timestamp,
    ) -> Result<CodeAttempt, StoreError>;
}

/// The identity that a ticket stands for; a client opens a WebSocket with a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The user.
    pub user_id: UserId,
    /// The session; absent for users of an external identity provider.
    pub session_id: Option<SessionId>,
    /// The session's device, if there is a session.
    pub device_id: Option<DeviceId>,
    /// The expiry time of the token that the ticket was issued for. The connection closes then.
    pub token_expires_at: Timestamp,
    /// The expiry time of the ticket itself.
    pub expires_at: Timestamp,
}

/// Keeps single-use tickets for a few seconds. Tickets may be lost at any moment; the client requests a new one.
#[async_trait]
pub trait TicketStore: Send + Sync {
    /// Stores a ticket under the digest of its text.
    async fn put(&self, digest: [u8; 32], ticket: Ticket) -> Result<(), StoreError>;

    /// Removes and returns a ticket, if it exists and has not expired. Of concurrent callers, one gets it.
    async fn take(&self, digest: [u8; 32], now: Timestamp) -> Result<Option<Ticket>, StoreError>;

    /// Marks a challenge as spent, by its digest, until it expires. Returns `false` if it was spent before: of concurrent
    /// callers, in any process, one gets `true`.
    ///
    /// A mark is never displaced by another. A full store fails. A store that has lost its earlier marks refuses
    /// challenges from before its start, if it knows when that was.
    async fn spend(&self, challenge: SpentChallenge) -> Result<bool, StoreError>;
}

/// A challenge that was answered with a valid signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpentChallenge {
    /// The digest of the challenge.
    pub digest: [u8; 32],
    /// The time at which it was issued.
    pub issued_at: Timestamp,
    /// The time from which on it is refused anyway.
    pub expires_at: Timestamp,
}

/// A one-time code could not be sent.
#[derive(Debug, thiserror::Error)]
#[error("the one-time code could not be sent")]
pub struct OtpError(#[source] pub BoxError);

/// Sends one-time codes to phones.
#[async_trait]
pub trait OtpSender: Send + Sync {
    /// Sends `code` to a phone. Returns when the provider has accepted it.
    async fn send(&self, phone_number: &PhoneNumber, code: &str, expires_at: Timestamp) -> Result<(), OtpError>;
}
