//! Tests of [`AccountStore`](ports::AccountStore).

use std::time::Duration;

use domain::{DisplayName, GroupInvites, PhoneNumber, PresenceVisibility, User, UserId};

use super::ContractStores;
use super::fixtures::{WORKS, fresh, now};
use ports::{MessageDisposition, NewUser, PendingDeletion, UserKey};

/// Beginning a deletion leaves a tombstone, and no phone number resolves to it.
pub async fn a_deletion_begins_with_a_tombstone(stores: ContractStores) {
    let phone: PhoneNumber = "+15551234567".parse().expect("the number has the shape of E.164");
    let (user, _) = sign_in(&stores, UserKey::Phone(phone.clone())).await;
    let deletion = begin(&stores, user.user_id, MessageDisposition::Keep).await;
    let tombstone = User {
        user_id: user.user_id,
        phone_number: None,
        external_id: None,
        display_name: DisplayName::deleted_account(),
        presence_visibility: PresenceVisibility::Everyone,
        group_invites: GroupInvites::default(),
        created_at: user.created_at,
        updated_at: deletion.begun_at,
        last_seen_at: None,
        deleted_at: Some(deletion.begun_at),
    };
    assert_eq!(stores.user_reader.users(&[user.user_id]).await.expect(WORKS), [Some(tombstone)]);
    assert_eq!(stores.user_reader.by_phone(&[phone]).await.expect(WORKS), [None]);
}

/// Signing in with the key of a deleted account creates a new user, at once and on later sign-ins.
pub async fn the_key_of_a_deleted_account_is_free(stores: ContractStores) {
    let phone = UserKey::Phone("+15551234567".parse().expect("the number has the shape of E.164"));
    let subject =
        UserKey::External { issuer: "https://shop.example".to_owned(), subject: "42".parse().expect("it is short") };
    for key in [phone, subject] {
        let (gone, _) = sign_in(&stores, key.clone()).await;
        begin(&stores, gone.user_id, MessageDisposition::Keep).await;
        let (new, created) = sign_in(&stores, key.clone()).await;
        assert!(created && new.user_id != gone.user_id, "{key:?}");
        assert_eq!(sign_in(&stores, key).await, (new.clone(), false));
        stores.accounts.end_deletion(gone.user_id).await.expect(WORKS);
        assert_eq!(stores.user_reader.users(&[new.user_id]).await.expect(WORKS), [Some(new)]);
    }
}

/// A deletion is listed until it has ended.
pub async fn a_deletion_is_listed_until_it_ends(stores: ContractStores) {
    let mut begun = vec![];
    for n in 0..3 {
        let key = UserKey::External {
            issuer: "https://shop.example".to_owned(),
            subject: n.to_string().try_into().expect("it is short"),
        };
        let (user, _) = sign_in(&stores, key).await;
        begun.push(begin(&stores, user.user_id, MessageDisposition::Keep).await);
    }
    let [one, other, ..] = begun[..] else { panic!("three have begun") };
    assert_eq!(stores.accounts.deletion(one.user_id).await.expect(WORKS), Some(one));
    assert_eq!(stores.accounts.deletions(2).await.expect(WORKS).len(), 2);
    for _ in 0..2 {
        stores.accounts.end_deletion(one.user_id).await.expect(WORKS);
        assert_eq!(stores.accounts.deletion(one.user_id).await.expect(WORKS), None);
    }
    let mut left = stores.accounts.deletions(10).await.expect(WORKS);
    left.sort_by_key(|deletion| deletion.user_id);
    begun.retain(|deletion| deletion.user_id != one.user_id);
    begun.sort_by_key(|deletion| deletion.user_id);
    assert_eq!(left, begun);
    assert_eq!(stores.accounts.deletion(other.user_id).await.expect(WORKS), Some(other));
}

/// A subject gets a new user with a token that was issued after the deletion, and the tombstone with an older one.
pub async fn an_older_token_of_a_deleted_subject_leads_to_the_tombstone(stores: ContractStores) {
    let key =
        UserKey::External { issuer: "https://shop.example".to_owned(), subject: "42".parse().expect("it is short") };
    let (user, _) = sign_in(&stores, key.clone()).await;
    let deletion = begin(&stores, user.user_id, MessageDisposition::Keep).await;
    let with_token_of = async |proven_at| {
        let display_name = "Ada".to_owned().try_into().expect("the name is valid");
        let new = NewUser {
            user_id: fresh(),
            display_name,
            group_invites: GroupInvites::default(),
            created_at: now(),
            proven_at,
        };
        stores.user_writer.find_or_create(key.clone(), new).await.expect(WORKS)
    };
    let before = deletion.begun_at.minus(Duration::from_millis(1));
    let (tombstone, is_new) = with_token_of(before).await;
    assert_eq!((tombstone.user_id, tombstone.deleted_at, is_new), (user.user_id, Some(deletion.begun_at), false));
    let (other, is_new) = with_token_of(deletion.begun_at).await;
    assert!(is_new && other.user_id != user.user_id);
    assert_eq!(with_token_of(before).await, (other, false), "the subject has a new user now");
}

/// Beginning a deletion twice keeps the first one; messages are erased if either call asks for it.
pub async fn a_deletion_that_begins_again_is_the_same(stores: ContractStores) {
    let key =
        UserKey::External { issuer: "https://shop.example".to_owned(), subject: "42".parse().expect("it is short") };
    let (user, _) = sign_in(&stores, key).await;
    let first = begin(&stores, user.user_id, MessageDisposition::Keep).await;
    let tombstone = stores.user_reader.users(&[user.user_id]).await.expect(WORKS);
    for messages in [MessageDisposition::Erase, MessageDisposition::Keep] {
        let again = PendingDeletion { messages, begun_at: first.begun_at + Duration::from_secs(60), ..first };
        assert!(stores.accounts.begin_deletion(again).await.expect(WORKS));
        let expected = PendingDeletion { messages: MessageDisposition::Erase, ..first };
        assert_eq!(stores.accounts.deletion(user.user_id).await.expect(WORKS), Some(expected));
        assert_eq!(stores.user_reader.users(&[user.user_id]).await.expect(WORKS), tombstone);
    }
}

/// Deleting an unknown user has no effect.
pub async fn deleting_an_unknown_user_has_no_effect(stores: ContractStores) {
    let unknown = PendingDeletion { user_id: fresh(), messages: MessageDisposition::Keep, begun_at: now() };
    assert!(!stores.accounts.begin_deletion(unknown).await.expect(WORKS));
    assert_eq!(stores.accounts.deletions(10).await.expect(WORKS), []);
    assert_eq!(stores.user_reader.users(&[unknown.user_id]).await.expect(WORKS), [None]);
}

async fn begin(stores: &ContractStores, user_id: UserId, messages: MessageDisposition) -> PendingDeletion {
    let deletion = PendingDeletion { user_id, messages, begun_at: now() };
    assert!(stores.accounts.begin_deletion(deletion).await.expect(WORKS));
    deletion
}

async fn sign_in(stores: &ContractStores, key: UserKey) -> (User, bool) {
    let display_name = "Ada".to_owned().try_into().expect("the name is valid");
    let new = NewUser {
        user_id: fresh(),
        display_name,
        group_invites: GroupInvites::default(),
        created_at: now(),
        proven_at: now(),
    };
    stores.user_writer.find_or_create(key, new).await.expect(WORKS)
}
