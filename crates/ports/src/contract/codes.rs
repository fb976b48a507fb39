//! What [`CodeStore`](crate::CodeStore) promises.

use std::time::Duration;

use domain::limits::CODE_LOCKOUT;
use domain::{CodeAttempt, CodeDigest, PendingCode, Timestamp};

use super::Stores;
use super::fixtures::{WORKS, at_once, now};
use crate::PhoneKey;

const PHONE: PhoneKey = [1; 32];
const RIGHT: [u8; 32] = [2; 32];
const WRONG: [u8; 32] = [3; 32];
const TRIES: u32 = 5;

/// The right code is right once, and only for its phone.
pub async fn a_code_is_spent_by_its_use(stores: Stores) {
    issue(&stores, RIGHT).await;
    let other_phone = stores.codes.attempt([9; 32], RIGHT, now()).await.expect(WORKS);
    assert_eq!(other_phone, CodeAttempt::Wrong);
    assert_eq!(attempt(&stores, RIGHT).await, CodeAttempt::Correct);
    assert_eq!(attempt(&stores, RIGHT).await, CodeAttempt::Wrong);
}

/// A new code takes the place of the earlier one.
pub async fn a_new_code_replaces_the_earlier_one(stores: Stores) {
    issue(&stores, [7; 32]).await;
    issue(&stores, RIGHT).await;
    assert_eq!(attempt(&stores, [7; 32]).await, CodeAttempt::Wrong);
    assert_eq!(attempt(&stores, RIGHT).await, CodeAttempt::Correct);
}

/// A code is wrong from the millisecond it expires.
pub async fn an_expired_code_is_wrong(stores: Stores) {
    let expires_at = now() + Duration::from_secs(300);
    for (at, expected) in
        [(expires_at, CodeAttempt::Wrong), (expires_at.minus(Duration::from_millis(1)), CodeAttempt::Correct)]
    {
        stores.codes.issue(PHONE, pending(RIGHT, expires_at)).await.expect(WORKS);
        assert_eq!(stores.codes.attempt(PHONE, RIGHT, at).await.expect(WORKS), expected);
    }
}

/// Wrong tries are counted each, even at once; the last of them kills the code and locks the phone.
pub async fn concurrent_wrong_tries_lock_the_phone(stores: Stores) {
    issue(&stores, RIGHT).await;
    let tries = at_once((0..TRIES).map(|_| {
        let stores = stores.clone();
        async move { attempt(&stores, WRONG).await }
    }))
    .await;
    assert!(tries.iter().all(|outcome| *outcome == CodeAttempt::Wrong), "{tries:?}");
    assert!(matches!(attempt(&stores, RIGHT).await, CodeAttempt::Locked { .. }));
}

/// Of right tries at once one is correct.
pub async fn of_concurrent_right_tries_one_is_correct(stores: Stores) {
    issue(&stores, RIGHT).await;
    let tries = at_once((0..4).map(|_| {
        let stores = stores.clone();
        async move { attempt(&stores, RIGHT).await }
    }))
    .await;
    assert_eq!(tries.iter().filter(|outcome| **outcome == CodeAttempt::Correct).count(), 1);
}

/// A lock outlives the issue of a new code and ends by itself.
pub async fn a_lock_stays_when_a_new_code_is_issued(stores: Stores) {
    let (start, expires_at) = (now(), now() + 2 * CODE_LOCKOUT);
    stores.codes.issue(PHONE, pending(RIGHT, expires_at)).await.expect(WORKS);
    for _ in 0..TRIES {
        stores.codes.attempt(PHONE, WRONG, start).await.expect(WORKS);
    }
    stores.codes.issue(PHONE, pending(RIGHT, expires_at)).await.expect(WORKS);
    let until = start + CODE_LOCKOUT;
    let while_locked = stores.codes.attempt(PHONE, RIGHT, start).await.expect(WORKS);
    assert_eq!(while_locked, CodeAttempt::Locked { until });
    assert_eq!(stores.codes.attempt(PHONE, RIGHT, until).await.expect(WORKS), CodeAttempt::Correct);
}

async fn issue(stores: &Stores, digest: [u8; 32]) {
    stores.codes.issue(PHONE, pending(digest, now() + Duration::from_secs(300))).await.expect(WORKS);
}

async fn attempt(stores: &Stores, digest: [u8; 32]) -> CodeAttempt {
    stores.codes.attempt(PHONE, digest, now()).await.expect(WORKS)
}

fn pending(digest: CodeDigest, expires_at: Timestamp) -> PendingCode {
    PendingCode { digest, expires_at, tries_left: TRIES }
}
