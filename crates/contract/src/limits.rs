//! Tests of [`RateLimiter`].

use std::time::Duration;

use domain::{Quota, RateDecision, UserId};

use super::Timed;
use super::fixtures::{WORKS, at_once, fresh};
use ports::{LimitKey, RateLimiter};

/// A burst is allowed at once, then one request per interval, at the time that the refusal names.
pub async fn a_bucket_empties_and_fills_again(limits: Timed<dyn RateLimiter>) {
    let key = LimitKey::SendPerUser(fresh::<UserId>());
    for remaining in [2, 1, 0] {
        let taken = take(&limits, key).await;
        assert_eq!((taken.allowed, taken.limit, taken.remaining), (true, 3, remaining));
    }
    let refused = take(&limits, key).await;
    assert!(!refused.allowed);
    assert_eq!((refused.retry_after, refused.reset_after), (Duration::from_secs(20), Duration::from_secs(60)));

    (limits.pass)(refused.retry_after.saturating_sub(Duration::from_millis(1)));
    assert!(!take(&limits, key).await.allowed, "a refused request takes nothing and waits for its time");
    (limits.pass)(Duration::from_millis(1));
    assert!(take(&limits, key).await.allowed);
    assert!(!take(&limits, key).await.allowed);
}

/// An unused bucket refills up to the burst and not beyond.
pub async fn an_unused_bucket_is_full_and_no_fuller(limits: Timed<dyn RateLimiter>) {
    let key = LimitKey::SendPerUser(fresh::<UserId>());
    take(&limits, key).await;
    (limits.pass)(Duration::from_secs(3600));
    assert_eq!(take(&limits, key).await.remaining, 2);
}

/// Keys are independent, both of other users and of other limits of the same user.
pub async fn keys_are_independent(limits: Timed<dyn RateLimiter>) {
    let (user_id, chat_id) = (fresh(), fresh());
    let keys = [
        LimitKey::SendPerUser(user_id),
        LimitKey::SendPerUser(fresh()),
        LimitKey::Sync(user_id),
        LimitKey::SendPerChat(user_id, chat_id),
        LimitKey::SendPerChat(user_id, fresh()),
        LimitKey::Typing(user_id, chat_id),
        LimitKey::TypingPerUser(user_id),
    ];
    for key in keys {
        assert_eq!(take(&limits, key).await.remaining, 2, "{key:?}");
    }
}

/// Concurrent callers together get no more than the burst.
pub async fn concurrent_takers_get_no_more_than_the_burst(limits: Timed<dyn RateLimiter>) {
    let key = LimitKey::SendPerUser(fresh::<UserId>());
    let taken = at_once((0..12).map(|_| {
        let port = limits.port.clone();
        async move { port.take(key, quota()).await.expect(WORKS).allowed }
    }))
    .await;
    assert_eq!(taken.into_iter().filter(|allowed| *allowed).count(), 3);
}

/// Several buckets are taken from together. If one refuses, none of them changes, and the others show their state.
pub async fn several_buckets_are_taken_from_together_or_not_at_all(limits: Timed<dyn RateLimiter>) {
    let (user_id, chat_id) = (fresh(), fresh());
    let keys = [LimitKey::SendPerUser(user_id), LimitKey::SendPerChat(user_id, chat_id)];
    take(&limits, keys[1]).await;
    let take_both = async || {
        let decisions = limits.port.take_all(&keys.map(|key| (key, quota()))).await.expect(WORKS);
        decisions.iter().map(|decision| (decision.allowed, decision.remaining)).collect::<Vec<_>>()
    };
    assert_eq!(take_both().await, [(true, 2), (true, 1)]);
    assert_eq!(take_both().await, [(true, 1), (true, 0)]);
    for _ in 0..2 {
        assert_eq!(take_both().await, [(true, 1), (false, 0)], "a refused request takes nothing");
    }
    assert_eq!(take(&limits, keys[0]).await.remaining, 0);
    (limits.pass)(Duration::from_secs(20));
    assert_eq!(take_both().await, [(true, 0), (true, 0)]);
    assert_eq!(limits.port.take_all(&[]).await.expect(WORKS), []);
}

/// Concurrent takes of several buckets together get no more than the burst of the smallest.
pub async fn concurrent_takers_of_several_buckets_get_no_more_than_the_burst(limits: Timed<dyn RateLimiter>) {
    let (user_id, chat_id) = (fresh(), fresh());
    let keys = [LimitKey::SendPerUser(user_id), LimitKey::SendPerChat(user_id, chat_id)];
    let wide = Quota::per(6, Duration::from_secs(60)).expect("six are more than none");
    let taken = at_once((0..12).map(|_| {
        let port = limits.port.clone();
        async move {
            let decisions = port.take_all(&[(keys[0], wide), (keys[1], quota())]).await.expect(WORKS);
            decisions.iter().all(|decision| decision.allowed)
        }
    }))
    .await;
    assert_eq!(taken.into_iter().filter(|allowed| *allowed).count(), 3);
    let left = limits.port.take(keys[0], wide).await.expect(WORKS);
    assert_eq!(left.remaining, 2, "the refused ones took nothing from the other bucket");
}

async fn take(limits: &Timed<dyn RateLimiter>, key: LimitKey) -> RateDecision {
    limits.port.take(key, quota()).await.expect(WORKS)
}

/// Three requests per minute.
fn quota() -> Quota {
    Quota::per(3, Duration::from_secs(60)).expect("three are more than none")
}
