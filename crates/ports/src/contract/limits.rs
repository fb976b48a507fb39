//! What [`RateLimiter`] promises.

use std::time::Duration;

use domain::{Decision, Quota, UserId};

use super::Timed;
use super::fixtures::{WORKS, at_once, fresh};
use crate::{LimitKey, RateLimiter};

/// A burst is taken at once; then one for each interval that passes, as the refusal says.
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

/// A bucket that was left alone is full again, and no fuller than that.
pub async fn an_unused_bucket_is_full_and_no_fuller(limits: Timed<dyn RateLimiter>) {
    let key = LimitKey::SendPerUser(fresh::<UserId>());
    take(&limits, key).await;
    (limits.pass)(Duration::from_secs(3600));
    assert_eq!(take(&limits, key).await.remaining, 2);
}

/// Keys do not count for each other: neither other users' nor other limits of the same user.
pub async fn keys_count_for_themselves(limits: Timed<dyn RateLimiter>) {
    let (user_id, chat_id) = (fresh(), fresh());
    let keys = [
        LimitKey::SendPerUser(user_id),
        LimitKey::SendPerUser(fresh()),
        LimitKey::Sync(user_id),
        LimitKey::SendPerChat(user_id, chat_id),
        LimitKey::SendPerChat(user_id, fresh()),
        LimitKey::Typing(user_id, chat_id),
    ];
    for key in keys {
        assert_eq!(take(&limits, key).await.remaining, 2, "{key:?}");
    }
}

/// Takers at once get no more than is in the bucket.
pub async fn concurrent_takers_get_no_more_than_the_burst(limits: Timed<dyn RateLimiter>) {
    let key = LimitKey::SendPerUser(fresh::<UserId>());
    let taken = at_once((0..12).map(|_| {
        let port = limits.port.clone();
        async move { port.take(key, quota()).await.expect(WORKS).allowed }
    }))
    .await;
    assert_eq!(taken.into_iter().filter(|allowed| *allowed).count(), 3);
}

async fn take(limits: &Timed<dyn RateLimiter>, key: LimitKey) -> Decision {
    limits.port.take(key, quota()).await.expect(WORKS)
}

/// Three in each minute.
fn quota() -> Quota {
    Quota::per(3, Duration::from_secs(60)).expect("three are more than none")
}
