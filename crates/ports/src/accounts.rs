use async_trait::async_trait;
use domain::{Timestamp, UserId};

use crate::StoreError;

/// Decides whether the deletion of an account also erases its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageDisposition {
    /// The messages stay in their chats, under the display name of deleted accounts.
    Keep,
    /// The messages expire at once.
    Erase,
}

/// An account deletion that has begun and not yet ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingDeletion {
    /// The user to delete.
    pub user_id: UserId,
    /// Whether their messages stay.
    pub messages: MessageDisposition,
    /// The time at which the deletion began.
    pub begun_at: Timestamp,
}

/// Deletes accounts in steps; a crash may occur between any two steps.
///
/// The first transaction turns the user into a tombstone. The deletion ends once all other data of the user is deleted.
/// Until then the store keeps it as pending, so that a later run can finish it.
#[async_trait]
pub trait AccountStore: Send + Sync {
    /// Replaces the user with `User::tombstone` and records the deletion as pending, in one transaction. From then on
    /// the phone number or subject is free: the next sign-in with it creates a new user. Returns `false` if the user
    /// does not exist. If a deletion is already pending, the call changes nothing, except that `Keep` becomes `Erase`
    /// if the caller now asks for it.
    async fn begin_deletion(&self, deletion: PendingDeletion) -> Result<bool, StoreError>;

    /// The pending deletion of one account, if any.
    async fn deletion(&self, user_id: UserId) -> Result<Option<PendingDeletion>, StoreError>;

    /// Up to `count` pending deletions.
    async fn deletions(&self, count: usize) -> Result<Vec<PendingDeletion>, StoreError>;

    /// Removes the pending deletion. The tombstone stays.
    async fn end_deletion(&self, user_id: UserId) -> Result<(), StoreError>;
}
