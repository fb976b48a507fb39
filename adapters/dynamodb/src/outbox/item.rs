//! Events of chats and members, written in the transaction of what they tell of, for the relay to publish (C2).

use std::fmt;

use aws_sdk_dynamodb::types::AttributeValue;
use domain::{ChatId, Event, EventBody, IdError, MembershipChange, Sequence};
use ports::StoreError;

use crate::chats::{chat_type_text, read_chat_type, read_role, role_text};
use crate::db::{Bound, Query};
use crate::item::{Item, Key, Row, item, number, seconds, text};
use crate::schema::Table;
use crate::shard::shard;
use crate::write::Write;

/// Partitions that events are spread over; those of one chat are in one.
pub(crate) const OUTBOX_SHARDS: u64 = 16;
/// When an event happened: how long it has waited.
pub(crate) const EVENT_TIME: &str = "event_time";

/// The partition of items that say nothing we understand: nobody asks it but a person who looks for them.
const UNREADABLE: &str = "unreadable";

/// The n-th event of the change that made a chat this version. Its place keeps the events of a chat in the order of
/// their commits, whatever clocks say.
///
/// Messages are no part of it: their rows are their events.
pub(crate) fn change_write(event: &Event, version: u64, n: usize) -> Option<Write> {
    event_write(event, format_args!("{version:020}#{n:02}"))
}

/// The event of a purge, which changes no version. Purges are in the order of their ids, behind all changes: no two of
/// them tell of the same message.
pub(crate) fn purge_write(event: &Event) -> Option<Write> {
    event_write(event, format_args!("expired#{}", event.event_id))
}

fn event_write(event: &Event, place: fmt::Arguments<'_>) -> Option<Write> {
    let chat_id = event.body.chat_id();
    let mut attributes = body(&event.body)?;
    attributes.extend(item([
        ("event_id", Some(text(event.event_id))),
        (EVENT_TIME, Some(text(event.event_time))),
        ("chat_id", Some(text(chat_id))),
    ]));
    Some(Write::create(event_key(chat_id, format_args!("{chat_id}#{place}")), attributes))
}

/// Where the event of a chat is.
pub(crate) fn event_key(chat_id: ChatId, place: impl fmt::Display) -> Key {
    Key::of(Table::Outbox, shard(&chat_id.to_bytes(), OUTBOX_SHARDS), place)
}

/// All events of a chat.
pub(crate) fn events_of(chat_id: ChatId) -> Query {
    // `$` is the character behind `#`.
    let places = Bound::Between(text(format_args!("{chat_id}#")), text(format_args!("{chat_id}$")));
    Query { bound: Some(places), ..Query::partition(Table::Outbox, shard(&chat_id.to_bytes(), OUTBOX_SHARDS)) }
}

/// The chat whose event has this place.
pub(crate) fn chat_at(place: &str) -> Result<ChatId, StoreError> {
    let chat_id = place.split('#').next().unwrap_or_default();
    chat_id
        .parse()
        .map_err(|source: IdError| StoreError::Corrupt { table: Table::Outbox.name(), source: source.into() })
}

/// Takes an item that cannot be read out of the way of the others, and keeps it for somebody to look at.
pub(crate) fn set_aside(chat_id: ChatId, place: &str, item: &Item) -> Vec<Write> {
    vec![
        Write::put(Key::of(Table::Outbox, UNREADABLE, place), item.clone()),
        Write::delete(event_key(chat_id, place)).if_there(),
    ]
}

pub(crate) fn read_event(item: &Item) -> Result<Event, StoreError> {
    let row = Row { table: Table::Outbox, item };
    Ok(Event { event_id: row.parsed("event_id")?, event_time: row.parsed(EVENT_TIME)?, body: read_body(row)? })
}

fn body(body: &EventBody) -> Option<Item> {
    let event_type = |name: &str| ("event_type", Some(text(name)));
    Some(match body {
        EventBody::MembershipChanged { chat_id: _, user_id, change, role, changed_by } => item([
            event_type("membership_changed"),
            ("user_id", Some(text(user_id))),
            ("change", Some(text(change_text(*change)))),
            ("role", Some(text(role_text(*role)))),
            ("changed_by", Some(text(changed_by))),
        ]),
        EventBody::ChatCreated { chat_id: _, chat_type, name, created_by, initial_members } => item([
            event_type("chat_created"),
            ("chat_type", Some(text(chat_type_text(*chat_type)))),
            ("name", name.as_ref().map(|name| text(name.as_str()))),
            ("created_by", Some(text(created_by))),
            ("initial_members", Some(AttributeValue::L(initial_members.iter().map(text).collect()))),
        ]),
        EventBody::ChatRenamed { chat_id: _, name, changed_by } => item([
            event_type("chat_renamed"),
            ("name", Some(text(name.as_str()))),
            ("changed_by", Some(text(changed_by))),
        ]),
        EventBody::MessageTtlChanged { chat_id: _, message_ttl, changed_by } => item([
            event_type("message_ttl_changed"),
            ("message_ttl", message_ttl.map(seconds)),
            ("changed_by", Some(text(changed_by))),
        ]),
        EventBody::MessagesExpired { chat_id: _, sequences } => {
            let sequences = sequences.iter().map(|sequence| number(sequence.0)).collect();
            item([event_type("messages_expired"), ("sequences", Some(AttributeValue::L(sequences)))])
        }
        EventBody::MessagePersisted { .. } => return None,
    })
}

fn change_text(change: MembershipChange) -> &'static str {
    match change {
        MembershipChange::Added => "added",
        MembershipChange::Removed => "removed",
        MembershipChange::RoleChanged => "role_changed",
    }
}

fn read_body(row: Row<'_>) -> Result<EventBody, StoreError> {
    let chat_id = row.parsed("chat_id")?;
    Ok(match row.text("event_type")? {
        "membership_changed" => EventBody::MembershipChanged {
            chat_id,
            user_id: row.parsed("user_id")?,
            change: match row.text("change")? {
                "added" => MembershipChange::Added,
                "removed" => MembershipChange::Removed,
                "role_changed" => MembershipChange::RoleChanged,
                other => return Err(row.unreadable(format!("`{other}` happens to no member"))),
            },
            role: read_role(row)?,
            changed_by: row.parsed("changed_by")?,
        },
        "chat_created" => EventBody::ChatCreated {
            chat_id,
            chat_type: read_chat_type(row)?,
            name: row.maybe_made("name")?,
            created_by: row.parsed("created_by")?,
            initial_members: row.list("initial_members", |member| member.as_s().ok()?.parse().ok())?,
        },
        "chat_renamed" => {
            EventBody::ChatRenamed { chat_id, name: row.made("name")?, changed_by: row.parsed("changed_by")? }
        }
        "message_ttl_changed" => EventBody::MessageTtlChanged {
            chat_id,
            message_ttl: row.maybe_life("message_ttl")?,
            changed_by: row.parsed("changed_by")?,
        },
        "messages_expired" => EventBody::MessagesExpired {
            chat_id,
            sequences: row.list("sequences", |sequence| sequence.as_n().ok()?.parse().ok().map(Sequence))?,
        },
        other => return Err(row.unreadable(format!("`{other}` is no event of ours"))),
    })
}

#[cfg(test)]
mod tests {
    use domain::{ChatCommand, ChatType, ChatUpdate, EventId, Role, Timestamp, Ttl, UserId};
    use ports::{ChatWriter, NewGroup};

    use super::*;
    use crate::testing::Server;

    #[tokio::test]
    async fn every_change_of_a_chat_leaves_its_events_in_order() {
        let server = Server::with_tables().await;
        let store = server.store();
        let (chat_id, owner, heir) =
            (ChatId::from_bytes([1; 16]), UserId::from_bytes([2; 16]), UserId::from_bytes([3; 16]));
        let at = Timestamp::from_millis;
        let name = |text: &str| text.to_owned().try_into().unwrap();
        let group =
            NewGroup { chat_id, name: name("first"), created_by: owner, members: vec![heir], created_at: at(9) };
        store.create_group(group).await.unwrap();
        let hand_over = ChatCommand::ChangeRole { user_id: heir, role: Role::Owner };
        // The clock steps back in between, which must not change the order.
        store.apply(chat_id, owner, hand_over, at(5)).await.unwrap().unwrap();
        store.apply(chat_id, owner, ChatCommand::Mute { until: None }, at(6)).await.unwrap().unwrap();
        let rename = ChatCommand::Update(ChatUpdate::name(name("second")));
        store.apply(chat_id, heir, rename, at(1)).await.unwrap().unwrap();

        let items = store.db().query(&events_of(chat_id), 9).await.unwrap();
        let said = |item: &Item, attribute: &str| item.get(attribute).map(|value| value.as_s().unwrap().clone());
        let told: Vec<_> = items
            .iter()
            .map(|item| (said(item, "event_type").unwrap(), said(item, "user_id"), said(item, "event_time").unwrap()))
            .collect();
        let event = |name: &str, user: Option<UserId>, time| {
            (name.to_owned(), user.map(|user_id| user_id.to_string()), at(time).to_string())
        };
        assert_eq!(
            told,
            [
                event("chat_created", None, 9),
                event("membership_changed", Some(heir), 5),
                event("membership_changed", Some(owner), 5),
                event("chat_renamed", None, 1),
            ]
        );
        assert_eq!(items[0]["initial_members"], AttributeValue::L(vec![text(owner), text(heir)]));
        assert_eq!(items[3]["name"], text("second"));
    }

    #[test]
    fn every_event_comes_back_as_it_was_written() {
        let (chat_id, one, other) =
            (ChatId::from_bytes([1; 16]), UserId::from_bytes([2; 16]), UserId::from_bytes([3; 16]));
        let name = || "name".to_owned().try_into().unwrap();
        let member =
            |change, role| EventBody::MembershipChanged { chat_id, user_id: one, change, role, changed_by: other };
        let opened = |chat_type, name| EventBody::ChatCreated {
            chat_id,
            chat_type,
            name,
            created_by: one,
            initial_members: vec![one, other],
        };
        let lives = |message_ttl| EventBody::MessageTtlChanged { chat_id, message_ttl, changed_by: one };
        let bodies = [
            member(MembershipChange::Added, Role::Member),
            member(MembershipChange::Removed, Role::Owner),
            member(MembershipChange::RoleChanged, Role::Admin),
            opened(ChatType::Direct, None),
            opened(ChatType::Group, Some(name())),
            EventBody::ChatRenamed { chat_id, name: name(), changed_by: one },
            lives(None),
            lives(Ttl::from_secs(60)),
            EventBody::MessagesExpired { chat_id, sequences: vec![Sequence(1), Sequence(u64::MAX)] },
        ];
        for body in bodies {
            let event = Event { event_id: EventId::from_bytes([9; 16]), event_time: Timestamp::from_millis(7), body };
            let write = change_write(&event, 1, 0).unwrap();
            let item = write.into_part(|table| table.name().to_owned()).put.unwrap().item;
            assert_eq!(read_event(&item).unwrap(), event);
        }
    }

    #[track_caller]
    fn check(item: Item, expected: &str) {
        let mut whole = self::item([
            ("event_id", Some(text(EventId::from_bytes([9; 16])))),
            (EVENT_TIME, Some(text(Timestamp::default()))),
            ("chat_id", Some(text(ChatId::from_bytes([1; 16])))),
        ]);
        whole.extend(item);
        let StoreError::Corrupt { source, .. } = read_event(&whole).unwrap_err() else { panic!("not corrupt") };
        assert_eq!(source.to_string(), expected);
    }

    #[test]
    fn what_is_no_event_of_ours_is_an_error_that_says_why() {
        let expired =
            |sequences| item([("event_type", Some(text("messages_expired"))), ("sequences", Some(sequences))]);
        check(item([]), "attribute `event_type` is missing");
        check(item([("event_type", Some(text("party")))]), "`party` is no event of ours");
        check(expired(number(7)), "attribute `sequences` is not a list of ours");
        check(expired(AttributeValue::L(vec![text("7")])), "attribute `sequences` is not a list of ours");
    }
}
