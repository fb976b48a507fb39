use async_trait::async_trait;
use domain::{Timestamp, UserId};
use ulid::Ulid;
use uuid::Uuid;

use crate::StoreError;

/// The idempotency key of a REST request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestKey {
    /// The user who sent the request.
    pub user_id: UserId,
    /// The client's `Idempotency-Key`.
    pub key: Uuid,
}

/// The first response to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResponse {
    /// HTTP status.
    pub status: u16,
    /// Body.
    pub body: Vec<u8>,
}

/// The state of a request with an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// The request has no response yet. The ulid is reserved for the object that the request creates and is the same
    /// for every attempt. If an attempt crashes halfway, the next one completes it and creates nothing twice.
    Run {
        /// The reserved ulid.
        reserved: Ulid,
        /// Whether an earlier attempt was begun and may have taken effect.
        resumed: bool,
    },
    /// The request was answered; the response is replayed.
    Replay(StoredResponse),
    /// The key was used before for a different request.
    Mismatch,
}

/// Remembers REST requests by idempotency key for 24 hours (`domain::limits::REQUEST_KEY_RETENTION`).
#[async_trait]
pub trait RequestStore: Send + Sync {
    /// Looks up a request and, if it is new, durably reserves `reserve` for it.
    async fn begin(
        &self,
        key: RequestKey,
        fingerprint: [u8; 32],
        reserve: Ulid,
        now: Timestamp,
    ) -> Result<Begun, StoreError>;

    /// Stores the response for replays.
    async fn finish(&self, key: RequestKey, response: StoredResponse) -> Result<(), StoreError>;
}
