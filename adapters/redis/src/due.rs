use std::time::Duration;

use domain::{Timestamp, UserId};
use ports::StoreError;

use crate::call::{CLAIM, DUE, SETTLE};
use crate::client::Redis;
use crate::keys;

/// How long a claim holds.
const CLAIM_LIFE: Duration = Duration::from_secs(10);
/// Time to live of the queue after its last use. A queue that was idle that long is obsolete.
const QUEUE_LIFE: Duration = Duration::from_secs(3600);

/// The queue of users with a presence change to announce, shared by the fleet.
pub(crate) struct DueUsers {
    redis: Redis,
}

/// Users who were claimed together.
pub(crate) struct Claimed {
    /// The token of the claim.
    pub(crate) mark: u64,
    /// The users with a valid id.
    pub(crate) user_ids: Vec<UserId>,
}

/// The result of a claim for one user.
pub(crate) struct SettledClaim {
    pub(crate) user_id: UserId,
    /// The token of the claim.
    pub(crate) mark: u64,
    /// Whether the presence has changed since it was announced.
    pub(crate) has_changed: bool,
}

impl DueUsers {
    pub(crate) fn new(redis: Redis) -> Self {
        Self { redis }
    }

    /// Queues users who came online. An earlier due time is kept.
    pub(crate) async fn came_online(&self, user_ids: &[UserId], due_at: Timestamp) -> Result<(), StoreError> {
        self.put(user_ids, due_at, "LT").await
    }

    /// Queues users who went offline. The new due time replaces any earlier one.
    pub(crate) async fn went_offline(&self, user_ids: &[UserId], due_at: Timestamp) -> Result<(), StoreError> {
        self.put(user_ids, due_at, "CH").await
    }

    async fn put(&self, user_ids: &[UserId], due_at: Timestamp, which: &str) -> Result<(), StoreError> {
        if user_ids.is_empty() {
            return Ok(());
        }
        let due = DUE
            .call([keys::PRESENCE_DUE, keys::PRESENCE_CLAIMS])
            .arg(QUEUE_LIFE.as_millis() as u64)
            .arg(due_at.as_millis())
            .arg(which)
            .arg(user_ids.iter().map(UserId::to_string).collect::<Vec<_>>());
        self.redis.run_one(due).await
    }

    /// Claims up to `limit` users who are due. `None` if there are none.
    pub(crate) async fn claim(&self, limit: usize) -> Result<Option<Claimed>, StoreError> {
        let now = self.redis.now();
        let mark = rand::random();
        let claim = CLAIM
            .call([keys::PRESENCE_DUE, keys::PRESENCE_CLAIMS])
            .arg(now.as_millis())
            .arg((now + CLAIM_LIFE).as_millis())
            .arg(mark)
            .arg(limit)
            .arg(QUEUE_LIFE.as_millis() as u64);
        let users: Vec<String> = self.redis.run_one(claim).await?;
        // Skips invalid ids, so that they do not block the users after them.
        let user_ids = users.iter().filter_map(|user| user.parse().ok()).collect();
        Ok((!users.is_empty()).then_some(Claimed { mark, user_ids }))
    }

    /// Ends claims. Users with a newer change are due again.
    pub(crate) async fn settle(&self, settled: &[SettledClaim]) -> Result<(), StoreError> {
        if settled.is_empty() {
            return Ok(());
        }
        let mut settle = SETTLE
            .call([keys::PRESENCE_DUE, keys::PRESENCE_CLAIMS])
            .arg(self.redis.now().as_millis())
            .arg(QUEUE_LIFE.as_millis() as u64);
        for SettledClaim { user_id, mark, has_changed } in settled {
            settle = settle.arg(user_id.to_string()).arg(*mark).arg(u8::from(*has_changed));
        }
        self.redis.run_one(settle).await
    }
}
