use ports::MemberCache;
use tidings_redis::{Redis, RedisMemberCache};

use crate::engine::command;
use crate::fixtures::{World, chat, on_one_and_on_a_cluster, user};

on_one_and_on_a_cluster!(
    a_list_read_before_an_invalidation_is_not_cached_after_it,
    of_fills_and_an_invalidation_at_once_nothing_is_remembered,
    members_are_remembered_again_when_the_hold_off_is_over,
);

/// The caches of two processes.
fn caches(world: &World) -> [RedisMemberCache; 2] {
    let other = Redis::open(world.config.clone(), world.clock.clone()).unwrap();
    [world.redis.clone(), other].map(RedisMemberCache::new)
}

/// One process reads the members, the other invalidates them, and the first then fills in its stale list.
async fn a_list_read_before_an_invalidation_is_not_cached_after_it(world: World) {
    let [one, other] = caches(&world);
    let (chat_id, old) = (chat(), [user(), user()]);
    for fill_before in [false, true] {
        if fill_before {
            one.fill(chat_id, old.into()).await.unwrap();
        }
        other.invalidate(chat_id).await.unwrap();
        for cache in [&one, &other] {
            cache.fill(chat_id, old.into()).await.unwrap();
            assert_eq!(one.members(chat_id).await.unwrap(), None);
            assert_eq!(other.members(chat_id).await.unwrap(), None);
        }
    }
}

async fn of_fills_and_an_invalidation_at_once_nothing_is_remembered(world: World) {
    let [one, other] = caches(&world);
    for _ in 0..200 {
        let (chat_id, old) = (chat(), [user()]);
        let (filled, invalidated, filled_again) =
            tokio::join!(one.fill(chat_id, old.into()), other.invalidate(chat_id), one.fill(chat_id, old.into()));
        filled.and(invalidated).and(filled_again).unwrap();
        assert_eq!(one.members(chat_id).await.unwrap(), None);
    }
}

async fn members_are_remembered_again_when_the_hold_off_is_over(world: World) {
    let [one, other] = caches(&world);
    let (chat_id, new) = (chat(), [user()]);
    one.invalidate(chat_id).await.unwrap();
    let keys = world.keys("chat_members:*");
    let [(engine, key)] = &keys[..] else { panic!("{} keys", keys.len()) };
    let hold_off_ms: i64 = command(engine, &format!("PTTL {key}"));
    assert!(
        (5_000..=10_000).contains(&hold_off_ms),
        "a store read takes at most 5 s, the hold-off is {hold_off_ms} ms"
    );

    // Simulates the expiry in Redis.
    command::<()>(engine, &format!("DEL {key}"));
    other.fill(chat_id, new.into()).await.unwrap();
    assert_eq!(one.members(chat_id).await.unwrap(), Some(new.into()));
}
