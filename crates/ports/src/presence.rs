use async_trait::async_trait;
use domain::{PresenceView, Standing, Timestamp, UserId};

use crate::{GatewayId, StoreError};

/// A user who has come or gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Who.
    pub user_id: UserId,
    /// Whether they are there now.
    pub standing: Standing,
    /// Whether others were told otherwise. If not, they went and came back, or came and went, before anybody was told; but
    /// whoever looked at them meanwhile has seen it.
    pub is_news: bool,
    /// The adapter's mark of this claim.
    pub claim: u64,
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Routes that were forgotten.
    pub forgotten: usize,
    /// Routes of dead gateways that are still there.
    pub left: usize,
}

/// The comings and goings of users, as their routes show them.
///
/// A user becomes due when their first route is registered and when their last one is unregistered or swept. Whether
/// they are online is what the routes say when they are claimed, so somebody who goes and comes back in between is no
/// news.
///
/// Each transition is given to one claimant, however many processes claim. A claim holds for 10 s; what is not settled
/// by then is given out again, so that the death of a claimant delays an announcement and loses none. In that time nobody
/// else is given the user: who changes meanwhile is due again when the claim is settled. All of this may be lost with the
/// routes: presence is never stronger than they are.
#[async_trait]
pub trait Transitions: Send + Sync {
    /// Takes up to `limit` users who are due, those who have waited longest first.
    async fn claim(&self, limit: usize) -> Result<Vec<Transition>, StoreError>;

    /// When those of the users who have no route any more lost their last one, in the order asked, in one round; absent for
    /// whoever has one, and where it is not remembered any more.
    async fn gone_since(&self, user_ids: &[UserId]) -> Result<Vec<Option<Timestamp>>, StoreError>;

    /// Says that transitions are announced.
    async fn settle(&self, announced: &[Transition]) -> Result<(), StoreError>;

    /// Forgets up to `limit` routes of gateways that beat no more. Whose last route it was is gone since the gateway's
    /// last beat. Any number of processes may sweep at once; a gateway that comes back meanwhile loses no route that it
    /// has written since.
    async fn sweep(&self, limit: usize) -> Result<Swept, StoreError>;
}

/// One user who looks at another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Look {
    /// Who looks.
    pub viewer: UserId,
    /// At whom.
    pub user_id: UserId,
}

/// Says what users may see of one another.
#[async_trait]
pub trait Presences: Send + Sync {
    /// What each viewer sees, in the order asked. Privacy is judged by the store, now. It fails while routes are away: nobody
    /// who was shown to be there is gone for that.
    async fn look(&self, looks: &[Look]) -> Result<Vec<PresenceView>, StoreError>;
}

/// A change of what may be seen of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresenceNews {
    /// Of whom.
    pub user_id: UserId,
    /// What the recipients see now; each of them may.
    pub view: PresenceView,
    /// Who is pushed it unasked.
    pub recipients: Vec<UserId>,
}

/// Tells gateways what has changed. Best effort: who is not told sees it when they ask.
#[async_trait]
pub trait Watchers: Send + Sync {
    /// Has a gateway push news to its recipients, and look again for everybody there who watches the user: who may see
    /// what is judged anew for each of them.
    async fn tell(&self, gateway: &GatewayId, news: Vec<PresenceNews>) -> Result<(), StoreError>;
}

/// Keeps when users were last seen.
#[async_trait]
pub trait LastSeenStore: Send + Sync {
    /// Moves the time at which each user was last seen forward, never back. Users who do not exist are passed over.
    async fn saw(&self, users: &[(UserId, Timestamp)]) -> Result<(), StoreError>;
}
