use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Decides which users may see a user's presence and last-seen time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PresenceVisibility {
    Everyone,
    #[default]
    ContactsOnly,
    Nobody,
}

/// The relation of a viewer to a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ViewerRelation {
    /// The same user, on any device.
    Oneself,
    /// Mutual contacts.
    MutualContact,
    /// All other users, including contacts listed by one side only.
    Stranger,
    /// A user whom the user has blocked. This overrides every other relation.
    Blocked,
}

impl PresenceVisibility {
    /// Whether presence and last-seen time may be shown: one rule for queries, subscriptions and pushes.
    pub fn admits(self, viewer: ViewerRelation) -> bool {
        match (self, viewer) {
            (_, ViewerRelation::Blocked) => false,
            (_, ViewerRelation::Oneself)
            | (Self::Everyone, _)
            | (Self::ContactsOnly, ViewerRelation::MutualContact) => true,
            (Self::ContactsOnly, ViewerRelation::Stranger) | (Self::Nobody, _) => false,
        }
    }

    /// Whether any other user may see it.
    pub fn shows_anybody(self) -> bool {
        self.admits(ViewerRelation::MutualContact)
    }

    /// Whether the decision depends on contact lists.
    pub fn asks_contacts(self) -> bool {
        self.admits(ViewerRelation::MutualContact) != self.admits(ViewerRelation::Stranger)
    }
}

/// Whether a user has a connection, on any device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnlineStatus {
    Online,
    /// The user has no connection.
    Offline {
        last_seen: Timestamp,
    },
}

/// The presence of a user as another user sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresenceView {
    Online,
    Offline {
        /// Absent if the user was never seen, or if the time may not be shown.
        last_seen: Option<Timestamp>,
    },
    /// The presence is hidden, currently unavailable, or the user does not exist. The cases are deliberately
    /// indistinguishable.
    Unknown,
}

impl From<OnlineStatus> for PresenceView {
    fn from(standing: OnlineStatus) -> Self {
        match standing {
            OnlineStatus::Online => Self::Online,
            OnlineStatus::Offline { last_seen } => Self::Offline { last_seen: Some(last_seen) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn privacy_is_one_table() {
        use PresenceVisibility::{ContactsOnly, Everyone, Nobody};
        use ViewerRelation::{Blocked, MutualContact, Oneself, Stranger};
        let table = [
            (Everyone, [(Oneself, true), (MutualContact, true), (Stranger, true), (Blocked, false)]),
            (ContactsOnly, [(Oneself, true), (MutualContact, true), (Stranger, false), (Blocked, false)]),
            (Nobody, [(Oneself, true), (MutualContact, false), (Stranger, false), (Blocked, false)]),
        ];
        for (visibility, rows) in table {
            for (viewer, is_admitted) in rows {
                assert_eq!(visibility.admits(viewer), is_admitted, "{visibility:?} to {viewer:?}");
            }
        }
    }
}
