use std::fmt;
use std::str::FromStr;

use crate::{DisplayName, GroupInvites, PresenceVisibility, Timestamp, UserId};

/// A person who has signed in at least once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub user_id: UserId,
    /// Absent for users of an external identity provider.
    pub phone_number: Option<PhoneNumber>,
    /// Present for users of an external identity provider alone. The user and operators see it, other users do not.
    pub external_id: Option<ExternalId>,
    pub display_name: DisplayName,
    pub presence_visibility: PresenceVisibility,
    pub group_invites: GroupInvites,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The time of their last connect or disconnect; absent if they never connected.
    pub last_seen_at: Option<Timestamp>,
    /// The time at which their account was deleted. The row then is a tombstone, which old messages and member lists
    /// refer to.
    pub deleted_at: Option<Timestamp>,
}

impl User {
    /// Whether a sign-in key that leads to this user still does so for a proof of this time. The key of a deleted
    /// account is free for proofs of a later time; older ones lead to the tombstone.
    pub fn is_of_proof(&self, proven_at: Timestamp) -> bool {
        self.deleted_at.is_none_or(|deleted_at| proven_at < deleted_at)
    }

    /// The tombstone of the user: it keeps the id, to which other users' chats refer, and no personal data. A tombstone
    /// stays unchanged.
    ///
    /// Its presence is visible to everyone: its connections end after it is written, and viewers who were shown the user as
    /// online have to learn that. It never comes online again, and has no last-seen time.
    pub fn tombstone(&self, now: Timestamp) -> Self {
        if self.deleted_at.is_some() {
            return self.clone();
        }
        Self {
            user_id: self.user_id,
            phone_number: None,
            external_id: None,
            display_name: DisplayName::deleted_account(),
            presence_visibility: PresenceVisibility::Everyone,
            group_invites: GroupInvites::default(),
            created_at: self.created_at,
            updated_at: now,
            last_seen_at: None,
            deleted_at: Some(now),
        }
    }
}

/// The id of a user at an external identity provider: the subject of the user's tokens. Some providers use the e-mail
/// address, so `Debug` masks it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExternalId(String);

/// Why a text is not the id of a user at an identity provider. The error does not repeat the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an external id has 1 to {} bytes, this one has {bytes}", ExternalId::BYTES_MAX)]
pub struct ExternalIdError {
    bytes: usize,
}

impl ExternalId {
    /// Maximum length in bytes.
    pub const BYTES_MAX: usize = 255;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ExternalId {
    type Error = ExternalIdError;

    fn try_from(text: String) -> Result<Self, ExternalIdError> {
        let bytes = text.len();
        if (1..=Self::BYTES_MAX).contains(&bytes) { Ok(Self(text)) } else { Err(ExternalIdError { bytes }) }
    }
}

impl FromStr for ExternalId {
    type Err = ExternalIdError;

    fn from_str(text: &str) -> Result<Self, ExternalIdError> {
        text.to_owned().try_into()
    }
}

impl fmt::Debug for ExternalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "… ({} bytes)", self.0.len())
    }
}

/// A phone number in E.164: `+` and 7 to 15 digits. `Debug` masks all but the last two digits.
///
/// This type checks the format only. `auth` checks with a library whether the number can exist.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PhoneNumber(String);

/// Not an E.164 number. The error does not repeat the number, to keep phone numbers out of responses and logs.
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
            external_id: Some("ada@shop.example".parse().unwrap()),
            display_name: "Ada".to_owned().try_into().unwrap(),
            presence_visibility: PresenceVisibility::ContactsOnly,
            group_invites: GroupInvites::Contacts,
            created_at: Timestamp::from_millis(1),
            updated_at: Timestamp::from_millis(2),
            last_seen_at: Some(Timestamp::from_millis(3)),
            deleted_at: None,
        };
        let tombstone = user.tombstone(Timestamp::from_millis(7));
        assert_eq!((&tombstone.phone_number, &tombstone.external_id, tombstone.last_seen_at), (&None, &None, None));
        assert_eq!(tombstone.group_invites, GroupInvites::default());
        assert_eq!(tombstone.presence_visibility, PresenceVisibility::Everyone);
        assert_eq!(tombstone.display_name.as_str(), "Deleted account");
        assert_eq!(tombstone.deleted_at, Some(Timestamp::from_millis(7)));
        assert_eq!(tombstone.tombstone(Timestamp::from_millis(9)), tombstone);
    }

    #[test]
    fn debug_masks_the_number_and_the_external_id() {
        assert_eq!(format!("{:?}", "+15551234567".parse::<PhoneNumber>().unwrap()), "+…67");
        assert_eq!(format!("{:?}", "ada@shop.example".parse::<ExternalId>().unwrap()), "… (16 bytes)");
    }

    #[test]
    fn an_external_id_has_at_most_255_bytes() {
        assert!("a".repeat(255).parse::<ExternalId>().is_ok());
        let error = "a".repeat(256).parse::<ExternalId>().unwrap_err();
        assert_eq!(error.to_string(), "an external id has 1 to 255 bytes, this one has 256");
        assert!("".parse::<ExternalId>().is_err());
    }
}
