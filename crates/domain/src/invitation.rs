use serde::{Deserialize, Serialize};

use crate::limits::{
    INVITATION_DECLINES_MAX, INVITATION_LIFETIME, INVITATIONS_PENDING_MAX, INVITATIONS_PER_INVITER_MAX,
};
use crate::{ChatId, Timestamp, UserId};

/// Decides which users may add a user to a group at once. All others can only invite the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupInvites {
    #[default]
    Everyone,
    /// Users in the user's contact list. The list of the other user is irrelevant, because anyone can list anyone.
    Contacts,
    Nobody,
}

impl GroupInvites {
    pub const ALL: [Self; 3] = [Self::Everyone, Self::Contacts, Self::Nobody];

    /// Whether another user may add this user at once; `is_contact` says whether this user has listed the other one.
    pub fn admits(self, is_contact: bool) -> bool {
        match self {
            Self::Everyone => true,
            Self::Contacts => is_contact,
            Self::Nobody => false,
        }
    }

    /// Whether the decision depends on the contact list.
    pub fn asks_contacts(self) -> bool {
        self.admits(true) != self.admits(false)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Everyone => "everyone",
            Self::Contacts => "contacts",
            Self::Nobody => "nobody",
        }
    }
}

/// An unknown setting of [`GroupInvites`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not one of everyone, contacts, nobody")]
pub struct UnknownGroupInvites(String);

impl std::str::FromStr for GroupInvites {
    type Err = UnknownGroupInvites;

    fn from_str(text: &str) -> Result<Self, UnknownGroupInvites> {
        Self::ALL.into_iter().find(|it| it.as_str() == text).ok_or_else(|| UnknownGroupInvites(text.to_owned()))
    }
}

/// The invitation of a user to a group. A user has at most one for each group.
///
/// A declined invitation stays for a while, because it prevents a new one to the same group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invitation {
    pub chat_id: ChatId,
    /// The invited user.
    pub user_id: UserId,
    /// The member who would have added the user. The invitation is worth what this member may do at its acceptance.
    pub invited_by: UserId,
    pub created_at: Timestamp,
    /// Present once the user has declined it.
    pub declined_at: Option<Timestamp>,
}

impl Invitation {
    pub fn new(chat_id: ChatId, user_id: UserId, invited_by: UserId, created_at: Timestamp) -> Self {
        Self { chat_id, user_id, invited_by, created_at, declined_at: None }
    }

    /// The time at which a pending invitation expires, or at which a declined one no longer prevents a new one.
    pub fn ends_at(&self) -> Timestamp {
        self.declined_at.unwrap_or(self.created_at) + INVITATION_LIFETIME
    }

    pub fn is_over(&self, now: Timestamp) -> bool {
        self.ends_at() <= now
    }

    /// Whether the user can accept or decline it.
    pub fn is_pending(&self, now: Timestamp) -> bool {
        self.declined_at.is_none() && !self.is_over(now)
    }

    /// Whether a store keeps this new invitation, given the stored ones of the same user. It drops one to a group that
    /// the user has declined, and one beyond the bounds. It replaces a pending one to the same group.
    ///
    /// The inviter learns nothing of this: a refusal would reveal the decline, or the contents of the user's list.
    pub fn is_kept(&self, stored: &[Self], now: Timestamp) -> bool {
        let is_declined = stored.iter().any(|it| it.chat_id == self.chat_id && !it.is_pending(now) && !it.is_over(now));
        let others = || stored.iter().filter(|it| it.chat_id != self.chat_id && it.is_pending(now));
        let of_inviter = others().filter(|it| it.invited_by == self.invited_by).count();
        !is_declined && others().count() < INVITATIONS_PENDING_MAX && of_inviter < INVITATIONS_PER_INVITER_MAX
    }

    /// The invitation after the user has declined it, given the stored ones of the same user; `None` if the store keeps
    /// no further declined ones and deletes it.
    pub fn declined(self, stored: &[Self], now: Timestamp) -> Option<Self> {
        let declined = stored.iter().filter(|it| it.declined_at.is_some() && !it.is_over(now)).count();
        (declined < INVITATION_DECLINES_MAX).then_some(Self { declined_at: Some(now), ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invitation(chat: u16, inviter: u8) -> Invitation {
        let mut chat_id = [0; 16];
        chat_id[..2].copy_from_slice(&chat.to_be_bytes());
        let [user_id, invited_by] = [1, inviter].map(|n| UserId::from_bytes([n; 16]));
        Invitation::new(ChatId::from_bytes(chat_id), user_id, invited_by, Timestamp::from_millis(1))
    }

    #[test]
    fn consent_is_one_table() {
        let table = [
            (GroupInvites::Everyone, true, true),
            (GroupInvites::Contacts, true, false),
            (GroupInvites::Nobody, false, false),
        ];
        for (setting, contact, stranger) in table {
            assert_eq!((setting.admits(true), setting.admits(false)), (contact, stranger), "{setting:?}");
            assert_eq!(setting.asks_contacts(), setting == GroupInvites::Contacts);
            assert_eq!(setting.as_str().parse(), Ok(setting));
            assert_eq!(serde_json::to_value(setting).unwrap(), setting.as_str());
        }
        assert!("friends".parse::<GroupInvites>().is_err());
    }

    #[test]
    fn an_invitation_is_pending_for_its_lifetime() {
        let (one, end) = (invitation(1, 2), Timestamp::from_millis(1) + INVITATION_LIFETIME);
        let before = Timestamp::from_millis(end.as_millis() - 1);
        assert!(one.is_pending(before) && !one.is_pending(end) && one.is_over(end));
        let declined = one.declined(&[one], before).unwrap();
        assert!(!declined.is_pending(before) && !declined.is_over(end));
        assert!(declined.is_over(before + INVITATION_LIFETIME));
    }

    #[test]
    fn a_repeated_invitation_is_kept_while_the_first_is_pending_or_over_and_not_once_it_is_declined() {
        let now = Timestamp::from_millis(5);
        let one = invitation(1, 2);
        assert!(invitation(1, 3).is_kept(&[one], now));
        let declined = one.declined(&[one], now).unwrap();
        assert!(!invitation(1, 3).is_kept(&[declined], now), "nor by another member");
        assert!(invitation(2, 2).is_kept(&[declined], now), "another group");
        assert!(invitation(1, 3).is_kept(&[declined], now + INVITATION_LIFETIME));
    }

    #[test]
    fn pending_invitations_are_bounded_in_all_and_by_inviter() {
        let now = Timestamp::from_millis(5);
        let from = |inviters: std::ops::Range<u8>, each: usize| -> Vec<Invitation> {
            let chats = inviters.flat_map(|inviter| (0..each).map(move |n| (inviter, n)));
            chats.map(|(inviter, n)| invitation(u16::from(inviter) * 100 + n as u16, inviter)).collect()
        };
        let one_inviter = from(2..3, INVITATIONS_PER_INVITER_MAX);
        assert!(!invitation(9, 2).is_kept(&one_inviter, now) && invitation(9, 3).is_kept(&one_inviter, now));
        assert!(invitation(200, 2).is_kept(&one_inviter, now), "it replaces its own");
        let mut all = from(2..12, INVITATIONS_PENDING_MAX / 10);
        assert_eq!(all.len(), INVITATIONS_PENDING_MAX);
        assert!(!invitation(9, 20).is_kept(&all, now));
        all[0].declined_at = Some(now);
        assert!(invitation(9, 20).is_kept(&all, now), "a declined one is not pending");
    }

    #[test]
    fn declines_are_remembered_up_to_their_bound() {
        let now = Timestamp::from_millis(5);
        let declined = |n| Invitation { declined_at: Some(now), ..invitation(n, 2) };
        let mut all: Vec<_> = (0..INVITATION_DECLINES_MAX as u16).map(declined).collect();
        assert_eq!(invitation(999, 2).declined(&all, now), None);
        all.pop();
        assert!(invitation(999, 2).declined(&all, now).is_some());
    }
}
