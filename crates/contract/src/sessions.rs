//! Tests of [`SessionStore`](ports::SessionStore).

use std::time::Duration;

use domain::{DeviceId, RefreshAttempt, RefreshOutcome, Session, TokenDigest, UserId};
use uuid::Uuid;

use super::ContractStores;
use super::fixtures::{WORKS, at_once, fresh, now};

const LIFE: Duration = Duration::from_secs(3600);

/// A session exists until the millisecond at which it expires.
pub async fn a_session_exists_until_it_expires(stores: ContractStores) {
    let session = create(&stores, fresh()).await;
    let (id, user_id, expires_at) = (session.session_id, session.user_id, session.expires_at);
    let before = expires_at.minus(Duration::from_millis(1));
    assert_eq!(stores.sessions.session(id, before).await.expect(WORKS), Some(session.clone()));
    assert_eq!(stores.sessions.sessions(user_id, before).await.expect(WORKS), [session]);
    assert_eq!(stores.sessions.session(id, expires_at).await.expect(WORKS), None);
    assert_eq!(stores.sessions.sessions(user_id, expires_at).await.expect(WORKS), []);
    assert_eq!(stores.sessions.session(fresh(), before).await.expect(WORKS), None);
}

/// A new sign-in of a device ends its earlier session, and no session of others.
pub async fn a_device_has_one_session(stores: ContractStores) {
    let user_id = fresh();
    let first = create(&stores, user_id).await;
    let other_device = create(&stores, user_id).await;
    let other_user = Session { device_id: first.device_id, ..new_session(fresh()) };
    assert_eq!(stores.sessions.create(other_user.clone()).await.expect(WORKS), []);

    let second = Session { device_id: first.device_id, ..new_session(user_id) };
    assert_eq!(stores.sessions.create(second.clone()).await.expect(WORKS), [first.session_id]);
    assert_eq!(stores.sessions.session(first.session_id, now()).await.expect(WORKS), None);
    for kept in [second, other_device, other_user] {
        assert_eq!(stores.sessions.session(kept.session_id, now()).await.expect(WORKS), Some(kept));
    }
}

/// The list has only sessions of the user, oldest first, regardless of their ids.
pub async fn sessions_are_oldest_first(stores: ContractStores) {
    let user_id = fresh();
    let (newer, older) = (new_session(user_id), new_session(user_id));
    let older = Session { created_at: newer.created_at.minus(Duration::from_secs(60)), ..older };
    for session in [&newer, &older] {
        stores.sessions.create(session.clone()).await.expect(WORKS);
    }
    create(&stores, fresh()).await;
    assert_eq!(stores.sessions.sessions(user_id, now()).await.expect(WORKS), [older, newer]);
}

/// A valid refresh is written: from then on, the successor is the valid token.
pub async fn a_refresh_rotates_the_token(stores: ContractStores) {
    let session = create(&stores, fresh()).await;
    let attempt = present(&session, session.current, [2; 32]);
    let refreshed = stores.sessions.refresh(session.session_id, attempt.clone()).await.expect(WORKS);
    let (rotated, outcome) = refreshed.expect("the session is there");
    assert_eq!((outcome, rotated.current), (RefreshOutcome::Rotated, [2; 32]));
    assert_eq!(rotated.expires_at, attempt.expires_at);
    assert_eq!(stores.sessions.session(session.session_id, now()).await.expect(WORKS), Some(rotated.clone()));

    let next = stores.sessions.refresh(session.session_id, present(&session, [2; 32], [3; 32])).await.expect(WORKS);
    assert_eq!(next.expect("the session is there").1, RefreshOutcome::Rotated);
}

/// Reuse of a spent token deletes the session.
pub async fn a_reused_token_deletes_the_session(stores: ContractStores) {
    let session = create(&stores, fresh()).await;
    for (token, successor) in [([1; 32], [2; 32]), ([2; 32], [3; 32])] {
        stores.sessions.refresh(session.session_id, present(&session, token, successor)).await.expect(WORKS);
    }
    let reused = stores.sessions.refresh(session.session_id, present(&session, [1; 32], [4; 32])).await.expect(WORKS);
    assert_eq!(reused.expect("the session was there").1, RefreshOutcome::Reused);
    assert_eq!(stores.sessions.session(session.session_id, now()).await.expect(WORKS), None);
    assert_eq!(stores.sessions.sessions(session.user_id, now()).await.expect(WORKS), []);
    let gone = stores.sessions.refresh(session.session_id, present(&session, [3; 32], [5; 32])).await.expect(WORKS);
    assert_eq!(gone, None);
}

/// A valid token from another device is refused, and so is a forged one. The session stays unchanged.
pub async fn a_refused_refresh_changes_nothing(stores: ContractStores) {
    let session = create(&stores, fresh()).await;
    let forged = RefreshAttempt { is_authentic: false, ..present(&session, [7; 32], [2; 32]) };
    let refused = stores.sessions.refresh(session.session_id, forged).await.expect(WORKS);
    assert_eq!(refused, Some((session.clone(), RefreshOutcome::Refused)));
    let elsewhere = RefreshAttempt { device_id: Uuid::new_v4().into(), ..present(&session, session.current, [2; 32]) };
    let refused = stores.sessions.refresh(session.session_id, elsewhere).await.expect(WORKS);
    assert_eq!(refused, Some((session.clone(), RefreshOutcome::Refused)));
    assert_eq!(stores.sessions.session(session.session_id, now()).await.expect(WORKS), Some(session));
}

/// Of concurrent refreshes with one token, one rotates it and one is forgiven; a third deletes the session.
pub async fn concurrent_refreshes_are_decided_one_by_one(stores: ContractStores) {
    let session = create(&stores, fresh()).await;
    let outcomes = at_once((2..5).map(|successor| {
        let (stores, session_id) = (stores.clone(), session.session_id);
        let attempt = present(&session, session.current, [successor; 32]);
        async move { stores.sessions.refresh(session_id, attempt).await.expect(WORKS).map(|(_, outcome)| outcome) }
    }))
    .await;
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Some(RefreshOutcome::Rotated)).count(), 2);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Some(RefreshOutcome::Reused)).count(), 1);
    assert_eq!(stores.sessions.session(session.session_id, now()).await.expect(WORKS), None);
}

/// Two refreshes with one token give two valid tokens, each of which is rotated by itself.
pub async fn both_successors_of_a_forgiven_token_are_valid(stores: ContractStores) {
    let session = create(&stores, fresh()).await;
    for (presented, successor) in [(1, 2), (1, 3), (2, 4), (3, 5), (5, 6), (4, 7)] {
        let attempt = present(&session, [presented; 32], [successor; 32]);
        let refreshed = stores.sessions.refresh(session.session_id, attempt).await.expect(WORKS);
        let (rotated, outcome) = refreshed.expect("the session is there");
        assert_eq!((outcome, rotated.overtaken.len()), (RefreshOutcome::Rotated, usize::from(successor > 2)));
        assert_eq!(stores.sessions.session(session.session_id, now()).await.expect(WORKS), Some(rotated));
    }
    let stolen = stores.sessions.refresh(session.session_id, present(&session, [3; 32], [8; 32])).await.expect(WORKS);
    assert_eq!(stolen.expect("the session was there").1, RefreshOutcome::Reused);
    assert_eq!(stores.sessions.session(session.session_id, now()).await.expect(WORKS), None);
}

/// A user can revoke only their own sessions; the call returns those that existed.
pub async fn a_user_revokes_only_their_own_sessions(stores: ContractStores) {
    let user_id = fresh();
    let (one, other) = (create(&stores, user_id).await, create(&stores, user_id).await);
    let strangers = create(&stores, fresh()).await;
    let asked = [one.session_id, strangers.session_id, fresh()];
    assert_eq!(stores.sessions.revoke(user_id, &asked).await.expect(WORKS), [one.session_id]);
    assert_eq!(stores.sessions.revoke(user_id, &asked).await.expect(WORKS), []);
    assert_eq!(stores.sessions.session(one.session_id, now()).await.expect(WORKS), None);
    for kept in [other, strangers] {
        assert_eq!(stores.sessions.session(kept.session_id, now()).await.expect(WORKS), Some(kept));
    }
}

/// Stores a session of a new device.
async fn create(stores: &ContractStores, user_id: UserId) -> Session {
    let session = new_session(user_id);
    assert_eq!(stores.sessions.create(session.clone()).await.expect(WORKS), []);
    session
}

fn new_session(user_id: UserId) -> Session {
    let now = now();
    Session {
        session_id: fresh(),
        user_id,
        device_id: DeviceId::from(Uuid::new_v4()),
        created_at: now,
        last_active_at: now,
        expires_at: now + LIFE,
        current: [1; 32],
        spent: None,
        overtaken: vec![],
    }
}

/// A refresh attempt by the session's own device.
fn present(session: &Session, presented: TokenDigest, successor: TokenDigest) -> RefreshAttempt {
    let now = now();
    RefreshAttempt {
        presented,
        is_authentic: true,
        device_id: session.device_id,
        successor,
        now,
        expires_at: now + LIFE,
    }
}
