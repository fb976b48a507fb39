use async_trait::async_trait;
use domain::{RestrictionChange, Restrictions, Timestamp, TooManyDeniedTokens, UserId};

use crate::StoreError;

/// Keeps the restrictions of users: suspensions, times before which credentials are invalid, and denied tokens.
///
/// A user without a row has none. Whether a user with this id exists is not checked.
///
/// [`MessageWriter`](crate::MessageWriter) refuses the sends of a suspended user. A process that shares its store with
/// others may cache restrictions, for one second at most: so long after a change, other processes may still apply the
/// earlier state. The process that made the change applies it at once.
#[async_trait]
pub trait RestrictionStore: Send + Sync {
    /// The restrictions of a user, as of this call. A cache is not used.
    async fn current_restrictions(&self, user_id: UserId) -> Result<Restrictions, StoreError>;

    /// The restrictions of a user, at most one second old.
    async fn restrictions(&self, user_id: UserId) -> Result<Restrictions, StoreError>;

    /// Decides a change by `Restrictions::apply` and writes the outcome, in one transaction. Returns the restrictions
    /// after it. A refused change has no effect.
    async fn restrict(
        &self,
        user_id: UserId,
        change: RestrictionChange,
        now: Timestamp,
    ) -> Result<Result<Restrictions, TooManyDeniedTokens>, StoreError>;
}
