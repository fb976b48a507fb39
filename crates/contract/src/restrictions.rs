//! Tests of [`RestrictionStore`](ports::RestrictionStore).

use std::time::Duration;

use domain::limits::DENIED_TOKENS_MAX;
use domain::{RestrictionChange, Restrictions, TooManyDeniedTokens, UserId};
use ports::{AppendOutcome, SendRefusal};

use super::ContractStores;
use super::fixtures::{ExpectNew, WORKS, at_once, fresh, new_message, now};

const HOUR: Duration = Duration::from_secs(3600);

fn suspend() -> RestrictionChange {
    RestrictionChange::Suspend { reason: "spam".to_owned().try_into().ok() }
}

fn deny(token: usize) -> RestrictionChange {
    let mut token_id = [0; 32];
    token_id[..8].copy_from_slice(&token.to_be_bytes());
    RestrictionChange::DenyToken { token_id, lifetime: HOUR }
}

async fn restrict(stores: &ContractStores, user_id: UserId, change: RestrictionChange) -> Restrictions {
    stores.restrictions.restrict(user_id, change, now()).await.expect(WORKS).expect("there is room")
}

/// Changes add up, and apply to their user only, at once in the process that made them.
pub async fn restrictions_apply_to_their_user_only(stores: ContractStores) {
    let (user_id, other): (UserId, UserId) = (fresh(), fresh());
    let mut expected = Restrictions::default();
    assert_eq!(stores.restrictions.restrictions(user_id).await.expect(WORKS), expected);
    for change in [suspend(), RestrictionChange::SignOut, deny(1), deny(2), RestrictionChange::Resume] {
        let at = now();
        expected.apply(&change, at).expect("there is room");
        let after = stores.restrictions.restrict(user_id, change, at).await.expect(WORKS).expect("there is room");
        assert_eq!(after, expected);
        assert_eq!(stores.restrictions.restrictions(user_id).await.expect(WORKS), expected);
        assert_eq!(stores.restrictions.current_restrictions(user_id).await.expect(WORKS), expected);
        assert_eq!(stores.restrictions.restrictions(other).await.expect(WORKS), Restrictions::default());
    }
}

/// A suspended user sends nothing, in any chat, until the suspension ends. Retries are refused too.
pub async fn a_suspended_user_does_not_send(stores: ContractStores) {
    let (ann, bob) = (fresh(), fresh());
    let chat_id = stores.group(ann, &[bob]).await;
    let earlier = new_message(chat_id, ann, "before");
    stores.send(earlier.clone()).await.expect_new();
    restrict(&stores, ann, suspend()).await;
    for send in [earlier.clone(), new_message(chat_id, ann, "during"), new_message(fresh(), ann, "nowhere")] {
        assert_eq!(stores.send(send).await, AppendOutcome::Refused(SendRefusal::Suspended));
    }
    stores.send(new_message(chat_id, bob, "of another member")).await.expect_new();
    restrict(&stores, ann, RestrictionChange::Resume).await;
    assert!(matches!(stores.send(earlier).await, AppendOutcome::Duplicate(_)));
    assert_eq!(stores.send(new_message(chat_id, ann, "after")).await.expect_new().sequence.0, 3);
}

/// Concurrent changes are all applied, within the bound.
pub async fn concurrent_changes_are_decided_one_by_one(stores: ContractStores) {
    let user_id = fresh();
    let outcomes = at_once((0..4).map(|n| {
        let stores = stores.clone();
        async move { restrict(&stores, user_id, deny(n)).await.denied.len() }
    }))
    .await;
    let mut counts = outcomes;
    counts.sort_unstable();
    assert_eq!(counts, [1, 2, 3, 4]);
    assert_eq!(stores.restrictions.restrictions(user_id).await.expect(WORKS).denied.len(), 4);
}

/// A change beyond the bound is refused and has no effect.
pub async fn denied_tokens_are_bounded(stores: ContractStores) {
    let user_id = fresh();
    for n in 0..DENIED_TOKENS_MAX {
        restrict(&stores, user_id, deny(n)).await;
    }
    let one_more = stores.restrictions.restrict(user_id, deny(DENIED_TOKENS_MAX), now()).await.expect(WORKS);
    assert_eq!(one_more, Err(TooManyDeniedTokens));
    assert_eq!(stores.restrictions.restrictions(user_id).await.expect(WORKS).denied.len(), DENIED_TOKENS_MAX);
}
