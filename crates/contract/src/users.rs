//! Tests of [`UserReader`](ports::UserReader) and [`UserWriter`](ports::UserWriter).

use domain::{ChatId, ChatName, DisplayName, ExternalId, GroupInvites, PhoneNumber, PresenceVisibility, User};

use super::ContractStores;
use super::fixtures::{WORKS, at_once, fresh, now};
use ports::{MessageDisposition, NewGroup, NewUser, PendingDeletion, UserKey, UserUpdate};

/// The first sign-in creates a user, and every later one returns it unchanged.
pub async fn a_key_finds_the_user_it_made(stores: ContractStores) {
    let (phone, new) = (phone_number(1), new_user("Ada"));
    let (user, created) = sign_in(&stores, UserKey::Phone(phone.clone()), new.clone()).await;
    let expected = User {
        user_id: new.user_id,
        phone_number: Some(phone.clone()),
        external_id: None,
        display_name: new.display_name,
        presence_visibility: PresenceVisibility::default(),
        group_invites: new.group_invites,
        created_at: new.created_at,
        updated_at: new.created_at,
        last_seen_at: None,
        deleted_at: None,
    };
    assert_eq!((user, created), (expected.clone(), true));

    let again = sign_in(&stores, UserKey::Phone(phone.clone()), new_user("Eve")).await;
    assert_eq!(again, (expected.clone(), false));
    assert_eq!(stores.user_reader.users(&[expected.user_id]).await.expect(WORKS), [Some(expected.clone())]);
    assert_eq!(stores.user_reader.by_phone(&[phone]).await.expect(WORKS), [Some(expected)]);
}

/// Concurrent sign-ins with a new key create one user.
pub async fn a_key_that_signs_in_at_once_has_one_user(stores: ContractStores) {
    let signed_in = at_once((0..8).map(|_| {
        let stores = stores.clone();
        async move { sign_in(&stores, UserKey::Phone(phone_number(1)), new_user("Ada")).await }
    }))
    .await;
    assert_eq!(signed_in.iter().filter(|(_, created)| *created).count(), 1);
    assert!(signed_in.iter().all(|(user, _)| *user == signed_in[0].0));
}

/// A subject identifies a user only together with its issuer, and has no phone number.
pub async fn a_subject_belongs_to_its_issuer(stores: ContractStores) {
    let key =
        |issuer: &str| UserKey::External { issuer: issuer.to_owned(), subject: "42".parse().expect("it is short") };
    let (one, _) = sign_in(&stores, key("https://one.example"), new_user("One")).await;
    assert_eq!(one.external_id, "42".parse().ok());
    let (other, created) = sign_in(&stores, key("https://other.example"), new_user("Other")).await;
    assert!(created && one.user_id != other.user_id);
    assert_eq!(one.phone_number, None);
    let (again, created) = sign_in(&stores, key("https://one.example"), new_user("Again")).await;
    assert_eq!((again, created), (one, false));
}

/// The id at an identity provider finds its user of that issuer, and nobody after the account was deleted.
pub async fn an_external_id_finds_its_user_until_the_account_is_deleted(stores: ContractStores) {
    let issuer = "https://one.example";
    let external_id = &"ann@shop.example".parse::<ExternalId>().expect("it is short");
    let key = UserKey::External { issuer: issuer.to_owned(), subject: external_id.clone() };
    let find = async |issuer: &str, external_id: &ExternalId| {
        stores.user_reader.by_external_id(issuer, external_id).await.expect(WORKS)
    };
    assert_eq!(find(issuer, external_id).await, None);
    let (user, _) = sign_in(&stores, key.clone(), new_user("Ann")).await;
    assert_eq!(user.external_id.as_ref(), Some(external_id));
    assert_eq!(stores.user_reader.users(&[user.user_id]).await.expect(WORKS), [Some(user.clone())]);
    assert_eq!(find("https://other.example", external_id).await, None);
    assert_eq!(find(issuer, &"ann".parse().expect("it is short")).await, None);

    let seen = user.created_at + std::time::Duration::from_secs(60);
    stores.last_seen.update_last_seen(&[(user.user_id, seen)]).await.expect(WORKS);
    let hidden = UserUpdate { group_invites: Some(GroupInvites::Nobody), ..UserUpdate::default() };
    let hidden = stores.user_writer.update(user.user_id, hidden, seen).await.expect(WORKS);
    assert_eq!(hidden.as_ref().and_then(|user| user.external_id.as_ref()), Some(external_id));
    assert_eq!(find(issuer, external_id).await, hidden);

    let deletion = PendingDeletion { user_id: user.user_id, messages: MessageDisposition::Keep, begun_at: now() };
    assert!(stores.accounts.begin_deletion(deletion).await.expect(WORKS));
    assert_eq!(find(issuer, external_id).await, None);
    let tombstone = stores.user_reader.users(&[user.user_id]).await.expect(WORKS);
    assert_eq!(tombstone[0].as_ref().and_then(|user| user.external_id.as_ref()), None);
    let (again, _) = sign_in(&stores, key.clone(), new_user("Ann")).await;
    assert_eq!(find(issuer, external_id).await, Some(again));
}

/// Users are in the order of the arguments, by id and by phone number; an unknown user is `None`.
pub async fn users_are_in_the_order_asked(stores: ContractStores) {
    let (one, _) = sign_in(&stores, UserKey::Phone(phone_number(1)), new_user("One")).await;
    let (other, _) = sign_in(&stores, UserKey::Phone(phone_number(2)), new_user("Other")).await;
    let expected = [Some(other.clone()), None, Some(one.clone()), Some(other.clone())];
    let by_id = stores.user_reader.users(&[other.user_id, fresh(), one.user_id, other.user_id]).await.expect(WORKS);
    assert_eq!(by_id, expected);
    let by_phone = [phone_number(2), phone_number(9), phone_number(1), phone_number(2)];
    assert_eq!(stores.user_reader.by_phone(&by_phone).await.expect(WORKS), expected);
}

/// An update sets the given fields and keeps the others; it never creates a user.
pub async fn an_update_sets_the_given_fields(stores: ContractStores) {
    let (user, _) = sign_in(&stores, UserKey::Phone(phone_number(1)), new_user("Ada")).await;
    let later = user.updated_at + std::time::Duration::from_secs(60);
    let rename = |name| UserUpdate { display_name: Some(display_name(name)), ..UserUpdate::default() };
    let hide = UserUpdate {
        presence_visibility: Some(PresenceVisibility::Nobody),
        group_invites: Some(GroupInvites::Nobody),
        ..UserUpdate::default()
    };
    let show = UserUpdate { group_invites: Some(GroupInvites::Everyone), ..UserUpdate::default() };
    let renamed = User { display_name: display_name("Countess"), updated_at: later, ..user.clone() };
    let (presence_visibility, group_invites) = (PresenceVisibility::Nobody, GroupInvites::Nobody);
    let hidden = User { presence_visibility, group_invites, ..renamed.clone() };
    let shown = User { group_invites: GroupInvites::Everyone, ..hidden.clone() };
    for (update, expected) in [(rename("Countess"), renamed), (hide, hidden), (show, shown)] {
        let updated = stores.user_writer.update(user.user_id, update, later).await.expect(WORKS);
        assert_eq!(updated, Some(expected.clone()));
        assert_eq!(stores.user_reader.by_phone(&[phone_number(1)]).await.expect(WORKS), [Some(expected)]);
    }

    let nobody = fresh();
    assert_eq!(stores.user_writer.update(nobody, rename("X"), later).await.expect(WORKS), None);
    assert_eq!(stores.user_reader.users(&[nobody]).await.expect(WORKS), [None]);
}

/// Names from before the rules for new names stay readable.
pub async fn a_name_of_an_earlier_release_stays_readable(stores: ContractStores) {
    let display_name = DisplayName::from_stored(" p\u{430}y\u{202E}pal".to_owned()).expect("it was valid");
    let (user, _) = sign_in(
        &stores,
        UserKey::Phone(phone_number(1)),
        NewUser { display_name: display_name.clone(), ..new_user("Ada") },
    )
    .await;
    assert_eq!(user.display_name, display_name);
    assert_eq!(stores.user_reader.users(&[user.user_id]).await.expect(WORKS), [Some(user.clone())]);

    let name = ChatName::from_stored(" te\u{200B}am".to_owned()).expect("it was valid");
    let chat_id: ChatId = fresh();
    let group = NewGroup { chat_id, name: name.clone(), created_by: user.user_id, members: vec![], created_at: now() };
    stores.chat_writer.create_group(group).await.expect(WORKS);
    let chat = stores.chat_reader.chat(chat_id).await.expect(WORKS).expect("the group exists");
    assert_eq!(chat.name, Some(name));
}

async fn sign_in(stores: &ContractStores, key: UserKey, new: NewUser) -> (User, bool) {
    stores.user_writer.find_or_create(key, new).await.expect(WORKS)
}

fn new_user(name: &str) -> NewUser {
    NewUser {
        user_id: fresh(),
        display_name: display_name(name),
        group_invites: GroupInvites::default(),
        created_at: now(),
        proven_at: now(),
    }
}

fn display_name(text: &str) -> DisplayName {
    text.to_owned().try_into().expect("the name is valid")
}

fn phone_number(n: u8) -> PhoneNumber {
    format!("+155512345{n:02}").parse().expect("the number has the shape of E.164")
}
