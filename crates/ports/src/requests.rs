use async_trait::async_trait;
use domain::{Timestamp, UserId};
use ulid::Ulid;
use uuid::Uuid;

use crate::StoreError;

/// A REST request that its client may repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestKey {
    /// Who asks.
    pub user_id: UserId,
    /// The client's `Idempotency-Key`.
    pub key: Uuid,
}

/// An answer as it was given the first time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResponse {
    /// HTTP status.
    pub status: u16,
    /// Body.
    pub body: Vec<u8>,
}

/// Where a request with an idempotency key stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Nobody has answered it yet. The ulid is reserved for what the request creates and is the same on every try, so a
    /// try that crashed half-way is finished by the next one and creates nothing twice.
    Run {
        /// The reserved ulid.
        reserved: Ulid,
        /// Whether an earlier try was begun, and may have had its effect.
        resumed: bool,
    },
    /// It was answered.
    Replay(StoredResponse),
    /// The key came before with another request.
    Mismatch,
}

/// Remembers REST requests by idempotency key for 24 hours (`domain::limits::REQUEST_KEY_RETENTION`).
#[async_trait]
pub trait RequestStore: Send + Sync {
    /// Looks a request up and, if it is new, durably reserves `reserve` for it.
    async fn begin(
        &self,
        key: RequestKey,
        fingerprint: [u8; 32],
        reserve: Ulid,
        now: Timestamp,
    ) -> Result<Begun, StoreError>;

    /// Keeps the answer for replays.
    async fn finish(&self, key: RequestKey, response: StoredResponse) -> Result<(), StoreError>;
}
