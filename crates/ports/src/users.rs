use async_trait::async_trait;
use domain::{DisplayName, GroupInvites, PhoneNumber, PresenceVisibility, Timestamp, User, UserId};

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
        /// The subject within the issuer; at most 255 bytes.
        subject: String,
    },
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
}

/// Creates and changes users.
#[async_trait]
pub trait UserWriter: Send + Sync {
    /// The user of a sign-in key, and whether this call created the user. Concurrent calls with one key create one
    /// user. The subject of a deleted account gets a new user, unless its token is older than the deletion: then the
    /// call returns the tombstone.
    async fn find_or_create(&self, key: UserKey, new: NewUser) -> Result<(User, bool), StoreError>;

    /// Sets the given fields; `None` if the user does not exist.
    async fn update(&self, user_id: UserId, update: UserUpdate, now: Timestamp) -> Result<Option<User>, StoreError>;
}
