use async_trait::async_trait;
use domain::{DisplayName, ExternalId, GroupInvites, PhoneNumber, PresenceVisibility, Timestamp, User, UserId};

use crate::StoreError;

/// The sign-in key of a user: it identifies the same user at every sign-in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UserKey {
    /// A verified phone number.
    Phone(PhoneNumber),
    /// The subject of a token of an external identity provider.
    External {
        /// The issuer of the token.
        issuer: String,
        /// The subject within the issuer.
        subject: ExternalId,
    },
}

impl UserKey {
    /// The `external_id` to add to a user who signs in with this key. Rows of an earlier version have none, and the row
    /// of a deleted account gets none.
    pub fn missing_external_id(&self, user: &User) -> Option<ExternalId> {
        match self {
            Self::External { subject, .. } if user.external_id.is_none() && user.deleted_at.is_none() => {
                Some(subject.clone())
            }
            _ => None,
        }
    }
}

/// The values of a user who may sign in for the first time.
#[derive(Clone, Debug)]
pub struct NewUser {
    /// The id of the user if the key is new.
    pub user_id: UserId,
    /// The display name if the key is new.
    pub display_name: DisplayName,
    /// The setting if the key is new.
    pub group_invites: GroupInvites,
    /// The creation time if the key is new.
    pub created_at: Timestamp,
    /// When the user proved to own the key: the issue time of an external token, or now.
    pub proven_at: Timestamp,
}

impl NewUser {
    /// The user of a sign-in key that is new.
    pub fn into_user(self, key: &UserKey) -> User {
        let (phone_number, external_id) = match key {
            UserKey::Phone(phone_number) => (Some(phone_number.clone()), None),
            UserKey::External { subject, .. } => (None, Some(subject.clone())),
        };
        User {
            user_id: self.user_id,
            phone_number,
            external_id,
            display_name: self.display_name,
            presence_visibility: PresenceVisibility::default(),
            group_invites: self.group_invites,
            created_at: self.created_at,
            updated_at: self.created_at,
            last_seen_at: None,
            deleted_at: None,
        }
    }
}

/// The fields of a user to set; absent fields stay unchanged.
#[derive(Clone, Debug, Default)]
pub struct UserUpdate {
    /// The display name.
    pub display_name: Option<DisplayName>,
    /// The audience of the user's presence.
    pub presence_visibility: Option<PresenceVisibility>,
    /// The users who may add the user to a group at once.
    pub group_invites: Option<GroupInvites>,
}

impl UserUpdate {
    /// The user after the update.
    pub fn applied(self, user: User, now: Timestamp) -> User {
        User {
            display_name: self.display_name.unwrap_or(user.display_name),
            presence_visibility: self.presence_visibility.unwrap_or(user.presence_visibility),
            group_invites: self.group_invites.unwrap_or(user.group_invites),
            updated_at: now,
            ..user
        }
    }
}

/// Reads users with strong consistency, because privacy decisions depend on the current settings.
#[async_trait]
pub trait UserReader: Send + Sync {
    /// Users by id, in the order of the arguments.
    async fn users(&self, user_ids: &[UserId]) -> Result<Vec<Option<User>>, StoreError>;

    /// Users by phone number, in the order of the arguments.
    async fn by_phone(&self, phone_numbers: &[PhoneNumber]) -> Result<Vec<Option<User>>, StoreError>;

    /// The user of a subject of an identity provider, unless the account was deleted.
    async fn by_external_id(&self, issuer: &str, external_id: &ExternalId) -> Result<Option<User>, StoreError>;
}

/// Creates and changes users.
#[async_trait]
pub trait UserWriter: Send + Sync {
    /// The user of a sign-in key, and whether this call created the user. Concurrent calls with one key create one
    /// user. The subject of a deleted account gets a new user, unless its token is older than the deletion: then the
    /// call returns the tombstone. The `external_id` of a user whom an earlier version stored without one is added.
    async fn find_or_create(&self, key: UserKey, new: NewUser) -> Result<(User, bool), StoreError>;

    /// Sets the given fields; `None` if the user does not exist.
    async fn update(&self, user_id: UserId, update: UserUpdate, now: Timestamp) -> Result<Option<User>, StoreError>;
}
