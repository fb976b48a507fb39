use async_trait::async_trait;
use domain::UserId;

use crate::StoreError;

/// Keeps the contact list of each user. Two users who have listed each other are mutual contacts.
///
/// Reads are strongly consistent: after a removal is acknowledged, presence that is visible to contacts
/// only is hidden from the removed user.
#[async_trait]
pub trait ContactStore: Send + Sync {
    /// Adds a contact; adding twice changes nothing.
    async fn add(&self, user_id: UserId, contact_id: UserId) -> Result<(), StoreError>;

    /// Removes a contact; without an entry it changes nothing.
    async fn remove(&self, user_id: UserId, contact_id: UserId) -> Result<(), StoreError>;

    /// Up to `limit` contacts of a user, by id, after `after`.
    async fn contacts(&self, user_id: UserId, after: Option<UserId>, limit: usize) -> Result<Vec<UserId>, StoreError>;

    /// Whether the first user of each pair has listed the second, in the order of the arguments, in one round trip.
    async fn listed(&self, pairs: &[(UserId, UserId)]) -> Result<Vec<bool>, StoreError>;
}
