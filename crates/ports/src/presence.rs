use async_trait::async_trait;
use domain::{OnlineStatus, PresenceView, Timestamp, UserId};

use crate::{GatewayId, StoreError};

/// A user who came online or went offline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresenceTransition {
    /// The user.
    pub user_id: UserId,
    /// The current state of the user.
    pub standing: OnlineStatus,
    /// Whether the state differs from the last announced one. If not, the user changed and changed back before an
    /// announcement. A subscriber that queried presence in between may still hold the intermediate state.
    pub is_change: bool,
    /// The adapter's token of this claim.
    pub claim: u64,
}

/// The result of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepResult {
    /// The number of deleted routes.
    pub deleted: usize,
    /// The number of remaining routes of dead gateways.
    pub remaining: usize,
}

/// Presence changes of users, derived from their routes.
///
/// A user becomes due when their first route is registered, and when their last route is unregistered or swept. `claim`
/// reads the current state from the routes. A user who went offline and came back before the claim is therefore not a
/// change.
///
/// Each transition is given to one claimant, however many processes claim. A claim holds for 10 s. A transition that is
/// not settled by then is given out again, so the crash of a claimant delays an announcement and loses none. During a
/// claim, no other process is given the same user; if the user changes meanwhile, they are due again when the claim is
/// settled. The pending transitions may be lost together with the routes: presence is never more durable than routes
/// are.
#[async_trait]
pub trait PresenceTransitions: Send + Sync {
    /// Claims up to `limit` due users, the longest due first.
    async fn claim(&self, limit: usize) -> Result<Vec<PresenceTransition>, StoreError>;

    /// The time at which each user without a route lost their last one, in the order of the arguments, in one round
    /// trip. `None` for a user with a route, and after the store has forgotten the time.
    async fn offline_since(&self, user_ids: &[UserId]) -> Result<Vec<Option<Timestamp>>, StoreError>;

    /// Marks transitions as announced.
    async fn settle(&self, announced: &[PresenceTransition]) -> Result<(), StoreError>;

    /// Deletes up to `limit` routes of gateways without a live heartbeat. A user who loses their last route counts as
    /// offline since the last heartbeat of that gateway. Any number of processes may sweep at once. A gateway that
    /// comes back during a sweep keeps every route that it has written since.
    async fn sweep(&self, limit: usize) -> Result<SweepResult, StoreError>;
}

/// A query of one user for the presence of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PresenceLookup {
    /// The user who asks.
    pub viewer: UserId,
    /// The user whose presence is asked for.
    pub user_id: UserId,
}

/// Answers presence queries.
#[async_trait]
pub trait PresenceReader: Send + Sync {
    /// The presence that each viewer sees, in the order of the arguments. Privacy settings are read from the store on
    /// every call. The call fails while routes are unavailable: an outage must not show online users as offline.
    async fn lookup(&self, lookups: &[PresenceLookup]) -> Result<Vec<PresenceView>, StoreError>;
}

/// A change of the visible presence of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresenceUpdate {
    /// The user.
    pub user_id: UserId,
    /// The presence that the recipients see now; each of them is allowed to.
    pub view: PresenceView,
    /// The users who receive the change without a subscription.
    pub recipients: Vec<UserId>,
}

/// Notifies gateways of presence changes. Best effort: a client that misses a change sees it with its next query.
#[async_trait]
pub trait PresenceNotifier: Send + Sync {
    /// Asks a gateway to push the changes to their recipients, and to query presence again for each subscriber of the
    /// user on that gateway. The query evaluates privacy for each subscriber separately.
    async fn notify(&self, gateway: &GatewayId, updates: Vec<PresenceUpdate>) -> Result<(), StoreError>;
}

/// Keeps the time at which each user was last seen.
#[async_trait]
pub trait LastSeenStore: Send + Sync {
    /// Moves the last-seen time of each user forward, never back. Users who do not exist are skipped.
    async fn update_last_seen(&self, users: &[(UserId, Timestamp)]) -> Result<(), StoreError>;
}
