use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{ChatId, Timestamp, UserId};
use ports::{MemberCache, StoreError};

use crate::call::{FILL_MEMBERS, SlotCommand};
use crate::client::Redis;
use crate::keys;

/// Time to live of an entry, even if it is read often. It bounds the effect of a lost invalidation.
const LIFE: Duration = Duration::from_secs(300);
/// How long an invalidated chat refuses to be filled. It is longer than any store read, so a list that was read before
/// the invalidation is discarded. Redis measures the time, because the clocks of processes may differ.
const HOLD_OFF: Duration = Duration::from_secs(10);

/// The member cache of a fleet.
///
/// A chat is one value: the expiry in 8 bytes, then the ids of all members with 16 bytes each. So a chat is replaced as
/// a whole, in the store's order. An invalidated chat is the empty value, which refuses fills while it exists. If Redis
/// loses that value, a stale list may be cached until it expires.
pub struct RedisMemberCache {
    redis: Redis,
}

impl RedisMemberCache {
    /// The member cache in this Redis.
    pub fn new(redis: Redis) -> Self {
        Self { redis }
    }
}

#[async_trait]
impl MemberCache for RedisMemberCache {
    async fn members(&self, chat_id: ChatId) -> Result<Option<Arc<[UserId]>>, StoreError> {
        let value: Option<Vec<u8>> = self.redis.run_one(SlotCommand::new("GET", &keys::chat_members(chat_id))).await?;
        Ok(value.and_then(|value| live_members(&value, self.redis.now())))
    }

    async fn fill(&self, chat_id: ChatId, members: Arc<[UserId]>) -> Result<(), StoreError> {
        let value = encode(self.redis.now() + LIFE, &members);
        let call = FILL_MEMBERS.call([&keys::chat_members(chat_id)]).arg(value).arg(LIFE.as_millis() as u64);
        self.redis.run_one(call).await
    }

    async fn invalidate(&self, chat_id: ChatId) -> Result<(), StoreError> {
        let call = SlotCommand::new("SET", &keys::chat_members(chat_id)).arg("");
        self.redis.run_one(call.arg("PX").arg(HOLD_OFF.as_millis() as u64)).await
    }
}

/// The members in a cached value, unless it has expired. A value that does not decode counts as missing: the caller
/// reads the store and fills the cache again.
pub(crate) fn live_members(value: &[u8], now: Timestamp) -> Option<Arc<[UserId]>> {
    decode(value).filter(|(expires_at, _)| *expires_at > now).map(|(_, members)| members)
}

fn encode(expires_at: Timestamp, members: &[UserId]) -> Vec<u8> {
    let mut value = Vec::with_capacity(8 + 16 * members.len());
    value.extend(expires_at.as_millis().to_be_bytes());
    value.extend(members.iter().flat_map(|user_id| user_id.to_bytes()));
    value
}

/// Also `None` for an empty list: no chat is filled without members, so such a value is damaged.
fn decode(value: &[u8]) -> Option<(Timestamp, Arc<[UserId]>)> {
    let (expires_at, members) = value.split_first_chunk()?;
    let (members, rest) = members.as_chunks();
    let members: Arc<[UserId]> = members.iter().copied().map(UserId::from_bytes).collect();
    (rest.is_empty() && !members.is_empty()).then(|| (Timestamp::from_millis(u64::from_be_bytes(*expires_at)), members))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_members_are_not_known_members() {
        assert_eq!(decode(&encode(Timestamp::from_millis(1), &[])), None);
    }

    proptest! {
        #[test]
        fn members_round_trip(expires_at in 0u64..1 << 47, ids in proptest::collection::vec(any::<[u8; 16]>(), 1..9)) {
            let members: Vec<UserId> = ids.into_iter().map(UserId::from_bytes).collect();
            let expires_at = Timestamp::from_millis(expires_at);
            prop_assert_eq!(decode(&encode(expires_at, &members)), Some((expires_at, members.into())));
        }

        #[test]
        fn any_bytes_are_members_or_not_known(value in proptest::collection::vec(any::<u8>(), 0..99)) {
            let members = decode(&value).map(|(_, members)| members.len());
            prop_assert_eq!(members, (value.len() > 8 && value.len() % 16 == 8).then_some(value.len() / 16));
        }
    }
}
