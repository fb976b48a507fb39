//! Events of chats and members, written in the transaction of their change, for the relay to publish (C2).

use std::fmt;

use aws_sdk_dynamodb::types::AttributeValue;
use domain::{ChatId, Event, EventNumber, IdError};
use ports::StoreError;
use protocol::event::{ChangePayload, EventContent, EventError, event_type};
use serde_json::Value;

use crate::db::{Bound, PartitionQuery};
use crate::item::{DynamoItem, ItemKey, ItemReader, item, number, text};
use crate::schema::Table;
use crate::shard::shard;
use crate::write::Write;

/// Number of partitions for events; those of one chat are in one.
pub(crate) const OUTBOX_SHARDS: u64 = 16;
/// The type of an event, in snake case.
const EVENT_TYPE: &str = "event_type";
/// The time of an event, which shows how long it has waited.
pub(crate) const EVENT_TIME: &str = "event_time";

/// The number of an event in its chat.
pub(crate) const EVENT_NUMBER: &str = "event_number";

/// The partition for unreadable items. No process queries it; it is for operators.
const UNREADABLE: &str = "unreadable";

/// The n-th event of the change that created a version of a chat. Its sort key keeps the events of a chat in commit
/// order, regardless of clocks.
///
/// Messages have no such item: their rows are their events.
pub(crate) fn change_write(event: &Event, version: u64, n: usize) -> Option<Write> {
    event_write(event, format_args!("{version:020}#{n:02}"))
}

/// The event of a purge, which does not change the version. Purges sort by their ids, after all changes. Their order
/// does not matter, since no two purges cover the same message.
pub(crate) fn purge_write(event: &Event) -> Option<Write> {
    event_write(event, format_args!("expired#{}", event.event_id))
}

fn event_write(event: &Event, key: fmt::Arguments<'_>) -> Option<Write> {
    let EventContent::Change(change) = EventContent::from(&event.body) else { return None };
    let chat_id = event.body.chat_id();
    let mut attributes = payload_attributes(&change);
    attributes.extend(item([
        (EVENT_TYPE, Some(text(snake_case(event_type(&event.body))))),
        ("event_id", Some(text(event.event_id))),
        (EVENT_TIME, Some(text(event.event_time))),
        (EVENT_NUMBER, event.event_number.map(|event_number| number(event_number.0))),
    ]));
    Some(Write::create(event_key(chat_id, format_args!("{chat_id}#{key}")), attributes))
}

/// The key of a chat's event.
pub(crate) fn event_key(chat_id: ChatId, key: impl fmt::Display) -> ItemKey {
    ItemKey::of(Table::Outbox, shard(&chat_id.to_bytes(), OUTBOX_SHARDS), key)
}

/// All events of a chat.
pub(crate) fn events_of(chat_id: ChatId) -> PartitionQuery {
    // `$` is the character after `#`.
    let keys = Bound::Between(text(format_args!("{chat_id}#")), text(format_args!("{chat_id}$")));
    PartitionQuery {
        bound: Some(keys),
        ..PartitionQuery::partition(Table::Outbox, shard(&chat_id.to_bytes(), OUTBOX_SHARDS))
    }
}

/// The chat of the event with this sort key.
pub(crate) fn chat_at(key: &str) -> Result<ChatId, StoreError> {
    let chat_id = key.split('#').next().unwrap_or_default();
    chat_id
        .parse()
        .map_err(|source: IdError| StoreError::Corrupt { table: Table::Outbox.name(), source: source.into() })
}

/// Moves an unreadable item out of the way of the others, and keeps it for inspection.
pub(crate) fn set_aside(chat_id: ChatId, key: &str, item: &DynamoItem) -> Vec<Write> {
    vec![
        Write::put(ItemKey::of(Table::Outbox, UNREADABLE, key), item.clone()),
        Write::delete(event_key(chat_id, key)).if_there(),
    ]
}

pub(crate) fn read_event(item: &DynamoItem) -> Result<Event, StoreError> {
    let row = ItemReader { table: Table::Outbox, item };
    let event_type = row.text(EVENT_TYPE)?;
    let change = ChangePayload::parse(&camel_case(event_type), payload_fields(item)).map_err(|error| match error {
        // The JSON error may quote a chat name.
        EventError::Json(_) => row.unreadable(format!("its attributes are not those of `{event_type}`")),
        EventError::Type(_) => row.unreadable(format!("`{event_type}` is not a known event")),
        other => row.unreadable(other),
    })?;
    let body = change.try_into().map_err(|error: EventError| row.unreadable(error))?;
    let event_number = read_event_number(row)?;
    Ok(Event { event_id: row.parsed("event_id")?, event_time: row.parsed(EVENT_TIME)?, event_number, body })
}

/// The number of an event in its outbox item or its message; `None` in an item of an earlier version.
pub(crate) fn read_event_number(row: ItemReader<'_>) -> Result<Option<EventNumber>, StoreError> {
    Ok(row.maybe_number(EVENT_NUMBER)?.map(EventNumber))
}

/// The fields of a payload as attributes.
fn payload_attributes(change: &ChangePayload) -> DynamoItem {
    let fields = serde_json::to_value(change.fields()).expect("strings, numbers and lists always serialize");
    let Value::Object(fields) = fields else { unreachable!("a payload has fields") };
    fields.into_iter().filter_map(|(name, value)| Some((attribute_name(&name).to_owned(), attribute(value)?))).collect()
}

/// The inverse of [`payload_attributes`]. Parsing ignores the other attributes of the item.
fn payload_fields(item: &DynamoItem) -> Value {
    let field = |(name, value): (&String, &AttributeValue)| Some((field_name(name).to_owned(), json(value)?));
    Value::Object(item.iter().filter_map(field).collect())
}

/// The attributes with another name than their field. Version 0.2 reads and writes these items in the same fleet.
const RENAMED: [(&str, &str); 2] = [("change_type", "change"), ("message_ttl_seconds", "message_ttl")];

fn attribute_name(field: &str) -> &str {
    RENAMED.iter().find(|(name, _)| *name == field).map_or(field, |(_, attribute)| attribute)
}

fn field_name(attribute: &str) -> &str {
    RENAMED.iter().find(|(_, name)| *name == attribute).map_or(attribute, |(field, _)| field)
}

fn attribute(value: Value) -> Option<AttributeValue> {
    match value {
        Value::String(text) => Some(AttributeValue::S(text)),
        Value::Number(number) => Some(AttributeValue::N(number.to_string())),
        Value::Bool(is) => Some(AttributeValue::Bool(is)),
        Value::Array(values) => Some(AttributeValue::L(values.into_iter().filter_map(attribute).collect())),
        Value::Object(fields) => Some(AttributeValue::M(
            fields.into_iter().filter_map(|(name, value)| Some((name, attribute(value)?))).collect(),
        )),
        Value::Null => None,
    }
}

fn json(value: &AttributeValue) -> Option<Value> {
    match value {
        AttributeValue::S(text) => Some(text.as_str().into()),
        AttributeValue::N(digits) => Some(Value::Number(digits.parse().ok()?)),
        AttributeValue::Bool(is) => Some((*is).into()),
        AttributeValue::L(values) => values.iter().map(json).collect::<Option<Vec<_>>>().map(Value::Array),
        AttributeValue::M(fields) => {
            let fields = fields.iter().map(|(name, value)| Some((name.clone(), json(value)?)));
            fields.collect::<Option<_>>().map(Value::Object)
        }
        _ => None,
    }
}

/// `ChatCreated` as `chat_created`.
fn snake_case(event_type: &str) -> String {
    let mut text = String::new();
    for letter in event_type.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

/// `chat_created` as `ChatCreated`.
fn camel_case(event_type: &str) -> String {
    let capitalized = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    event_type.split('_').map(capitalized).collect()
}

#[cfg(test)]
mod tests {
    use domain::{
        ChatCommand, ChatType, ChatUpdate, EventBody, EventId, MembershipChange, Role, Sequence, Timestamp, Ttl, UserId,
    };
    use ports::{ChatWriter, NewGroup};

    use super::*;
    use crate::testing::DynamoServer;

    #[tokio::test]
    async fn every_change_of_a_chat_leaves_its_events_in_order() {
        let server = DynamoServer::with_tables().await;
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
        let said = |item: &DynamoItem, attribute: &str| item.get(attribute).map(|value| value.as_s().unwrap().clone());
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

    /// A process of version 0.2 in the same fleet may publish an event of this one, and the other way round.
    #[test]
    fn an_item_has_the_attributes_of_version_0_2() {
        let (chat_id, one, other) =
            (ChatId::from_bytes([1; 16]), UserId::from_bytes([2; 16]), UserId::from_bytes([3; 16]));
        let name = || "name".to_owned().try_into().unwrap();
        let written = |body, event_type: &str, fields: DynamoItem| {
            let (event_id, event_time) = (EventId::from_bytes([9; 16]), Timestamp::from_millis(7));
            let event = Event { event_id, event_time, event_number: None, body };
            let write = change_write(&event, 1, 0).unwrap();
            let mut expected = event_key(chat_id, format_args!("{chat_id}#{:020}#00", 1)).attributes();
            expected.extend(fields);
            expected.extend(item([
                ("event_type", Some(text(event_type))),
                ("event_id", Some(text(event.event_id))),
                ("event_time", Some(text(event.event_time))),
                ("chat_id", Some(text(chat_id))),
            ]));
            assert_eq!(write.into_part(|table| table.name().to_owned()).put.unwrap().item, expected);
            assert_eq!(read_event(&expected).unwrap(), event);
        };
        let changed_by = || ("changed_by", Some(text(other)));
        written(
            EventBody::MembershipChanged {
                chat_id,
                user_id: one,
                change: MembershipChange::RoleChanged,
                role: Role::Admin,
                changed_by: other,
            },
            "membership_changed",
            item([
                ("user_id", Some(text(one))),
                ("change", Some(text("role_changed"))),
                ("role", Some(text("admin"))),
                changed_by(),
            ]),
        );
        let created = |name| EventBody::ChatCreated {
            chat_id,
            chat_type: ChatType::Group,
            name,
            created_by: one,
            initial_members: vec![one, other],
        };
        let created_item = |name: Option<&str>| {
            item([
                ("chat_type", Some(text("group"))),
                ("name", name.map(text)),
                ("created_by", Some(text(one))),
                ("initial_members", Some(AttributeValue::L(vec![text(one), text(other)]))),
            ])
        };
        written(created(Some(name())), "chat_created", created_item(Some("name")));
        written(created(None), "chat_created", created_item(None));
        written(
            EventBody::ChatRenamed { chat_id, name: name(), changed_by: other },
            "chat_renamed",
            item([("name", Some(text("name"))), changed_by()]),
        );
        for message_ttl in [None, Ttl::from_secs(60)] {
            written(
                EventBody::MessageTtlChanged { chat_id, message_ttl, changed_by: other },
                "message_ttl_changed",
                item([("message_ttl", message_ttl.map(|_| number(60))), changed_by()]),
            );
        }
        written(
            EventBody::MessagesExpired { chat_id, sequences: vec![Sequence(1), Sequence(u64::MAX)] },
            "messages_expired",
            item([("sequences", Some(AttributeValue::L(vec![number(1), number(u64::MAX)])))]),
        );
    }

    #[track_caller]
    fn check(item: DynamoItem, expected: &str) {
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
    fn a_foreign_record_is_an_error_with_its_reason() {
        let expired =
            |sequences| item([("event_type", Some(text("messages_expired"))), ("sequences", Some(sequences))]);
        check(item([]), "attribute `event_type` is missing");
        check(item([("event_type", Some(text("party")))]), "`party` is not a known event");
        let other = "its attributes are not those of `messages_expired`";
        check(expired(number(7)), other);
        check(expired(AttributeValue::L(vec![text("7")])), other);
        check(expired(AttributeValue::L(vec![number(7), AttributeValue::Null(true)])), other);
        let renamed = item([("event_type", Some(text("chat_renamed"))), ("changed_by", Some(text("secret")))]);
        check(renamed, "its attributes are not those of `chat_renamed`");
        let ttl = item([
            ("event_type", Some(text("message_ttl_changed"))),
            ("message_ttl", Some(number(0))),
            ("changed_by", Some(text(UserId::from_bytes([2; 16])))),
        ]);
        check(ttl, "message_ttl_seconds is 0, it must be 1 to 31536000");
    }
}
