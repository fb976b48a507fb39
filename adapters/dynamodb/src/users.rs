use async_trait::async_trait;
use aws_lc_rs::digest;
use domain::{DisplayName, PhoneNumber, PresenceVisibility, Timestamp, User, UserId};
use ports::{NewUser, StoreError, UserKey, UserReader, UserWriter};

use crate::DynamoStore;
use crate::db;
use crate::item::{Item, Key, Row, hex, item, text};
use crate::schema::Table;
use crate::write::{Change, Condition, Write};

/// When a user was last seen; absent while they never were.
pub(crate) const LAST_SEEN_AT: &str = "last_seen_at";
/// When an account was deleted; absent while it was not.
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
        let keys: Vec<_> = phone_numbers.iter().map(key).collect();
        let mut found = vec![];
        for item in self.db().get_many(&keys).await? {
            found.push(item.map(|item| read_owner(&item)).transpose()?);
        }
        let user_ids: Vec<UserId> = found.iter().flatten().copied().collect();
        let mut users = self.users(&user_ids).await?.into_iter();
        let living = |user: &User| user.deleted_at.is_none();
        Ok(found.into_iter().map(|user_id| user_id.and_then(|_| users.next().flatten()).filter(living)).collect())
    }
}

#[async_trait]
impl UserWriter for DynamoStore {
    async fn find_or_create(&self, key: UserKey, new: NewUser) -> Result<(User, bool), StoreError> {
        let owner = user_key(&key);
        let phone_number = match &key {
            UserKey::Phone(phone_number) => Some(phone_number.clone()),
            UserKey::External { .. } => None,
        };
        let user = User {
            user_id: new.user_id,
            phone_number,
            display_name: new.display_name,
            presence_visibility: PresenceVisibility::default(),
            created_at: new.created_at,
            updated_at: new.created_at,
            last_seen_at: None,
            deleted_at: None,
        };
        db::undisturbed(|| async {
            let mut deleted = None;
            if let Some(item) = self.db().get(&owner).await? {
                let user_id = read_owner(&item)?;
                if matches!(key, UserKey::External { .. }) && !item.contains_key("issuer") {
                    // An earlier version wrote less, and whoever moves the user elsewhere needs to know.
                    let same = || Condition::Equals("user_id", text(user_id));
                    let whole = || vec![Write::put(owner.clone(), owner_item(&key, user_id)).when(same())];
                    self.db().transact(whole).await?;
                }
                let found = self.users(&[user_id]).await?.pop().flatten();
                let row = Row { table: Table::UserKeys, item: &item };
                let found = found.ok_or_else(|| row.unreadable(format!("user `{user_id}` is not in `users`")))?;
                if found.deleted_at.is_none() {
                    return Ok(Some((found, false)));
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

    async fn update(
        &self,
        user_id: UserId,
        display_name: Option<DisplayName>,
        presence_visibility: Option<PresenceVisibility>,
        now: Timestamp,
    ) -> Result<Option<User>, StoreError> {
        let key = user_row(user_id);
        let writes = || {
            let name = display_name.as_ref().map(|name| ("display_name", text(name.as_str())));
            let visibility = presence_visibility.map(|it| ("presence_visibility", text(visibility_text(it))));
            let given = [name, visibility, Some(("updated_at", text(now)))].into_iter().flatten();
            let changes = given.map(|(name, value)| Change::Set(name, Some(value))).collect();
            vec![Write::update(key.clone(), changes).if_there()]
        };
        if !self.db().transact(writes).await?.is_committed() {
            return Ok(None);
        }
        Ok(self.users(&[user_id]).await?.pop().flatten())
    }
}

/// The item of a user.
pub(crate) fn user_row(user_id: UserId) -> Key {
    Key::one(Table::Users, user_id)
}

/// Where a key says whose it is: under a digest, because an issuer may be of any length and a phone number is nobody's
/// business in an error or a log.
pub(crate) fn user_key(key: &UserKey) -> Key {
    let (kind, parts) = match key {
        UserKey::Phone(phone_number) => ("phone", [phone_number.as_str(), ""]),
        UserKey::External { issuer, subject } => ("external", [issuer.as_str(), subject.as_str()]),
    };
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        // With its length before it, no part runs into the next.
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part.as_bytes());
    }
    Key::one(Table::UserKeys, format_args!("{kind}#{}", hex(context.finish().as_ref())))
}

/// Whose a key is. That of another system's subject says what it was made of, because nothing else does.
pub(crate) fn owner_item(key: &UserKey, user_id: UserId) -> Item {
    let (issuer, subject) = match key {
        UserKey::Phone(_) => (None, None),
        UserKey::External { issuer, subject } => (Some(text(issuer)), Some(text(subject))),
    };
    item([("user_id", Some(text(user_id))), ("issuer", issuer), ("subject", subject)])
}

pub(crate) fn read_owner(item: &Item) -> Result<UserId, StoreError> {
    Row { table: Table::UserKeys, item }.parsed("user_id")
}

pub(crate) fn user_item(user: &User) -> Item {
    item([
        ("phone_number", user.phone_number.as_ref().map(|phone_number| text(phone_number.as_str()))),
        ("display_name", Some(text(user.display_name.as_str()))),
        ("presence_visibility", Some(text(visibility_text(user.presence_visibility)))),
        ("created_at", Some(text(user.created_at))),
        ("updated_at", Some(text(user.updated_at))),
        (LAST_SEEN_AT, user.last_seen_at.map(text)),
        (DELETED_AT, user.deleted_at.map(text)),
    ])
}

pub(crate) fn read_user(item: &Item) -> Result<User, StoreError> {
    let row = Row { table: Table::Users, item };
    Ok(User {
        user_id: row.parsed("user_id")?,
        phone_number: row.maybe_parsed("phone_number")?,
        display_name: row.made("display_name")?,
        presence_visibility: match row.text("presence_visibility")? {
            "everyone" => PresenceVisibility::Everyone,
            "contacts_only" => PresenceVisibility::ContactsOnly,
            "nobody" => PresenceVisibility::Nobody,
            other => return Err(row.unreadable(format!("`{other}` is no visibility"))),
        },
        created_at: row.parsed("created_at")?,
        updated_at: row.parsed("updated_at")?,
        last_seen_at: row.maybe_parsed(LAST_SEEN_AT)?,
        deleted_at: row.maybe_parsed(DELETED_AT)?,
    })
}

fn visibility_text(visibility: PresenceVisibility) -> &'static str {
    match visibility {
        PresenceVisibility::Everyone => "everyone",
        PresenceVisibility::ContactsOnly => "contacts_only",
        PresenceVisibility::Nobody => "nobody",
    }
}
