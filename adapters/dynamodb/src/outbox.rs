//! Events of chats and members, written in the transaction of what they tell of, for the relay to publish (C2).

use aws_sdk_dynamodb::types::AttributeValue;
use domain::{Event, EventBody, MembershipChange};

use crate::chats::{chat_type_text, role_text};
use crate::item::{Item, Key, item, number, seconds, text};
use crate::schema::Table;
use crate::shard::shard;
use crate::write::Write;

/// Partitions that events are spread over; those of one chat are in one.
const OUTBOX_SHARDS: u64 = 16;

/// The n-th event of the change that made a chat this version. Its place keeps the events of a chat in the order of
/// their commits, whatever clocks say.
///
/// Messages are no part of it: their rows are their events.
pub(crate) fn outbox_write(event: &Event, version: u64, n: usize) -> Option<Write> {
    let chat_id = event.body.chat_id();
    let shard = shard(&chat_id.to_bytes(), OUTBOX_SHARDS);
    let key = Key::of(Table::Outbox, shard, format_args!("{chat_id}#{version:020}#{n:02}"));
    let mut attributes = body(&event.body)?;
    attributes.extend(item([
        ("event_id", Some(text(event.event_id))),
        ("event_time", Some(text(event.event_time))),
        ("chat_id", Some(text(chat_id))),
    ]));
    Some(Write::create(key, attributes))
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

#[cfg(test)]
mod tests {
    use domain::{ChatCommand, ChatId, ChatUpdate, Role, Timestamp, UserId};
    use ports::{ChatWriter, NewGroup};

    use super::*;
    use crate::db::Query;
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

        let place = Query::partition(Table::Outbox, shard(&chat_id.to_bytes(), OUTBOX_SHARDS));
        let items = store.db().query(&place, 9).await.unwrap();
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
}
