use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{ChatId, Timestamp, UserId};
use ports::{MemberCache, StoreError};

use crate::call::{Call, FILL_MEMBERS};
use crate::client::Redis;
use crate::keys;

/// How long members are remembered, however often they are asked for: the bound on what a lost invalidation costs.
const LIFE: Duration = Duration::from_secs(300);
/// How long after an invalidation nothing is remembered: longer than any read of the store may take, so that what was
/// read before it comes to nothing. Redis counts it, because processes whose clocks differ would not agree.
const HOLD_OFF: Duration = Duration::from_secs(10);

/// The member cache of a fleet.
///
/// A chat is one value: the moment at which it expires and the ids of all members, 8 and 16 bytes each. So a chat is
/// replaced whole or not at all, in the order that the store gave. A chat that was invalidated is the empty value,
/// which refuses others for as long as it lives. If Redis loses it, a list that has changed may be remembered for a
/// life.
pub struct RedisMemberCache {
    redis: Redis,
}

impl RedisMemberCache {
    /// The members that this Redis remembers.
    pub fn new(redis: Redis) -> Self {
        Self { redis }
    }
}

#[async_trait]
impl MemberCache for RedisMemberCache {
    async fn members(&self, chat_id: ChatId) -> Result<Option<Arc<[UserId]>>, StoreError> {
        let value: Option<Vec<u8>> = self.redis.run_one(Call::new("GET", &keys::chat_members(chat_id))).await?;
        // What does not decode is not known: the store is asked, and fills in what can be read.
        let remembered = value.as_deref().and_then(decode);
        Ok(remembered.filter(|(expires_at, _)| *expires_at > self.redis.now()).map(|(_, members)| members))
    }

    async fn fill(&self, chat_id: ChatId, members: Arc<[UserId]>) -> Result<(), StoreError> {
        let value = encode(self.redis.now() + LIFE, &members);
        let call = FILL_MEMBERS.call([&keys::chat_members(chat_id)]).arg(value).arg(LIFE.as_millis() as u64);
        self.redis.run_one(call).await
    }

    async fn invalidate(&self, chat_id: ChatId) -> Result<(), StoreError> {
        let call = Call::new("SET", &keys::chat_members(chat_id)).arg("");
        self.redis.run_one(call.arg("PX").arg(HOLD_OFF.as_millis() as u64)).await
    }
}

fn encode(expires_at: Timestamp, members: &[UserId]) -> Vec<u8> {
    let mut value = Vec::with_capacity(8 + 16 * members.len());
    value.extend(expires_at.as_millis().to_be_bytes());
    value.extend(members.iter().flat_map(|user_id| user_id.to_bytes()));
    value
}

/// `None` for a chat without members too: nobody has ever filled in such a chat, so it cannot be what the store has.
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
