//! Tests of [`RequestStore`](ports::RequestStore).

use std::collections::BTreeSet;
use std::time::Duration;

use domain::Timestamp;
use domain::limits::REQUEST_KEY_RETENTION;
use ulid::Ulid;
use uuid::Uuid;

use super::ContractStores;
use super::fixtures::{WORKS, at_once, fresh, now};
use ports::{Begun, RequestKey, StoredResponse};

const FINGERPRINT: [u8; 32] = [1; 32];

/// A request without a response resumes with its reserved ulid.
pub async fn an_unanswered_request_is_resumed_with_its_reservation(stores: ContractStores) {
    let (key, first) = (new_key(), fresh());
    assert_eq!(begin(&stores, key, first, now()).await, Begun::Run { reserved: first, resumed: false });
    for _ in 0..2 {
        assert_eq!(begin(&stores, key, fresh(), now()).await, Begun::Run { reserved: first, resumed: true });
    }
}

/// A request with a response replays it.
pub async fn an_answered_request_is_replayed(stores: ContractStores) {
    let key = new_key();
    begin(&stores, key, fresh(), now()).await;
    stores.requests.finish(key, response()).await.expect(WORKS);
    assert_eq!(begin(&stores, key, fresh(), now()).await, Begun::Replay(response()));
}

/// A key that was used for another request is a mismatch, with or without a response, and changes nothing.
pub async fn a_key_with_another_request_is_a_mismatch(stores: ContractStores) {
    let (key, reserved) = (new_key(), fresh());
    begin(&stores, key, reserved, now()).await;
    let mismatched = || stores.requests.begin(key, [2; 32], fresh(), now());
    assert_eq!(mismatched().await.expect(WORKS), Begun::Mismatch);
    assert_eq!(begin(&stores, key, fresh(), now()).await, Begun::Run { reserved, resumed: true });
    stores.requests.finish(key, response()).await.expect(WORKS);
    assert_eq!(mismatched().await.expect(WORKS), Begun::Mismatch);
    assert_eq!(begin(&stores, key, fresh(), now()).await, Begun::Replay(response()));
}

/// The same key of another user is another request.
pub async fn a_key_belongs_to_its_user(stores: ContractStores) {
    let key = new_key();
    begin(&stores, key, fresh(), now()).await;
    let (others, reserved) = (RequestKey { user_id: fresh(), ..key }, fresh());
    assert_eq!(begin(&stores, others, reserved, now()).await, Begun::Run { reserved, resumed: false });
}

/// Of concurrent attempts, one is the first, and all have the same reserved ulid.
pub async fn concurrent_tries_share_one_reservation(stores: ContractStores) {
    let key = new_key();
    let begun = at_once((0..6).map(|_| {
        let stores = stores.clone();
        async move {
            match begin(&stores, key, fresh(), now()).await {
                Begun::Run { reserved, resumed } => (reserved, resumed),
                other => panic!("nobody has answered yet: {other:?}"),
            }
        }
    }))
    .await;
    assert_eq!(begun.iter().map(|(reserved, _)| reserved).collect::<BTreeSet<_>>().len(), 1);
    assert_eq!(begun.iter().filter(|(_, resumed)| !resumed).count(), 1);
}

/// A request is kept for a day; after that, the key is new.
pub async fn a_request_is_forgotten_after_a_day(stores: ContractStores) {
    let (key, begun_at) = (new_key(), now());
    begin(&stores, key, fresh(), begun_at).await;
    stores.requests.finish(key, response()).await.expect(WORKS);
    let forgotten_at = begun_at + REQUEST_KEY_RETENTION;
    let remembered = begin(&stores, key, fresh(), forgotten_at.minus(Duration::from_millis(1))).await;
    assert_eq!(remembered, Begun::Replay(response()));
    let reserved = fresh();
    assert_eq!(begin(&stores, key, reserved, forgotten_at).await, Begun::Run { reserved, resumed: false });
}

async fn begin(stores: &ContractStores, key: RequestKey, reserve: Ulid, now: Timestamp) -> Begun {
    stores.requests.begin(key, FINGERPRINT, reserve, now).await.expect(WORKS)
}

fn new_key() -> RequestKey {
    RequestKey { user_id: fresh(), key: Uuid::new_v4() }
}

fn response() -> StoredResponse {
    StoredResponse { status: 201, body: b"{\"data\":{}}".to_vec() }
}
