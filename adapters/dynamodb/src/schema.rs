//! The tables: the one definition that everything else about them is made from.
//!
//! Where a port promises that a read sees what was written before, it goes through a base table. An index lags, so it
//! serves those who look again: the relay (`dirty-index`, `age-index`) and whoever sends notices (`due-index`). The
//! lookup of a message by its id (`message_id-index`) may miss one of the last moment. There is no index from a phone
//! number to its user, from a user to their chats, to their sessions or to their reports: `user_keys`, `delivery_state`,
//! `push_devices` and `reports` hold an item for each, written in the same transaction. All tables are paid by request.

pub(crate) mod access;
mod cloudformation;
mod iam;
mod live;
mod show;

pub use access::{Action, access};
pub use cloudformation::cloudformation;
pub use iam::{LogNames, SCAN, Site, auditor_iam, iam, log_iam};
pub use live::{Aspect, Drift, SchemaError, apply, diff};
pub use show::show;

/// A table of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Users.
    Users,
    /// What makes a user the same person at every sign-in: a phone number, or another system's subject.
    UserKeys,
    /// Chats.
    Chats,
    /// Members, by chat.
    ChatMemberships,
    /// Messages, by chat and sequence.
    Messages,
    /// Messages that will expire, by the time they do.
    Expirations,
    /// The row of a chat that the commit moves.
    ChatCounters,
    /// Sends that were committed.
    IdempotencyKeys,
    /// Watermarks, by user: an item is there for each membership, so it is also how a user's chats are found.
    DeliveryState,
    /// Logins.
    Sessions,
    /// The direct chat of each pair.
    DirectChats,
    /// One-time codes, as digests.
    OneTimeCodes,
    /// Events of chats and members that wait for the relay.
    Outbox,
    /// Devices of users: the session of each, and how it is told of messages.
    PushDevices,
    /// Notifications that are owed.
    Notices,
    /// What could not be delivered.
    DeadLetters,
    /// REST requests with an idempotency key.
    Requests,
    /// Whom each user has listed.
    Contacts,
    /// Whom each user has blocked, and how many that are.
    Blocks,
    /// Reports, under the list they are on: `open`, `resolved`, or that of whoever filed them.
    Reports,
    /// Accounts of which something is left to delete.
    Deletions,
}

/// What a table is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Its name, behind the prefix.
    pub name: &'static str,
    /// The attribute that spreads items over partitions, a text.
    pub partition_key: &'static str,
    /// The attribute that orders the items of a partition, if there are several.
    pub sort_key: Option<Attribute>,
    /// The index, for those that need one.
    pub index: Option<Index>,
    /// Whether items end by themselves, at the second their attribute [`TTL`] says or some days later.
    pub expires: bool,
    /// Whether the table is kept recoverable. What is worth nothing after a restart of the fleet is not.
    pub backed_up: bool,
}

impl Definition {
    /// The attributes that are part of a key, of the table or its index, each once.
    fn key_attributes(&self) -> Vec<Attribute> {
        let of_index = self.index.map(|index| [Some(Attribute::Text(index.partition_key)), index.sort_key]);
        let of_table = [Some(Attribute::Text(self.partition_key)), self.sort_key];
        let mut attributes: Vec<Attribute> = vec![];
        for attribute in of_table.into_iter().chain(of_index.into_iter().flatten()).flatten() {
            if !attributes.contains(&attribute) {
                attributes.push(attribute);
            }
        }
        attributes
    }
}

/// The attribute that says when an item ends, in seconds since 1970.
pub const TTL: &str = "ttl";

/// An attribute that is part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// A text.
    Text(&'static str),
    /// A number.
    Number(&'static str),
}

impl Attribute {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text(name) | Self::Number(name) => name,
        }
    }
}

/// A second order of a table's items. Items without its key are not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    /// Its name.
    pub name: &'static str,
    /// Its partition key, a text.
    pub partition_key: &'static str,
    /// Its sort key, if it has one.
    pub sort_key: Option<Attribute>,
    /// What is copied into it.
    pub projection: Projection,
}

/// What an index holds of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projection {
    /// The keys of table and index.
    Keys,
    /// Everything.
    All,
}

impl Table {
    /// Every table.
    pub const ALL: [Self; 21] = [
        Self::Users,
        Self::UserKeys,
        Self::Chats,
        Self::ChatMemberships,
        Self::Messages,
        Self::Expirations,
        Self::ChatCounters,
        Self::IdempotencyKeys,
        Self::DeliveryState,
        Self::Sessions,
        Self::DirectChats,
        Self::OneTimeCodes,
        Self::Outbox,
        Self::PushDevices,
        Self::Notices,
        Self::DeadLetters,
        Self::Requests,
        Self::Contacts,
        Self::Blocks,
        Self::Reports,
        Self::Deletions,
    ];

    /// What the table is made of.
    pub const fn definition(self) -> Definition {
        use Attribute::{Number, Text};
        match self {
            Self::Users => lasting("users", "user_id", None),
            Self::UserKeys => lasting("user_keys", "user_key", None),
            Self::Chats => lasting("chats", "chat_id", None),
            Self::ChatMemberships => lasting("chat_memberships", "chat_id", Some(Text("user_id"))),
            Self::Messages => {
                let message_id = Index {
                    name: "message_id-index",
                    partition_key: "message_id",
                    sort_key: None,
                    projection: Projection::Keys,
                };
                let messages = lasting("messages", "chat_id", Some(Number("sequence")));
                Definition { index: Some(message_id), expires: true, ..messages }
            }
            Self::Expirations => lasting("expirations", "shard", Some(Text("place"))),
            Self::ChatCounters => {
                let dirty = Index {
                    name: "dirty-index",
                    partition_key: "dirty_shard",
                    sort_key: Some(Text("dirty_since")),
                    projection: Projection::Keys,
                };
                Definition { index: Some(dirty), ..lasting("chat_counters", "chat_id", None) }
            }
            Self::IdempotencyKeys => passing("idempotency_keys", "chat_id", Some(Text("send_key"))),
            Self::DeliveryState => lasting("delivery_state", "user_id", Some(Text("chat_id"))),
            Self::Sessions => passing("sessions", "session_id", None),
            Self::DirectChats => lasting("direct_chats", "pair", None),
            Self::OneTimeCodes => passing("one_time_codes", "phone_hash", None),
            Self::Outbox => {
                let age = Index {
                    name: "age-index",
                    partition_key: "shard",
                    sort_key: Some(Text("event_time")),
                    projection: Projection::Keys,
                };
                Definition { index: Some(age), ..lasting("outbox", "shard", Some(Text("place"))) }
            }
            Self::PushDevices => {
                Definition { expires: true, ..lasting("push_devices", "user_id", Some(Text("device_id"))) }
            }
            Self::Notices => {
                let due = Index {
                    name: "due-index",
                    partition_key: "due_shard",
                    sort_key: Some(Number("due_at")),
                    projection: Projection::All,
                };
                let notices = lasting("notices", "user_id", Some(Text("chat_device")));
                Definition { index: Some(due), expires: true, ..notices }
            }
            Self::DeadLetters => {
                Definition { expires: true, ..lasting("dead_letters", "shard", Some(Text("dead_letter_id"))) }
            }
            Self::Requests => passing("requests", "user_id", Some(Text("request_key"))),
            Self::Contacts => lasting("contacts", "user_id", Some(Text("contact_id"))),
            Self::Blocks => lasting("blocks", "user_id", Some(Text("blocked_id"))),
            Self::Reports => Definition { expires: true, ..lasting("reports", "list", Some(Text("report_id"))) },
            Self::Deletions => lasting("deletions", "shard", Some(Text("user_id"))),
        }
    }

    /// The name of the table behind the prefix, as errors say it.
    pub const fn name(self) -> &'static str {
        self.definition().name
    }
}

/// A table whose items stay until somebody deletes them.
const fn lasting(name: &'static str, partition_key: &'static str, sort_key: Option<Attribute>) -> Definition {
    Definition { name, partition_key, sort_key, index: None, expires: false, backed_up: true }
}

/// A table whose items end by themselves and are missed by nobody.
const fn passing(name: &'static str, partition_key: &'static str, sort_key: Option<Attribute>) -> Definition {
    Definition { name, partition_key, sort_key, index: None, expires: true, backed_up: false }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_table_is_listed_once_under_its_own_name() {
        let names: BTreeSet<_> = Table::ALL.map(Table::name).into();
        assert_eq!(names.len(), Table::ALL.len());
    }

    #[test]
    fn what_ends_by_itself_or_is_lost_without_harm_is_said_for_each_table() {
        let named = |pick: fn(&Definition) -> bool| {
            let tables = Table::ALL.into_iter().filter(|table| pick(&table.definition()));
            tables.map(Table::name).collect::<Vec<_>>()
        };
        assert_eq!(
            named(|definition| definition.expires),
            [
                "messages",
                "idempotency_keys",
                "sessions",
                "one_time_codes",
                "push_devices",
                "notices",
                "dead_letters",
                "requests",
                "reports"
            ]
        );
        assert_eq!(
            named(|definition| !definition.backed_up),
            ["idempotency_keys", "sessions", "one_time_codes", "requests"]
        );
    }
}
