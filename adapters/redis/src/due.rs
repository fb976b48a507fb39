use std::time::Duration;

use domain::{Timestamp, UserId};
use ports::StoreError;

use crate::call::{CLAIM, DUE, SETTLE};
use crate::client::Redis;
use crate::keys;

/// How long a claim holds.
const CLAIM_LIFE: Duration = Duration::from_secs(10);
/// How long the queue outlives its last use. By then nobody has worked on it for so long that it says nothing any more.
const QUEUE_LIFE: Duration = Duration::from_secs(3600);

/// The queue of users who are to be announced, one for the whole fleet.
pub(crate) struct DueUsers {
    redis: Redis,
}

/// Users who were claimed together.
pub(crate) struct Claimed {
    /// The mark of the claim.
    pub(crate) mark: u64,
    /// Those of them whose id can be read.
    pub(crate) user_ids: Vec<UserId>,
}

/// The end of a claim.
pub(crate) struct Settled {
    pub(crate) user_id: UserId,
    /// The mark of the claim.
    pub(crate) mark: u64,
    /// Whether what was announced is not so any more.
    pub(crate) has_changed: bool,
}

impl DueUsers {
    pub(crate) fn new(redis: Redis) -> Self {
        Self { redis }
    }

    /// Makes users due who have come.
    pub(crate) async fn come(&self, user_ids: &[UserId], due_at: Timestamp) -> Result<(), StoreError> {
        self.put(user_ids, due_at, "LT").await
    }

    /// Makes users due who have gone: at that time, whatever they were due for before.
    pub(crate) async fn go(&self, user_ids: &[UserId], due_at: Timestamp) -> Result<(), StoreError> {
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

    /// Takes up to `limit` users who are due. `None` if nobody is.
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
        // What is no id is nobody's, and must not keep those behind it from being announced.
        let user_ids = users.iter().filter_map(|user| user.parse().ok()).collect();
        Ok((!users.is_empty()).then_some(Claimed { mark, user_ids }))
    }

    /// Ends claims. Who has changed since is due again.
    pub(crate) async fn settle(&self, settled: &[Settled]) -> Result<(), StoreError> {
        if settled.is_empty() {
            return Ok(());
        }
        let mut settle = SETTLE
            .call([keys::PRESENCE_DUE, keys::PRESENCE_CLAIMS])
            .arg(self.redis.now().as_millis())
            .arg(QUEUE_LIFE.as_millis() as u64);
        for Settled { user_id, mark, has_changed } in settled {
            settle = settle.arg(user_id.to_string()).arg(*mark).arg(u8::from(*has_changed));
        }
        self.redis.run_one(settle).await
    }
}
