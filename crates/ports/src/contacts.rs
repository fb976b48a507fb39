use async_trait::async_trait;
use domain::UserId;

use crate::StoreError;

/// Keeps whom each user has listed as a contact. Two who have listed each other are mutual contacts.
///
/// Reads are strongly consistent: who is taken off the list sees nothing from then on.
#[async_trait]
pub trait ContactStore: Send + Sync {
    /// Lists a contact; one that is listed stays so.
    async fn add(&self, user_id: UserId, contact_id: UserId) -> Result<(), StoreError>;

    /// Takes a contact off the list; one that is not on it stays so.
    async fn remove(&self, user_id: UserId, contact_id: UserId) -> Result<(), StoreError>;

    /// Up to `limit` contacts of a user, by id, those behind `after`.
    async fn contacts(&self, user_id: UserId, after: Option<UserId>, limit: usize) -> Result<Vec<UserId>, StoreError>;

    /// Whether the first of each pair has listed the second, in the order asked, in one round.
    async fn listed(&self, pairs: &[(UserId, UserId)]) -> Result<Vec<bool>, StoreError>;
}
