//! Tests of [`CodeStore`](ports::CodeStore).

use std::time::Duration;

use domain::limits::CODE_LOCKOUT;
use domain::{CodeAttempt, CodeDevice, CodeDigest, PendingCode, Timestamp};

use super::ContractStores;
use super::fixtures::{WORKS, at_once, now};
use ports::PhoneKey;

const PHONE: PhoneKey = [1; 32];
const RIGHT: [u8; 32] = [2; 32];
const WRONG: [u8; 32] = [3; 32];
const TRIES: u32 = 5;

/// The right code is accepted once, and for its own phone only.
pub async fn a_code_is_spent_by_its_use(stores: ContractStores) {
    issue(&stores, RIGHT).await;
    let other_phone = stores.codes.attempt([9; 32], RIGHT, CodeDevice::Unknown, now()).await.expect(WORKS);
    assert_eq!(other_phone, CodeAttempt::Wrong);
    assert_eq!(attempt(&stores, RIGHT).await, CodeAttempt::Correct);
    assert_eq!(attempt(&stores, RIGHT).await, CodeAttempt::Wrong);
}

/// A new code replaces the earlier one.
pub async fn a_new_code_replaces_the_earlier_one(stores: ContractStores) {
    issue(&stores, [7; 32]).await;
    issue(&stores, RIGHT).await;
    assert_eq!(attempt(&stores, [7; 32]).await, CodeAttempt::Wrong);
    assert_eq!(attempt(&stores, RIGHT).await, CodeAttempt::Correct);
}

/// A code is wrong from the millisecond at which it expires.
pub async fn an_expired_code_is_wrong(stores: ContractStores) {
    let expires_at = now() + Duration::from_secs(300);
    for (at, expected) in
        [(expires_at, CodeAttempt::Wrong), (expires_at.minus(Duration::from_millis(1)), CodeAttempt::Correct)]
    {
        stores.codes.issue(PHONE, pending(RIGHT, expires_at)).await.expect(WORKS);
        assert_eq!(stores.codes.attempt(PHONE, RIGHT, CodeDevice::Unknown, at).await.expect(WORKS), expected);
    }
}

/// Every concurrent wrong attempt is counted; the last allowed one invalidates the code and locks the phone.
pub async fn concurrent_wrong_tries_lock_the_phone(stores: ContractStores) {
    issue(&stores, RIGHT).await;
    let tries = at_once((0..TRIES).map(|_| {
        let stores = stores.clone();
        async move { attempt(&stores, WRONG).await }
    }))
    .await;
    assert!(tries.iter().all(|outcome| *outcome == CodeAttempt::Wrong), "{tries:?}");
    assert!(matches!(attempt(&stores, RIGHT).await, CodeAttempt::Locked { .. }));
}

/// Of concurrent right attempts, one is correct.
pub async fn of_concurrent_right_tries_one_is_correct(stores: ContractStores) {
    issue(&stores, RIGHT).await;
    let tries = at_once((0..4).map(|_| {
        let stores = stores.clone();
        async move { attempt(&stores, RIGHT).await }
    }))
    .await;
    assert_eq!(tries.iter().filter(|outcome| **outcome == CodeAttempt::Correct).count(), 1);
}

/// A lock stays when a new code is issued, and ends after its time.
pub async fn a_lock_stays_when_a_new_code_is_issued(stores: ContractStores) {
    let (start, expires_at) = (now(), now() + 2 * CODE_LOCKOUT);
    stores.codes.issue(PHONE, pending(RIGHT, expires_at)).await.expect(WORKS);
    for _ in 0..TRIES {
        stores.codes.attempt(PHONE, WRONG, CodeDevice::Unknown, start).await.expect(WORKS);
    }
    stores.codes.issue(PHONE, pending(RIGHT, expires_at)).await.expect(WORKS);
    let until = start + CODE_LOCKOUT;
    let while_locked = stores.codes.attempt(PHONE, RIGHT, CodeDevice::Unknown, start).await.expect(WORKS);
    assert_eq!(while_locked, CodeAttempt::Locked { until });
    assert_eq!(
        stores.codes.attempt(PHONE, RIGHT, CodeDevice::Unknown, until).await.expect(WORKS),
        CodeAttempt::Correct
    );
}

/// A lock does not apply to a known device.
pub async fn a_known_device_passes_a_lock(stores: ContractStores) {
    issue(&stores, RIGHT).await;
    for _ in 0..TRIES {
        attempt(&stores, WRONG).await;
    }
    issue(&stores, RIGHT).await;
    assert!(matches!(attempt(&stores, RIGHT).await, CodeAttempt::Locked { .. }));
    let known = stores.codes.attempt(PHONE, RIGHT, CodeDevice::Known, now()).await.expect(WORKS);
    assert_eq!(known, CodeAttempt::Correct);
}

/// A new code does not renew the tries of the earlier one.
pub async fn a_new_code_does_not_renew_the_tries(stores: ContractStores) {
    issue(&stores, RIGHT).await;
    for _ in 1..TRIES {
        attempt(&stores, WRONG).await;
    }
    issue(&stores, RIGHT).await;
    assert_eq!(attempt(&stores, WRONG).await, CodeAttempt::Wrong);
    assert!(matches!(attempt(&stores, RIGHT).await, CodeAttempt::Locked { .. }));
}

async fn issue(stores: &ContractStores, digest: [u8; 32]) {
    stores.codes.issue(PHONE, pending(digest, now() + Duration::from_secs(300))).await.expect(WORKS);
}

async fn attempt(stores: &ContractStores, digest: [u8; 32]) -> CodeAttempt {
    stores.codes.attempt(PHONE, digest, CodeDevice::Unknown, now()).await.expect(WORKS)
}

fn pending(digest: CodeDigest, expires_at: Timestamp) -> PendingCode {
    PendingCode { digest, expires_at, tries_left: TRIES }
}
