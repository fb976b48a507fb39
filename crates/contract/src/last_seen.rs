//! Tests of [`LastSeenStore`](ports::LastSeenStore).

use std::time::Duration;

use domain::{DisplayName, GroupInvites, Timestamp, User, UserId};

use super::ContractStores;
use super::fixtures::{WORKS, at_once, fresh, now};
use ports::{NewUser, UserKey, UserUpdate};

/// The last-seen time of a user moves forward, never back.
pub async fn last_seen_only_moves_forward(stores: ContractStores) {
    let user = new_user(&stores, "1").await;
    assert_eq!(user.last_seen_at, None);
    let at = now();
    let (earlier, later) = (at.minus(Duration::from_secs(60)), at + Duration::from_millis(1));
    for (seen, expected) in [(at, at), (earlier, at), (at, at), (later, later)] {
        stores.last_seen.update_last_seen(&[(user.user_id, seen)]).await.expect(WORKS);
        assert_eq!(last_seen(&stores, user.user_id).await, Some(expected));
    }
}

/// One call updates any number of users, and each keeps the latest of their times.
pub async fn one_call_updates_many_users(stores: ContractStores) {
    let (mut seen, mut expected) = (vec![], vec![]);
    let at = |n: u64| Timestamp::from_millis(1_769_783_400_000 + n);
    for n in 0..30 {
        let user = new_user(&stores, &n.to_string()).await;
        seen.push((user.user_id, at(n)));
        expected.push(at(n));
    }
    seen.extend([(seen[0].0, at(100)), (seen[1].0, at(0))]);
    expected[0] = at(100);
    stores.last_seen.update_last_seen(&seen).await.expect(WORKS);
    for ((user_id, _), expected) in seen.iter().zip(expected) {
        assert_eq!(last_seen(&stores, *user_id).await, Some(expected));
    }
    stores.last_seen.update_last_seen(&[]).await.expect(WORKS);
}

/// Of concurrent updates, the latest time stays.
pub async fn concurrent_updates_keep_the_latest_time(stores: ContractStores) {
    let (user, at) = (new_user(&stores, "1").await, now());
    at_once((0..8).map(|n| {
        let (stores, user_id) = (stores.clone(), user.user_id);
        async move { stores.last_seen.update_last_seen(&[(user_id, at + Duration::from_millis(n))]).await.expect(WORKS) }
    }))
    .await;
    assert_eq!(last_seen(&stores, user.user_id).await, Some(at + Duration::from_millis(7)));
}

/// Updating the last-seen time changes no other field, and other updates keep it.
pub async fn a_last_seen_update_changes_nothing_else(stores: ContractStores) {
    let (user, at) = (new_user(&stores, "1").await, now());
    let other = new_user(&stores, "2").await;
    stores.last_seen.update_last_seen(&[(user.user_id, at)]).await.expect(WORKS);
    let seen = User { last_seen_at: Some(at), ..user.clone() };
    let found = stores.user_reader.users(&[user.user_id, other.user_id]).await.expect(WORKS);
    assert_eq!(found, [Some(seen.clone()), Some(other)]);

    let later = at + Duration::from_secs(60);
    let renamed = User { display_name: name("Countess"), updated_at: later, ..seen };
    let update = stores.user_writer.update(
        user.user_id,
        UserUpdate { display_name: Some(name("Countess")), ..UserUpdate::default() },
        later,
    );
    assert_eq!(update.await.expect(WORKS), Some(renamed.clone()));
    assert_eq!(stores.user_reader.users(&[user.user_id]).await.expect(WORKS), [Some(renamed)]);
}

/// Unknown users are skipped and not created; the others of the call are updated.
pub async fn a_last_seen_update_creates_no_user(stores: ContractStores) {
    let (user, unknown, at) = (new_user(&stores, "1").await, fresh(), now());
    stores.last_seen.update_last_seen(&[(unknown, at), (user.user_id, at)]).await.expect(WORKS);
    assert_eq!(stores.user_reader.users(&[unknown]).await.expect(WORKS), [None]);
    assert_eq!(last_seen(&stores, user.user_id).await, Some(at));
}

async fn last_seen(stores: &ContractStores, user_id: UserId) -> Option<Timestamp> {
    let users = stores.user_reader.users(&[user_id]).await.expect(WORKS);
    users[0].as_ref().expect("the user is there").last_seen_at
}

async fn new_user(stores: &ContractStores, subject: &str) -> User {
    let key =
        UserKey::External { issuer: "https://one.example".to_owned(), subject: subject.parse().expect("it is short") };
    let new = NewUser {
        user_id: fresh(),
        display_name: name("Ada"),
        group_invites: GroupInvites::default(),
        created_at: now(),
        proven_at: now(),
    };
    stores.user_writer.find_or_create(key, new).await.expect(WORKS).0
}

fn name(text: &str) -> DisplayName {
    text.to_owned().try_into().expect("the name is valid")
}
