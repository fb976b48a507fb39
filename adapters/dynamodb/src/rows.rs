//! The items of each table, described once: how an item is read, named, and how it ends. The functions that read an
//! item are next to those that write it.

use domain::Timestamp;
use ports::{End, ExportKind, StoreError};

use crate::accounts::read_deletion;
use crate::blocks::read_block;
use crate::chats::{read_chat, read_member, read_pair};
use crate::codes::read_code;
use crate::commit::read_send;
use crate::contacts::read_contact;
use crate::dead_letters::read_letter;
use crate::devices::read_registration;
use crate::expiry::read_expiration;
use crate::invitations::read_invitation;
use crate::item::{DynamoItem, EXPIRES_AT, ItemKey};
use crate::locations::read_location;
use crate::messages::{read_head, read_message};
use crate::notices::read_notice;
use crate::outbox::read_event;
use crate::passkeys::read_passkey;
use crate::reports::read_listed;
use crate::requests::read_request;
use crate::restrictions::read_restrictions;
use crate::schema::{TTL, Table};
use crate::sessions::read_session;
use crate::updates::{read_reactions, read_update};
use crate::users::{read_owner, read_user};
use crate::watermarks::read_delivery_state;

impl Table {
    /// The table with one item for each exported row of a kind.
    pub(crate) fn exported(kind: ExportKind) -> Self {
        match kind {
            ExportKind::User => Self::Users,
            ExportKind::UserKey => Self::UserKeys,
            ExportKind::Contact => Self::Contacts,
            ExportKind::Session => Self::Sessions,
            ExportKind::PushDevice => Self::PushDevices,
            ExportKind::Chat => Self::Chats,
            ExportKind::Pair => Self::DirectChats,
            ExportKind::Member => Self::ChatMemberships,
            ExportKind::Message => Self::Messages,
            ExportKind::Send => Self::IdempotencyKeys,
            ExportKind::Block => Self::Blocks,
            ExportKind::Restriction => Self::Restrictions,
            ExportKind::Invitation => Self::Invitations,
            ExportKind::Passkey => Self::Passkeys,
            ExportKind::Update => Self::Updates,
            ExportKind::Reactions => Self::Reactions,
        }
    }

    /// Checks that an item of the table can be read.
    pub(crate) fn check(self, item: &DynamoItem) -> Result<(), StoreError> {
        match self {
            Self::Users => read_user(item).map(drop),
            Self::UserKeys => read_owner(item).map(drop),
            Self::Chats => read_chat(item).map(drop),
            Self::ChatMemberships => read_member(item).map(drop),
            Self::Messages => read_message(item).map(drop),
            Self::MessageLocations => read_location(item).map(drop),
            Self::Expirations => read_expiration(item).map(drop),
            Self::ChatCounters => read_head(item, Timestamp::default()).map(drop),
            Self::IdempotencyKeys => read_send(item).map(drop),
            Self::DeliveryState => read_delivery_state(item).map(drop),
            Self::Sessions => read_session(item).map(drop),
            Self::DirectChats => read_pair(item).map(drop),
            Self::OneTimeCodes => read_code(item).map(drop),
            Self::Outbox => read_event(item).map(drop),
            Self::PushDevices => read_registration(item, Timestamp::default()).map(drop),
            Self::Notices => read_notice(item).map(drop),
            Self::DeadLetters => read_letter(item).map(drop),
            Self::Requests => read_request(item).map(drop),
            Self::Contacts => read_contact(item).map(drop),
            Self::Blocks => read_block(item).map(drop),
            Self::Reports => read_listed(item).map(drop),
            Self::Invitations => read_invitation(item).map(drop),
            Self::Restrictions => read_restrictions(item).map(drop),
            Self::Passkeys => read_passkey(item).map(drop),
            Self::Deletions => read_deletion(item).map(drop),
            Self::Updates => read_update(item).map(drop),
            Self::Reactions => read_reactions(item).map(drop),
        }
    }

    /// How an item of the table ends. The audit checks messages more closely.
    pub(crate) fn end(self, item: &DynamoItem) -> End {
        let has_end = item.contains_key(TTL);
        let must_end = match self {
            Self::IdempotencyKeys | Self::Sessions | Self::OneTimeCodes => true,
            Self::DeadLetters | Self::Requests | Self::Invitations => true,
            // A pending notice is deleted when it is settled; a quiet period expires by TTL.
            Self::Notices => !item.contains_key("due_shard"),
            // An unresolved report is kept.
            Self::Reports => item.contains_key("resolved_at"),
            // A device ends with its session.
            Self::PushDevices => item.contains_key("session_id"),
            // The feed keeps changes for an hour.
            Self::Restrictions => item.contains_key("user_id"),
            Self::Updates => item.contains_key(EXPIRES_AT),
            _ => false,
        };
        match (must_end, has_end) {
            (_, true) => End::Timed,
            (true, false) => End::Missing,
            (false, false) => End::Lasting,
        }
    }

    /// The key of an item for display. A sign-in key is derived from a phone number, so it is not shown.
    pub(crate) fn item_name(self, item: &DynamoItem) -> String {
        if self == Self::UserKeys {
            return "a sign-in key".to_owned();
        }
        match ItemKey::read(self, item) {
            Ok(key) => match key.parts() {
                (partition, Some(sort)) => format!("{partition} {sort}"),
                (partition, None) => partition.to_owned(),
            },
            Err(_) => "an item without its key".to_owned(),
        }
    }
}
