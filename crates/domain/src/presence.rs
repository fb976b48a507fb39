use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Who may see when a user is online, and when they were last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PresenceVisibility {
    Everyone,
    #[default]
    ContactsOnly,
    Nobody,
}

/// What somebody is to a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Relation {
    /// The user, on any device.
    Oneself,
    /// Each has listed the other.
    MutualContact,
    /// Everybody else, also whoever is listed by one side alone.
    Stranger,
    /// Somebody whom the user has blocked, whatever else they are.
    Blocked,
}

impl PresenceVisibility {
    /// Whether presence and last seen may be shown: one rule for questions, subscriptions and pushes.
    pub fn admits(self, viewer: Relation) -> bool {
        match (self, viewer) {
            (_, Relation::Blocked) => false,
            (_, Relation::Oneself) | (Self::Everyone, _) | (Self::ContactsOnly, Relation::MutualContact) => true,
            (Self::ContactsOnly, Relation::Stranger) | (Self::Nobody, _) => false,
        }
    }

    /// Whether anybody else may see it.
    pub fn shows_anybody(self) -> bool {
        self.admits(Relation::MutualContact)
    }

    /// Whether it hangs on who has listed whom.
    pub fn asks_contacts(self) -> bool {
        self.admits(Relation::MutualContact) != self.admits(Relation::Stranger)
    }
}

/// Whether a user has a connection, on whatever device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Online,
    /// Gone since.
    Offline {
        last_seen: Timestamp,
    },
}

/// What one user sees of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresenceView {
    Online,
    Offline {
        /// Absent if they were never seen, or not since it may be told.
        last_seen: Option<Timestamp>,
    },
    /// It may not be shown, cannot be told now, or there is no such user: it looks the same whatever the reason.
    Unknown,
}

impl From<Standing> for PresenceView {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Online => Self::Online,
            Standing::Offline { last_seen } => Self::Offline { last_seen: Some(last_seen) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn privacy_is_one_table() {
        use PresenceVisibility::{ContactsOnly, Everyone, Nobody};
        use Relation::{Blocked, MutualContact, Oneself, Stranger};
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
