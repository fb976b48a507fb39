use async_trait::async_trait;
use aws_lc_rs::digest;
use aws_sdk_dynamodb::types::AttributeValue;
use domain::{DisplayName, ExternalId, GroupInvites, PhoneNumber, PresenceVisibility, Timestamp, User, UserId};
use ports::{NewUser, StoreError, UserKey, UserReader, UserUpdate, UserWriter};

use crate::DynamoStore;
use crate::db;
use crate::item::{DynamoItem, ItemKey, ItemReader, UPDATED_AT, hex, item, text};
use crate::schema::Table;
use crate::write::{AttributeChange, Condition, Write};

/// The last-seen time; absent if the user was never seen.
pub(crate) const LAST_SEEN_AT: &str = "last_seen_at";
/// The setting of group invitations; absent if everyone may add the user, so that a user without an item consents too.
pub(crate) const GROUP_INVITES: &str = "group_invites";
/// The id at the identity provider; absent for users of a phone number.
const EXTERNAL_ID: &str = "external_id";
/// The time of the account's deletion; absent if it was not deleted.
const DELETED_AT: &str = "deleted_at";

#[async_trait]
impl UserReader for DynamoStore {
    async fn users(&self, user_ids: &[UserId]) -> Result<Vec<Option<User>>, StoreError> {
        let keys: Vec<_> = user_ids.iter().map(|user_id| user_row(*user_id)).collect();
        let items = self.db().get_many(&keys).await?;
        items.into_iter().map(|item| item.map(|item| read_user(&item)).transpose()).collect()
    }

    async fn by_phone(&self, phone_numbers: &[PhoneNumber]) -> Result<Vec<Option<User>>, StoreError> {
        let key = |phone_number: &PhoneNumber| user_key(&UserKey::Phone(phone_number.clone()));
        self.living_users(&phone_numbers.iter().map(key).collect::<Vec<_>>()).await
    }

    async fn by_external_id(&self, issuer: &str, external_id: &ExternalId) -> Result<Option<User>, StoreError> {
        let key = user_key(&UserKey::External { issuer: issuer.to_owned(), subject: external_id.clone() });
        Ok(self.living_users(&[key]).await?.pop().flatten())
    }
}

#[async_trait]
impl UserWriter for DynamoStore {
    async fn find_or_create(&self, key: UserKey, new: NewUser) -> Result<(User, bool), StoreError> {
        let owner = user_key(&key);
        let proven_at = new.proven_at;
        let user = new.into_user(&key);
        db::undisturbed(|| async {
            let mut deleted = None;
            if let Some(item) = self.db().get(&owner).await? {
                let user_id = read_owner(&item)?;
                if matches!(key, UserKey::External { .. }) && !item.contains_key("issuer") {
                    // An earlier version did not store the issuer and subject, which a transfer needs.
                    let same = || Condition::Equals("user_id", text(user_id));
                    let whole = || vec![Write::put(owner.clone(), owner_item(&key, user_id)).when(same())];
                    self.db().transact(whole).await?;
                }
                let found = self.users(&[user_id]).await?.pop().flatten();
                let row = ItemReader { table: Table::UserKeys, item: &item };
                let found = found.ok_or_else(|| row.unreadable(format!("user `{user_id}` is not in `users`")))?;
                if found.is_of_proof(proven_at) {
                    return match key.missing_external_id(&found) {
                        Some(missing) => self.add_external_id(found, missing).await,
                        None => Ok(Some((found, false))),
                    };
                }
                deleted = Some(user_id);
            }
            let writes = || {
                let owned = Write::put(owner.clone(), owner_item(&key, user.user_id));
                vec![
                    owned.when(Condition::is("user_id", deleted.map(text))),
                    Write::create(user_row(user.user_id), user_item(&user)),
                ]
            };
            Ok(self.db().transact(writes).await?.is_committed().then(|| (user.clone(), true)))
        })
        .await
    }

    async fn update(&self, user_id: UserId, update: UserUpdate, now: Timestamp) -> Result<Option<User>, StoreError> {
        let key = user_row(user_id);
        let writes = || {
            let UserUpdate { display_name, presence_visibility, group_invites } = &update;
            let name = display_name.as_ref().map(|name| ("display_name", Some(text(name.as_str()))));
            let visibility = presence_visibility.map(|it| ("presence_visibility", Some(text(visibility_text(it)))));
            let invites = group_invites.map(|it| (GROUP_INVITES, group_invites_value(it)));
            let given = [name, visibility, invites, Some(("updated_at", Some(text(now))))].into_iter().flatten();
            let changes = given.map(|(name, value)| AttributeChange::Set(name, value)).collect();
            vec![Write::update(key.clone(), changes).if_there()]
        };
        if !self.db().transact(writes).await?.is_committed() {
            return Ok(None);
        }
        Ok(self.users(&[user_id]).await?.pop().flatten())
    }
}

impl DynamoStore {
    /// The users of sign-in keys, in the order of the keys; `None` where the account was deleted.
    async fn living_users(&self, keys: &[ItemKey]) -> Result<Vec<Option<User>>, StoreError> {
        let mut found = vec![];
        for item in self.db().get_many(keys).await? {
            found.push(item.map(|item| read_owner(&item)).transpose()?);
        }
        let user_ids: Vec<UserId> = found.iter().flatten().copied().collect();
        let mut users = self.users(&user_ids).await?.into_iter();
        let living = |user: &User| user.deleted_at.is_none();
        Ok(found.into_iter().map(|user_id| user_id.and_then(|_| users.next().flatten()).filter(living)).collect())
    }

    /// Adds the id that an earlier version did not store; `None` if the user has changed since it was read. A deletion
    /// changes the user, so a tombstone gets no id.
    async fn add_external_id(&self, user: User, missing: ExternalId) -> Result<Option<(User, bool)>, StoreError> {
        let writes = || {
            let change = AttributeChange::Set(EXTERNAL_ID, Some(text(missing.as_str())));
            let unchanged = Condition::Equals(UPDATED_AT, text(user.updated_at));
            vec![Write::update(user_row(user.user_id), vec![change]).when(unchanged)]
        };
        let is_committed = self.db().transact(writes).await?.is_committed();
        Ok(is_committed.then(|| (User { external_id: Some(missing.clone()), ..user.clone() }, false)))
    }
}

/// The item of a user.
pub(crate) fn user_row(user_id: UserId) -> ItemKey {
    ItemKey::one(Table::Users, user_id)
}

/// The item that maps a sign-in key to its user. The key is a digest, because an issuer may be of any length, and a
/// phone number must not appear in errors or logs.
pub(crate) fn user_key(key: &UserKey) -> ItemKey {
    let (kind, parts) = match key {
        UserKey::Phone(phone_number) => ("phone", [phone_number.as_str(), ""]),
        UserKey::External { issuer, subject } => ("external", [issuer.as_str(), subject.as_str()]),
    };
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        // The length prefix keeps adjacent parts from being confused.
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part.as_bytes());
    }
    ItemKey::one(Table::UserKeys, format_args!("{kind}#{}", hex(context.finish().as_ref())))
}

/// The user of a sign-in key. For an external subject it includes issuer and subject, because a transfer needs both.
pub(crate) fn owner_item(key: &UserKey, user_id: UserId) -> DynamoItem {
    let (issuer, subject) = match key {
        UserKey::Phone(_) => (None, None),
        UserKey::External { issuer, subject } => (Some(text(issuer)), Some(text(subject.as_str()))),
    };
    item([("user_id", Some(text(user_id))), ("issuer", issuer), ("subject", subject)])
}

pub(crate) fn read_owner(item: &DynamoItem) -> Result<UserId, StoreError> {
    ItemReader { table: Table::UserKeys, item }.parsed("user_id")
}

/// The sign-in key of an item. The key of a phone number has only a digest; the number is in the user's row.
pub(crate) fn read_user_key(item: &DynamoItem, user_id: UserId, user: Option<User>) -> Result<UserKey, StoreError> {
    let row = ItemReader { table: Table::UserKeys, item };
    if row.text("user_key")?.starts_with("phone#") {
        let phone_number = user.and_then(|user| user.phone_number);
        let missing = || row.unreadable(format!("`{user_id}` has no phone number"));
        return Ok(UserKey::Phone(phone_number.ok_or_else(missing)?));
    }
    let part = |name| {
        let earlier = || {
            row.unreadable(format!(
                "the key of `{user_id}` was written by an earlier version and has no {name}; it gets one when the \
                 user has signed in once more"
            ))
        };
        row.maybe_text(name)?.map(str::to_owned).ok_or_else(earlier)
    };
    let subject = ExternalId::try_from(part("subject")?).map_err(|error| row.unreadable(error))?;
    Ok(UserKey::External { issuer: part("issuer")?, subject })
}

pub(crate) fn user_item(user: &User) -> DynamoItem {
    item([
        ("phone_number", user.phone_number.as_ref().map(|phone_number| text(phone_number.as_str()))),
        // A number is stored only after its owner has proven it with a code.
        ("phone_verified", user.phone_number.as_ref().map(|_| AttributeValue::Bool(true))),
        (EXTERNAL_ID, user.external_id.as_ref().map(|external_id| text(external_id.as_str()))),
        ("display_name", Some(text(user.display_name.as_str()))),
        ("presence_visibility", Some(text(visibility_text(user.presence_visibility)))),
        (GROUP_INVITES, group_invites_value(user.group_invites)),
        ("created_at", Some(text(user.created_at))),
        (UPDATED_AT, Some(text(user.updated_at))),
        (LAST_SEEN_AT, user.last_seen_at.map(text)),
        (DELETED_AT, user.deleted_at.map(text)),
    ])
}

pub(crate) fn read_user(item: &DynamoItem) -> Result<User, StoreError> {
    let row = ItemReader { table: Table::Users, item };
    Ok(User {
        user_id: row.parsed("user_id")?,
        phone_number: row.maybe_parsed("phone_number")?,
        external_id: row.maybe_parsed(EXTERNAL_ID)?,
        display_name: DisplayName::from_stored(row.text("display_name")?.to_owned())
            .map_err(|error| row.unreadable(error))?,
        presence_visibility: match row.text("presence_visibility")? {
            "everyone" => PresenceVisibility::Everyone,
            "contacts_only" => PresenceVisibility::ContactsOnly,
            "nobody" => PresenceVisibility::Nobody,
            other => return Err(row.unreadable(format!("`{other}` is not a visibility"))),
        },
        group_invites: row.maybe_parsed(GROUP_INVITES)?.unwrap_or_default(),
        created_at: row.parsed("created_at")?,
        updated_at: row.parsed("updated_at")?,
        last_seen_at: row.maybe_parsed(LAST_SEEN_AT)?,
        deleted_at: row.maybe_parsed(DELETED_AT)?,
    })
}

/// The attribute [`GROUP_INVITES`].
pub(crate) fn group_invites_value(setting: GroupInvites) -> Option<AttributeValue> {
    (setting != GroupInvites::Everyone).then(|| text(setting.as_str()))
}

fn visibility_text(visibility: PresenceVisibility) -> &'static str {
    match visibility {
        PresenceVisibility::Everyone => "everyone",
        PresenceVisibility::ContactsOnly => "contacts_only",
        PresenceVisibility::Nobody => "nobody",
    }
}

#[cfg(test)]
mod tests {
    use ports::{Clock, Ids, RandomIds, SystemClock};

    use super::*;
    use crate::testing::DynamoServer;

    #[tokio::test]
    async fn a_stored_phone_number_is_a_verified_one() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let phone = UserKey::Phone("+14155550123".parse().unwrap());
        let external = UserKey::External { issuer: "https://id.example".to_owned(), subject: "bob".parse().unwrap() };
        for (key, verified) in [(phone, Some(AttributeValue::Bool(true))), (external, None)] {
            let new = NewUser {
                user_id: RandomIds.ulid().into(),
                display_name: "Bob".to_owned().try_into().unwrap(),
                group_invites: GroupInvites::default(),
                created_at: SystemClock.now(),
                proven_at: SystemClock.now(),
            };
            let (user, _) = store.find_or_create(key, new).await.unwrap();
            let item = store.db().get(&user_row(user.user_id)).await.unwrap().unwrap();
            assert_eq!(item.get("phone_verified"), verified.as_ref());
            // A deleted account has no number, so none is verified.
            let tombstone = user_item(&user.tombstone(SystemClock.now()));
            assert_eq!((tombstone.get("phone_number"), tombstone.get("phone_verified")), (None, None));
            assert_eq!(tombstone.get(EXTERNAL_ID), None);
        }
    }
}
