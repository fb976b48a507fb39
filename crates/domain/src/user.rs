use std::fmt;
use std::str::FromStr;

use crate::{DisplayName, PresenceVisibility, Timestamp, UserId};

/// A person who has signed in at least once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub user_id: UserId,
    /// Absent for users who come with another system's tokens.
    pub phone_number: Option<PhoneNumber>,
    pub display_name: DisplayName,
    pub presence_visibility: PresenceVisibility,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// When they last came or went; absent for somebody who never connected.
    pub last_seen_at: Option<Timestamp>,
    /// When their account was deleted. What is left is a tombstone, which old messages and members lists lead to.
    pub deleted_at: Option<Timestamp>,
}

impl User {
    /// What is left of a user whose account is deleted: the id that others' chats still name, and nothing of the person. A
    /// tombstone stays as it is.
    pub fn tombstone(&self, now: Timestamp) -> Self {
        if self.deleted_at.is_some() {
            return self.clone();
        }
        Self {
            user_id: self.user_id,
            phone_number: None,
            display_name: DisplayName::deleted_account(),
            presence_visibility: PresenceVisibility::Nobody,
            created_at: self.created_at,
            updated_at: now,
            last_seen_at: None,
            deleted_at: Some(now),
        }
    }
}

/// A phone number in E.164, `+` and 7 to 15 digits. `Debug` masks all but its last two digits.
///
/// The shape alone is checked here; whether a number can exist is for `auth` to say, with a real library.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PhoneNumber(String);

/// Not a number in E.164. It does not repeat the number: phone numbers stay out of answers and logs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("phone number is not in E.164 form (+ and 7 to 15 digits)")]
pub struct PhoneNumberError;

impl PhoneNumber {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PhoneNumber {
    type Err = PhoneNumberError;

    fn from_str(text: &str) -> Result<Self, PhoneNumberError> {
        let digits = text.strip_prefix('+').ok_or(PhoneNumberError)?;
        let fits = (7..=15).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        if fits && !digits.starts_with('0') { Ok(Self(text.to_owned())) } else { Err(PhoneNumberError) }
    }
}

impl fmt::Debug for PhoneNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+…{}", &self.0[self.0.len() - 2..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phone_numbers_have_the_shape_of_e164() {
        for bad in
            ["", "+", "15551234567", "+1555", "+0123456789", "+1555123456789012", "+1555 1234567", "+１５５５１２３４"]
        {
            assert_eq!(bad.parse::<PhoneNumber>(), Err(PhoneNumberError), "{bad}");
        }
        assert!("+15551234567".parse::<PhoneNumber>().is_ok());
    }

    #[test]
    fn of_a_deleted_account_the_first_tombstone_stays() {
        let user = User {
            user_id: UserId::from_bytes([1; 16]),
            phone_number: Some("+15551234567".parse().unwrap()),
            display_name: "Ada".to_owned().try_into().unwrap(),
            presence_visibility: PresenceVisibility::Everyone,
            created_at: Timestamp::from_millis(1),
            updated_at: Timestamp::from_millis(2),
            last_seen_at: Some(Timestamp::from_millis(3)),
            deleted_at: None,
        };
        let tombstone = user.tombstone(Timestamp::from_millis(7));
        assert_eq!((&tombstone.phone_number, tombstone.last_seen_at), (&None, None));
        assert_eq!(tombstone.display_name.as_str(), "Deleted account");
        assert_eq!(tombstone.deleted_at, Some(Timestamp::from_millis(7)));
        assert_eq!(tombstone.tombstone(Timestamp::from_millis(9)), tombstone);
    }

    #[test]
    fn debug_masks_the_number() {
        assert_eq!(format!("{:?}", "+15551234567".parse::<PhoneNumber>().unwrap()), "+…67");
    }
}
