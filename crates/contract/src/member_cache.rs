//! Tests of [`MemberCache`].

use std::sync::Arc;
use std::time::Duration;

use domain::UserId;

use super::Timed;
use super::fixtures::{WORKS, fresh};
use ports::MemberCache;

/// The cache returns the last filled list, for its own chat only.
pub async fn members_are_remembered_as_filled(cache: Timed<dyn MemberCache>) {
    let chat_id = fresh();
    assert_eq!(cache.port.members(chat_id).await.expect(WORKS), None);
    for members in [new_members(2), new_members(1000)] {
        cache.port.fill(chat_id, members.clone()).await.expect(WORKS);
        assert_eq!(cache.port.members(chat_id).await.expect(WORKS), Some(members));
    }
    assert_eq!(cache.port.members(fresh()).await.expect(WORKS), None);
}

/// An invalidation drops the entry of its chat and no other.
pub async fn an_invalidated_chat_is_forgotten(cache: Timed<dyn MemberCache>) {
    let (changed, unchanged, members) = (fresh(), fresh(), new_members(3));
    for chat_id in [changed, unchanged] {
        cache.port.fill(chat_id, members.clone()).await.expect(WORKS);
    }
    cache.port.invalidate(changed).await.expect(WORKS);
    assert_eq!(cache.port.members(changed).await.expect(WORKS), None);
    assert_eq!(cache.port.members(unchanged).await.expect(WORKS), Some(members));
}

/// An entry expires after 300 s, however often it is read, so that the store is read again.
pub async fn members_are_forgotten_with_time(cache: Timed<dyn MemberCache>) {
    let (chat_id, members) = (fresh(), new_members(3));
    cache.port.fill(chat_id, members.clone()).await.expect(WORKS);
    (cache.pass)(Duration::from_millis(299_999));
    assert_eq!(cache.port.members(chat_id).await.expect(WORKS), Some(members));
    (cache.pass)(Duration::from_millis(1));
    assert_eq!(cache.port.members(chat_id).await.expect(WORKS), None);
}

fn new_members(len: usize) -> Arc<[UserId]> {
    (0..len).map(|_| fresh::<UserId>()).collect()
}
