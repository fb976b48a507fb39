use async_trait::async_trait;
use domain::{CredentialId, Passkey, PasskeyId, PasskeyUse, UserId};

use crate::StoreError;

/// The outcome of adding a passkey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasskeyAddition {
    /// The passkey is durable, from this call or from an earlier one with the same passkey id and credential id.
    Added,
    /// A passkey of this or another user has the same credential id.
    CredentialTaken,
    /// The user has `PASSKEYS_MAX` passkeys.
    TooMany,
}

/// The outcome of recording a use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PasskeyUseOutcome {
    /// The use is durable. The passkey is as of after it.
    Recorded(Passkey),
    /// The counter has not grown (`Passkey::after`); nothing changed.
    CounterNotGrown,
    /// The passkey does not exist.
    NotFound,
}

/// Keeps the passkeys of users.
///
/// A write is durable before the call returns, and later reads of any process see it. Credential ids are unique across all
/// users: of two concurrent additions with the same one, one succeeds. Concurrent additions of one user may exceed
/// `PASSKEYS_MAX` by a few. An addition and its unique credential id are one transaction, and so is a removal. A removed
/// credential id is free for a new passkey.
#[async_trait]
pub trait PasskeyStore: Send + Sync {
    /// Stores a new passkey.
    async fn add(&self, passkey: Passkey) -> Result<PasskeyAddition, StoreError>;

    /// The passkey with a credential id, if any.
    async fn by_credential(&self, credential_id: &CredentialId) -> Result<Option<Passkey>, StoreError>;

    /// The passkeys of a user, oldest first.
    async fn passkeys(&self, user_id: UserId) -> Result<Vec<Passkey>, StoreError>;

    /// Removes a passkey of a user; `false` if the user has no such passkey.
    async fn remove(&self, user_id: UserId, passkey_id: PasskeyId) -> Result<bool, StoreError>;

    /// Decides a use by `Passkey::after` and writes the outcome, in one transaction. Of concurrent uses with the same
    /// counter, which is not 0, one is recorded.
    async fn record_use(&self, credential_id: &CredentialId, used: PasskeyUse)
    -> Result<PasskeyUseOutcome, StoreError>;

    /// Removes all passkeys of a user whose account is deleted.
    async fn erase_user(&self, user_id: UserId) -> Result<(), StoreError>;
}
