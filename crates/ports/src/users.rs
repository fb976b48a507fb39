use async_trait::async_trait;
use domain::{DisplayName, PhoneNumber, PresenceVisibility, Timestamp, User, UserId};

use crate::StoreError;

/// What makes a user the same person at every sign-in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UserKey {
    /// A verified phone number.
    Phone(PhoneNumber),
    /// The subject of another system's tokens.
    External {
        /// Who issued the token.
        issuer: String,
        /// Who it is about, in the issuer's words; at most 255 bytes.
        subject: String,
    },
}

/// A user who signs in for the first time, perhaps.
#[derive(Clone, Debug)]
pub struct NewUser {
    /// The id given if the key is new.
    pub user_id: UserId,
    /// The name given if the key is new.
    pub display_name: DisplayName,
    /// The time given if the key is new.
    pub created_at: Timestamp,
}

/// Reads users. What is read is what was written last: whether somebody may be seen is judged by it.
#[async_trait]
pub trait UserReader: Send + Sync {
    /// Users by id, in the order asked.
    async fn users(&self, user_ids: &[UserId]) -> Result<Vec<Option<User>>, StoreError>;

    /// Users by phone number, in the order asked.
    async fn by_phone(&self, phone_numbers: &[PhoneNumber]) -> Result<Vec<Option<User>>, StoreError>;
}

/// Creates and changes users.
#[async_trait]
pub trait UserWriter: Send + Sync {
    /// The user of a key, and whether it was made now. However many ask at once, one user comes of it.
    async fn find_or_create(&self, key: UserKey, new: NewUser) -> Result<(User, bool), StoreError>;

    /// Sets what is given; `None` if there is no such user.
    async fn update(
        &self,
        user_id: UserId,
        display_name: Option<DisplayName>,
        presence_visibility: Option<PresenceVisibility>,
        now: Timestamp,
    ) -> Result<Option<User>, StoreError>;
}
