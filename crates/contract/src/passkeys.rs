//! Tests of [`PasskeyStore`](ports::PasskeyStore).

use domain::limits::{CREDENTIAL_ID_BYTES_MAX, PASSKEY_KEY_BYTES_MAX, PASSKEYS_MAX};
use domain::{CredentialId, Passkey, PasskeyId, PasskeyUse, Timestamp, UserId};
use ports::{PasskeyAddition, PasskeyUseOutcome};

use super::ContractStores;
use super::fixtures::{WORKS, at_once, fresh, now};

/// An added passkey is in every read, unchanged and also at its largest; adding it again changes nothing.
pub async fn a_passkey_is_found_by_credential_and_by_user(stores: ContractStores) {
    let user_id = fresh();
    // Ids of one millisecond have no order.
    let [older, newer] = [0x50, 0x51].map(|byte| PasskeyId::from_bytes([byte; 16]));
    let small =
        Passkey { passkey_id: older, credential_id: credential(&[7]), public_key: vec![1], ..new_passkey(user_id) };
    let large = Passkey {
        passkey_id: newer,
        credential_id: credential(&[0xff; CREDENTIAL_ID_BYTES_MAX]),
        public_key: vec![0xff; PASSKEY_KEY_BYTES_MAX],
        sign_count: u32::MAX,
        is_backup_eligible: true,
        is_backed_up: true,
        last_used_at: Some(now()),
        ..new_passkey(user_id)
    };
    assert_eq!(stores.passkeys.passkeys(user_id).await.expect(WORKS), []);
    assert_eq!(stores.passkeys.by_credential(&small.credential_id).await.expect(WORKS), None);
    for passkey in [&large, &small, &large] {
        assert_eq!(add(&stores, passkey).await, PasskeyAddition::Added);
        let found = stores.passkeys.by_credential(&passkey.credential_id).await.expect(WORKS);
        assert_eq!(found.as_ref(), Some(passkey));
    }
    assert_eq!(stores.passkeys.passkeys(user_id).await.expect(WORKS), [small, large]);
    assert_eq!(stores.passkeys.passkeys(fresh()).await.expect(WORKS), []);
}

/// A credential id belongs to one passkey, across all users, also under concurrency.
pub async fn a_credential_id_belongs_to_one_passkey(stores: ContractStores) {
    let first = new_passkey(fresh());
    let of_other = Passkey { credential_id: first.credential_id.clone(), ..new_passkey(fresh()) };
    let of_same = Passkey { user_id: first.user_id, ..of_other.clone() };
    assert_eq!(add(&stores, &first).await, PasskeyAddition::Added);
    for taken in [&of_other, &of_same] {
        assert_eq!(add(&stores, taken).await, PasskeyAddition::CredentialTaken);
    }
    assert_eq!(stores.passkeys.passkeys(of_other.user_id).await.expect(WORKS), []);
    assert_eq!(stores.passkeys.by_credential(&first.credential_id).await.expect(WORKS), Some(first));

    let contested = new_passkey(fresh()).credential_id;
    let outcomes = at_once((0..8).map(|_| {
        let passkey = Passkey { credential_id: contested.clone(), ..new_passkey(fresh()) };
        let stores = stores.clone();
        async move { add(&stores, &passkey).await }
    }))
    .await;
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == PasskeyAddition::Added).count(), 1, "{outcomes:?}");
}

/// A user has a bounded number of passkeys; a removal makes room.
pub async fn the_passkeys_of_a_user_are_bounded(stores: ContractStores) {
    let user_id: UserId = fresh();
    let mut last = None;
    for _ in 0..PASSKEYS_MAX {
        let passkey = new_passkey(user_id);
        assert_eq!(add(&stores, &passkey).await, PasskeyAddition::Added);
        last = Some(passkey.passkey_id);
    }
    let next = new_passkey(user_id);
    assert_eq!(add(&stores, &next).await, PasskeyAddition::TooMany);
    assert_eq!(stores.passkeys.by_credential(&next.credential_id).await.expect(WORKS), None);
    assert_eq!(add(&stores, &new_passkey(fresh())).await, PasskeyAddition::Added, "other users have their own bound");
    assert!(stores.passkeys.remove(user_id, last.expect("there is one")).await.expect(WORKS));
    assert_eq!(add(&stores, &next).await, PasskeyAddition::Added);
}

/// A removed passkey is in no read, and its credential id is free. A user removes only their own.
pub async fn a_removed_passkey_is_refused(stores: ContractStores) {
    let (kept, removed) = (new_passkey(fresh()), new_passkey(fresh()));
    for passkey in [&kept, &removed] {
        add(&stores, passkey).await;
    }
    let remove = async |user_id, passkey_id| stores.passkeys.remove(user_id, passkey_id).await.expect(WORKS);
    assert!(!remove(kept.user_id, removed.passkey_id).await);
    assert!(!remove(removed.user_id, fresh::<PasskeyId>()).await);
    assert!(remove(removed.user_id, removed.passkey_id).await);
    assert!(!remove(removed.user_id, removed.passkey_id).await);
    assert_eq!(stores.passkeys.passkeys(removed.user_id).await.expect(WORKS), []);
    assert_eq!(stores.passkeys.by_credential(&removed.credential_id).await.expect(WORKS), None);
    let used = stores.passkeys.record_use(&removed.credential_id, use_with(1)).await.expect(WORKS);
    assert_eq!(used, PasskeyUseOutcome::NotFound);
    assert_eq!(stores.passkeys.by_credential(&kept.credential_id).await.expect(WORKS), Some(kept.clone()));
    let again = Passkey { credential_id: removed.credential_id, ..new_passkey(kept.user_id) };
    assert_eq!(add(&stores, &again).await, PasskeyAddition::Added);
}

/// A use moves the counter forward and is refused otherwise; without counters, every use is recorded.
pub async fn a_use_moves_the_counter_forward(stores: ContractStores) {
    let passkey = Passkey { sign_count: 5, ..new_passkey(fresh()) };
    add(&stores, &passkey).await;
    let record = async |used| stores.passkeys.record_use(&passkey.credential_id, used).await.expect(WORKS);
    for sign_count in [0, 4, 5] {
        assert_eq!(record(use_with(sign_count)).await, PasskeyUseOutcome::CounterNotGrown);
    }
    assert_eq!(stores.passkeys.by_credential(&passkey.credential_id).await.expect(WORKS), Some(passkey.clone()));
    let used = PasskeyUse { is_backed_up: true, ..use_with(9) };
    let after = Passkey { sign_count: 9, is_backed_up: true, last_used_at: Some(used.at), ..passkey.clone() };
    assert_eq!(record(used).await, PasskeyUseOutcome::Recorded(after.clone()));
    assert_eq!(stores.passkeys.passkeys(passkey.user_id).await.expect(WORKS), [after]);

    let uncounted = new_passkey(fresh());
    add(&stores, &uncounted).await;
    for _ in 0..2 {
        let used = stores.passkeys.record_use(&uncounted.credential_id, use_with(0)).await.expect(WORKS);
        assert!(matches!(used, PasskeyUseOutcome::Recorded(_)), "{used:?}");
    }
}

/// Of concurrent uses with the same counter, one is recorded.
pub async fn of_concurrent_uses_with_one_counter_one_is_recorded(stores: ContractStores) {
    let passkey = new_passkey(fresh());
    add(&stores, &passkey).await;
    let outcomes = at_once((0..8).map(|_| {
        let (stores, credential_id) = (stores.clone(), passkey.credential_id.clone());
        async move { stores.passkeys.record_use(&credential_id, use_with(7)).await.expect(WORKS) }
    }))
    .await;
    let recorded = outcomes.iter().filter(|outcome| matches!(outcome, PasskeyUseOutcome::Recorded(_)));
    assert_eq!(recorded.count(), 1, "{outcomes:?}");
}

/// The deletion of an account deletes its passkeys and no others.
pub async fn deleting_an_account_deletes_its_passkeys(stores: ContractStores) {
    let (user_id, kept) = (fresh(), new_passkey(fresh()));
    let own = [new_passkey(user_id), new_passkey(user_id)];
    for passkey in own.iter().chain([&kept]) {
        add(&stores, passkey).await;
    }
    for _ in 0..2 {
        stores.passkeys.erase_user(user_id).await.expect(WORKS);
        assert_eq!(stores.passkeys.passkeys(user_id).await.expect(WORKS), []);
        for passkey in &own {
            assert_eq!(stores.passkeys.by_credential(&passkey.credential_id).await.expect(WORKS), None);
        }
    }
    assert_eq!(stores.passkeys.passkeys(kept.user_id).await.expect(WORKS), [kept]);
}

async fn add(stores: &ContractStores, passkey: &Passkey) -> PasskeyAddition {
    stores.passkeys.add(passkey.clone()).await.expect(WORKS)
}

/// A passkey without a counter.
pub(super) fn new_passkey(user_id: UserId) -> Passkey {
    let passkey_id: PasskeyId = fresh();
    Passkey {
        passkey_id,
        user_id,
        credential_id: credential(&passkey_id.to_bytes()),
        public_key: vec![3; 77],
        sign_count: 0,
        is_backup_eligible: false,
        is_backed_up: false,
        name: "Phone".to_owned().try_into().expect("it is a name"),
        created_at: now(),
        last_used_at: None,
    }
}

fn credential(bytes: &[u8]) -> CredentialId {
    bytes.to_vec().try_into().expect("it is short enough")
}

fn use_with(sign_count: u32) -> PasskeyUse {
    PasskeyUse { sign_count, is_backed_up: false, at: Timestamp::from_millis(now().as_millis()) }
}
