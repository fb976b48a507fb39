//! The tables: the single definition that provisioning, policies, drift checks and documentation derive from.
//!
//! Where a port guarantees that a read sees earlier writes, it uses a base table. Indexes lag, so they serve only
//! consumers that query repeatedly: the relay (`dirty-index`, `age-index`) and the notifier (`due-index`).
//! `message_id-index` finds only messages of earlier versions, which wrote no location. There is no index from a phone
//! number to its user, nor from a user to their chats, sessions or reports, nor from a group to its invitations.
//! Instead `user_keys`, `message_locations`, `delivery_state`, `push_devices`, `reports` and `invitations` hold an item
//! for each, written in the same transaction. All tables use on-demand billing.

pub(crate) mod access;
mod alarms;
mod backups;
mod cloudformation;
mod iam;
mod live;
mod restore;
mod show;

pub use access::{TableAction, access};
pub use alarms::alarms;
pub use backups::backups;
pub use cloudformation::cloudformation;
pub use iam::{AwsSite, LogNames, SCAN, auditor_iam, iam, log_iam};
pub use live::{SchemaError, TableAspect, TableDrift, apply, diff};
pub use restore::{RestorePlan, RestoredTable, TableOrigin, TableProgress, TablesRestore};
pub use show::show;

/// A DynamoDB table of the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Users.
    Users,
    /// Sign-in keys of users: a phone number, or the subject of an external identity provider.
    UserKeys,
    /// Chats.
    Chats,
    /// Members, by chat.
    ChatMemberships,
    /// Messages, by chat and sequence.
    Messages,
    /// The chat and sequence of each message, by its id.
    MessageLocations,
    /// Messages with an expiry, by expiry time.
    Expirations,
    /// Counter rows of chats, which every commit updates.
    ChatCounters,
    /// Committed sends.
    IdempotencyKeys,
    /// Watermarks, by user. There is an item for each membership, so the table also lists a user's chats.
    DeliveryState,
    /// Sessions of logins.
    Sessions,
    /// The direct chat of each pair.
    DirectChats,
    /// One-time codes, as digests.
    OneTimeCodes,
    /// Events of chats and members that wait for the relay.
    Outbox,
    /// Devices of users: the session and the notification registration of each.
    PushDevices,
    /// Pending notifications.
    Notices,
    /// Undelivered events and notifications, and unreadable records of the log.
    DeadLetters,
    /// REST requests with an idempotency key.
    Requests,
    /// The contacts of each user.
    Contacts,
    /// The blocks of each user, and their number.
    Blocks,
    /// Reports, by list: `open`, `resolved`, or the list of the reporter.
    Reports,
    /// Invitations to groups, by list: that of the invited user, and for pending ones also that of the group.
    Invitations,
    /// Restrictions of users, and the feed of their changes.
    Restrictions,
    /// Passkeys, by user, and the owner of each credential id.
    Passkeys,
    /// Accounts with an unfinished deletion.
    Deletions,
    /// Updates of messages, by chat and sequence.
    Updates,
    /// The reactions of each member on a message.
    Reactions,
}

/// The definition of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The table name without the prefix.
    pub name: &'static str,
    /// The partition key, a string.
    pub partition_key: &'static str,
    /// The sort key, if the table has one.
    pub sort_key: Option<Attribute>,
    /// The secondary index, if the table has one.
    pub index: Option<Index>,
    /// Whether items expire by TTL: at the second in the attribute [`TTL`], or some days later.
    pub expires: bool,
    /// Whether the table has point-in-time recovery. A table whose items live for minutes does not.
    pub backed_up: bool,
}

impl Definition {
    /// The distinct key attributes of the table and its index.
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

/// The attribute with the expiry of an item, in seconds since 1970.
pub const TTL: &str = "ttl";

/// A key attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// A string.
    Text(&'static str),
    /// A number.
    Number(&'static str),
}

impl Attribute {
    /// The attribute name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text(name) | Self::Number(name) => name,
        }
    }
}

/// A global secondary index. Items without its key are not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    /// The index name.
    pub name: &'static str,
    /// The partition key, a string.
    pub partition_key: &'static str,
    /// The sort key, if the index has one.
    pub sort_key: Option<Attribute>,
    /// The projected attributes.
    pub projection: Projection,
}

/// The attributes that an index includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projection {
    /// The keys of table and index.
    Keys,
    /// All attributes.
    All,
}

impl Table {
    /// Every table.
    pub const ALL: [Self; 27] = [
        Self::Users,
        Self::UserKeys,
        Self::Chats,
        Self::ChatMemberships,
        Self::Messages,
        Self::MessageLocations,
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
        Self::Invitations,
        Self::Restrictions,
        Self::Passkeys,
        Self::Deletions,
        Self::Updates,
        Self::Reactions,
    ];

    /// The definition of the table.
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
            Self::MessageLocations => Definition { expires: true, ..lasting("message_locations", "message_id", None) },
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
            // After a restore a retry is still recognized, and users stay signed in.
            Self::IdempotencyKeys => {
                Definition { expires: true, ..lasting("idempotency_keys", "chat_id", Some(Text("send_key"))) }
            }
            Self::DeliveryState => lasting("delivery_state", "user_id", Some(Text("chat_id"))),
            Self::Sessions => Definition { expires: true, ..lasting("sessions", "session_id", None) },
            Self::DirectChats => lasting("direct_chats", "pair", None),
            Self::OneTimeCodes => {
                let codes = lasting("one_time_codes", "phone_hash", None);
                Definition { expires: true, backed_up: false, ..codes }
            }
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
            Self::Requests => Definition { expires: true, ..lasting("requests", "user_id", Some(Text("request_key"))) },
            Self::Contacts => lasting("contacts", "user_id", Some(Text("contact_id"))),
            Self::Blocks => lasting("blocks", "user_id", Some(Text("blocked_id"))),
            Self::Reports => Definition { expires: true, ..lasting("reports", "list", Some(Text("report_id"))) },
            Self::Invitations => Definition { expires: true, ..lasting("invitations", "list", Some(Text("place"))) },
            Self::Restrictions => Definition { expires: true, ..lasting("restrictions", "list", Some(Text("place"))) },
            Self::Passkeys => lasting("passkeys", "list", Some(Text("place"))),
            Self::Deletions => lasting("deletions", "shard", Some(Text("user_id"))),
            Self::Updates => Definition { expires: true, ..lasting("updates", "chat_id", Some(Number("sequence"))) },
            Self::Reactions => lasting("reactions", "message_id", Some(Text("user_id"))),
        }
    }

    /// The table name without the prefix, as used in errors.
    pub const fn name(self) -> &'static str {
        self.definition().name
    }
}

/// A table with items that stay until they are deleted.
const fn lasting(name: &'static str, partition_key: &'static str, sort_key: Option<Attribute>) -> Definition {
    Definition { name, partition_key, sort_key, index: None, expires: false, backed_up: true }
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
    fn expiry_and_backup_are_stated_for_each_table() {
        let named = |pick: fn(&Definition) -> bool| {
            let tables = Table::ALL.into_iter().filter(|table| pick(&table.definition()));
            tables.map(Table::name).collect::<Vec<_>>()
        };
        assert_eq!(
            named(|definition| definition.expires),
            [
                "messages",
                "message_locations",
                "idempotency_keys",
                "sessions",
                "one_time_codes",
                "push_devices",
                "notices",
                "dead_letters",
                "requests",
                "reports",
                "invitations",
                "restrictions",
                "updates"
            ]
        );
        assert_eq!(
            named(|definition| !definition.backed_up),
            ["one_time_codes"],
            "only what nobody misses after minutes is not recoverable"
        );
    }
}
