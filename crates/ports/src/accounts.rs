use async_trait::async_trait;
use domain::{Timestamp, UserId};

use crate::StoreError;

/// What becomes of the messages of somebody whose account is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnMessages {
    /// They stay where they were sent, under a name that says that the account is gone.
    Keep,
    /// They expire at once.
    Erase,
}

/// The deletion of an account that has begun and has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// Whose account it is.
    pub user_id: UserId,
    /// What becomes of their messages.
    pub messages: OwnMessages,
    /// Since when.
    pub begun_at: Timestamp,
}

/// Deletes accounts, in steps that a crash may come between.
///
/// A deletion begins with one transaction, which makes the person go, and ends when everything else that was theirs is
/// gone. In between it is remembered here, for whoever finishes it.
#[async_trait]
pub trait AccountStore: Send + Sync {
    /// Makes a tombstone of a user by `User::tombstone` and remembers that the rest is to be done, in one transaction. From
    /// then on the phone number or subject is free: whoever signs in with it is a new user. `false` if there is no such user.
    /// A deletion that has begun stays as it is, but for messages that are now to be erased too.
    async fn begin_deletion(&self, deletion: Deletion) -> Result<bool, StoreError>;

    /// The deletion of one account, while it has not ended.
    async fn deletion(&self, user_id: UserId) -> Result<Option<Deletion>, StoreError>;

    /// Up to `count` deletions that have not ended.
    async fn deletions(&self, count: usize) -> Result<Vec<Deletion>, StoreError>;

    /// Says that nothing is left to be done. The tombstone stays.
    async fn end_deletion(&self, user_id: UserId) -> Result<(), StoreError>;
}
