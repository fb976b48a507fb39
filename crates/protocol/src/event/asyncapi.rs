//! The AsyncAPI document of events, notifications and one-time codes: topics of Kafka, and calls to webhooks.

use domain::{ChatType, Event, EventBody, EventId, EventKind, MembershipChange, Role, Sequence, Ttl};
use serde_json::{Map, Value, json};
use utoipa::{PartialSchema, ToSchema};

use super::payload::{ChangePayload, MessagePersisted, MessageUpdated};
use super::{DEAD_LETTERS_TOPIC, EVENT_VERSION, EventEnvelope, event_type, topic};
use crate::notification::NotificationBody;
use crate::{schema, story};

const DESCRIPTION: &str = "\
What Tidings tells other programs of the service's operator: the records of the Kafka topics of a fleet, and the calls of \
the three webhooks. Unknown fields, and events of an unknown type, are ignored.

**Order.** `event_number` is the order of the commits of a chat, across all events: 1 for its creation, then one more for \
each message, each update of a message and each change. Records of one topic and one key are in this order. Between topics, sort by it. A number \
may be missing: a message that expired before it was published has no record.

**At least once.** A record or a call may be repeated, with the same `event_id`.

**Expired text.** A topic keeps a record for 7 days, also one of a message that has expired since: `expires_at` tells. \
Consumers skip it. The webhook does not deliver it.";

const KINDS: [(EventKind, &str, &str); 3] = [
    (EventKind::Message, "messages", "Messages that were sent, updated (edited, deleted, reacted to), and purged."),
    (EventKind::Member, "memberships", "Members who were added, removed, or given another role."),
    (EventKind::Chat, "chats", "Chats that were created or changed."),
];

/// The AsyncAPI 3.0 document of what the service sends to other programs.
pub fn events_asyncapi() -> Value {
    let examples = examples();
    json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": "Tidings events",
            "version": env!("CARGO_PKG_VERSION"),
            "description": DESCRIPTION,
            "license": { "name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0" },
        },
        "defaultContentType": "application/json",
        "servers": {
            "kafka": {
                "host": "kafka.example.com:9092",
                "protocol": "kafka",
                "description": "The brokers of a fleet, `kafka.brokers`.",
            },
            "application": {
                "host": "app.example.com",
                "protocol": "https",
                "description": "Your server, `webhook.url`.",
            },
            "push": {
                "host": "push.example.com",
                "protocol": "https",
                "description": "Your server for notifications, `notify.webhook.url`.",
            },
            "codes": {
                "host": "codes.example.com",
                "protocol": "https",
                "description": "Your server that delivers one-time codes, `auth.otp.webhook_url`.",
            },
        },
        "channels": channels(&examples),
        "operations": operations(),
        "components": { "schemas": schemas(&examples), "messages": messages(&examples) },
    })
}

fn channels(examples: &[Example]) -> Value {
    let mut channels = Map::new();
    for (kind, name, summary) in KINDS {
        let of_kind = examples.iter().filter(|example| example.event.body.kind() == kind);
        let messages: Map<String, Value> = of_kind.map(|example| reference("messages", example.event_type())).collect();
        let channel = json!({
            "address": topic(kind),
            "summary": summary,
            "description": "The name begins with `kafka.topic_prefix`, if it is set.",
            "servers": [{ "$ref": "#/servers/kafka" }],
            "messages": messages,
            "bindings": { "kafka": { "topic": topic(kind), "bindingVersion": "0.5.0" } },
        });
        channels.insert(name.to_owned(), channel);
    }
    let dead_letters = json!({
        "address": DEAD_LETTERS_TOPIC,
        "summary": "Records of the other topics that cannot be read as events. Consumers skip them.",
        "description": "The name begins with `kafka.topic_prefix`, if it is set. Each consumer group that buries a record \
                        adds one, so the same record may be here more than once.",
        "servers": [{ "$ref": "#/servers/kafka" }],
        "messages": Map::from_iter([reference("messages", UNREADABLE_RECORD)]),
        "bindings": { "kafka": { "topic": DEAD_LETTERS_TOPIC, "bindingVersion": "0.5.0" } },
    });
    channels.insert(DEAD_LETTERS_TOPIC.to_owned(), dead_letters);
    for (name, server, message, summary) in [
        ("webhook", "application", "EventDelivery", "The event webhook: every event, one call each."),
        ("notifications", "push", "NotificationDelivery", "The notification webhook: a device to be woken."),
        ("codes", "codes", "CodeDelivery", "The webhook of one-time codes: a code to be sent to a phone."),
    ] {
        let channel = json!({
            // The path is the one of the configured URL.
            "address": null,
            "summary": summary,
            "servers": [{ "$ref": format!("#/servers/{server}") }],
            "messages": Map::from_iter([reference("messages", message)]),
        });
        channels.insert(name.to_owned(), channel);
    }
    channels.into()
}

fn operations() -> Value {
    let mut operations = Map::new();
    for (_, channel, summary) in KINDS {
        let operation =
            json!({ "action": "send", "channel": { "$ref": format!("#/channels/{channel}") }, "summary": summary });
        operations.insert(format!("publish_{channel}"), operation);
    }
    let bury = json!({
        "action": "send",
        "channel": { "$ref": format!("#/channels/{DEAD_LETTERS_TOPIC}") },
        "summary": "Keeps a record that cannot be read.",
    });
    operations.insert("bury_record".to_owned(), bury);
    for (name, channel, summary) in [
        ("deliver_event", "webhook", "Posts an event. Any 2xx accepts it; other answers are retried."),
        ("notify_device", "notifications", "Posts a notification. 410 deletes the registration of the device."),
        ("deliver_code", "codes", "Posts a code. Any 2xx accepts it; a failure is tried up to three times in seconds."),
    ] {
        let operation = json!({
            "action": "send",
            "channel": { "$ref": format!("#/channels/{channel}") },
            "summary": summary,
            "bindings": { "http": { "method": "POST", "bindingVersion": "0.3.0" } },
        });
        operations.insert(name.to_owned(), operation);
    }
    operations.into()
}

fn messages(examples: &[Example]) -> Value {
    let mut messages = Map::new();
    for example in examples {
        let name = example.event_type();
        let message = json!({
            "name": name,
            "title": name,
            "summary": example.summary,
            "headers": {
                "type": "object",
                "properties": {
                    "event_type": { "type": "string", "const": name },
                    "event_id": event_id(),
                    "traceparent": { "type": "string", "description": "The W3C trace context, if the send was traced." },
                },
                "required": ["event_type", "event_id"],
            },
            "payload": { "$ref": format!("#/components/schemas/{name}Event") },
            "bindings": { "kafka": { "key": chat_id(), "bindingVersion": "0.5.0" } },
            "examples": [{ "payload": example.json(None) }],
        });
        messages.insert(name.to_owned(), message);
    }
    let signature = json!({
        "type": "string",
        "pattern": "^t=[0-9]+,v1=[0-9a-f]{64}$",
        "description": "`t` is the time in Unix seconds, `v1` the HMAC-SHA256 of `<t>.<body>` under the shared secret.",
    });
    let delivery = json!({
        "name": "EventDelivery",
        "title": "EventDelivery",
        "summary": "A call of the event webhook.",
        "headers": {
            "type": "object",
            "properties": {
                "Tidings-Signature": signature,
                "Tidings-Event-Id": event_id(),
                "Tidings-Attempt": { "type": "integer", "minimum": 1 },
            },
            "required": ["Tidings-Signature", "Tidings-Event-Id", "Tidings-Attempt"],
        },
        "payload": { "$ref": "#/components/schemas/Event" },
        "examples": [{ "payload": examples[0].json(Some(1208)) }],
    });
    messages.insert("EventDelivery".to_owned(), delivery);
    let notification = json!({
        "name": "NotificationDelivery",
        "title": "NotificationDelivery",
        "summary": "A call of the notification webhook.",
        "headers": {
            "type": "object",
            "properties": { "Tidings-Signature": signature },
            "required": ["Tidings-Signature"],
        },
        "payload": { "$ref": "#/components/schemas/Notification" },
        "examples": [{ "payload": notification() }],
    });
    messages.insert("NotificationDelivery".to_owned(), notification);
    let code = json!({
        "name": "CodeDelivery",
        "title": "CodeDelivery",
        "summary": "A call of the webhook of one-time codes.",
        "headers": {
            "type": "object",
            "properties": { "Tidings-Signature": signature },
            "required": ["Tidings-Signature"],
        },
        "payload": { "$ref": "#/components/schemas/OneTimeCode" },
        "examples": [{ "payload": one_time_code() }],
    });
    messages.insert("CodeDelivery".to_owned(), code);
    messages.insert(UNREADABLE_RECORD.to_owned(), unreadable_record());
    messages.into()
}

/// The name of the message of the topic of dead letters.
const UNREADABLE_RECORD: &str = "UnreadableRecord";

fn unreadable_record() -> Value {
    let number = |description: &str| json!({ "type": "string", "pattern": "^[0-9]+$", "description": description });
    json!({
        "name": UNREADABLE_RECORD,
        "title": UNREADABLE_RECORD,
        "summary": "A record that cannot be read as an event, with its origin.",
        "contentType": "application/octet-stream",
        "headers": {
            "type": "object",
            "properties": {
                "topic": { "type": "string", "description": "The topic of the record, with its prefix." },
                "partition": number("Its partition."),
                "offset": number("Its offset."),
                "reason": { "type": "string", "description": "Why it cannot be read. It quotes nothing of the record." },
            },
            "required": ["topic", "partition", "offset", "reason"],
        },
        "payload": { "description": "The value of the record as it was read, which may be anything; empty if it had more \
                                     than 1 MiB. The key is that of the record, if it has one of at most 1 MiB." },
    })
}

/// The body of a call of the webhook of one-time codes.
fn code_schema() -> Value {
    json!({
        "type": "object",
        "description": "A one-time code for a phone.",
        "properties": {
            "phone_number": {
                "type": "string",
                "pattern": "^\\+[1-9][0-9]{5,14}$",
                "description": "The phone that the code is for, in the format E.164.",
            },
            "code": { "type": "string", "pattern": "^[0-9]{6}$", "description": "The code." },
            "expires_at": { "type": "string", "format": "date-time", "description": "The end of its validity." },
        },
        "required": ["phone_number", "code", "expires_at"],
    })
}

fn one_time_code() -> Value {
    json!({ "phone_number": story::ADA_PHONE, "code": "493021", "expires_at": story::now() })
}

/// The schemas of payloads, of the envelope of each event, of any event, and of a notification.
fn schemas(examples: &[Example]) -> Value {
    let mut schemas = Map::new();
    let mut parts = vec![
        ("MessagePersisted".to_owned(), MessagePersisted::schema()),
        ("MessageUpdated".to_owned(), MessageUpdated::schema()),
        (NotificationBody::name().into_owned(), NotificationBody::schema()),
        ("Role".to_owned(), schema::Role::schema()),
        ("ChatType".to_owned(), schema::ChatType::schema()),
    ];
    MessagePersisted::schemas(&mut parts);
    MessageUpdated::schemas(&mut parts);
    NotificationBody::schemas(&mut parts);
    schemas.extend(parts.into_iter().map(|(name, schema)| (name, json!(schema))));
    schemas.insert("OneTimeCode".to_owned(), code_schema());
    schemas.extend(ChangePayload::schemas().into_iter().map(|(name, schema)| (name.to_owned(), schema)));
    for example in examples {
        schemas.insert(format!("{}Event", example.event_type()), envelope(example));
    }
    let events: Vec<Value> = examples
        .iter()
        .map(|example| json!({ "$ref": format!("#/components/schemas/{}Event", example.event_type()) }))
        .collect();
    schemas.insert("Event".to_owned(), json!({ "description": "Any event.", "oneOf": events }));
    schemas.into()
}

fn envelope(example: &Example) -> Value {
    let name = example.event_type();
    json!({
        "type": "object",
        "description": example.summary,
        "properties": {
            "event_type": { "type": "string", "const": name },
            "event_id": event_id(),
            "event_time": { "type": "string", "format": "date-time", "description": "When the change was committed." },
            "event_version": { "type": "integer", "const": EVENT_VERSION },
            "partition_key": chat_id(),
            "event_number": {
                "type": "integer",
                "minimum": 1,
                "description": "The number of the event in its chat, in commit order across all kinds. Absent on \
                                `MessagesExpired`, on replays of one chat, and on events of versions before 0.3.",
            },
            "payload": { "$ref": format!("#/components/schemas/{name}") },
            "position": {
                "type": "integer",
                "minimum": 0,
                "description": "The position in the log. Only the webhook has it, except for replays of one chat.",
            },
        },
        "required": ["event_type", "event_id", "event_time", "event_version", "partition_key", "payload"],
    })
}

fn chat_id() -> Value {
    json!({ "$ref": "#/components/schemas/ChatId" })
}

fn event_id() -> Value {
    json!({
        "type": "string",
        "pattern": "^evt_[0-7][0-9A-HJKMNP-TV-Z]{25}$",
        "description": "The id of the event, the same in every repetition.",
    })
}

fn reference(section: &str, name: &str) -> (String, Value) {
    (name.to_owned(), json!({ "$ref": format!("#/components/{section}/{name}") }))
}

/// An event of the example story.
struct Example {
    summary: &'static str,
    event: Event,
}

impl Example {
    fn event_type(&self) -> &'static str {
        event_type(&self.event.body)
    }

    fn json(&self, position: Option<u64>) -> Value {
        let envelope = EventEnvelope { event: std::borrow::Cow::Borrowed(&self.event), position };
        serde_json::from_slice(&envelope.encode()).expect("an event is JSON")
    }
}

/// One event of each type.
fn examples() -> Vec<Example> {
    let (chat_id, ada) = (story::group(), story::ada());
    let message = domain::Message {
        message_id: story::second_message(),
        chat_id: story::direct_chat(),
        sequence: Sequence(2),
        sender_id: story::bob(),
        client_message_id: story::first_send(),
        body: domain::Body::new(
            story::SECOND_CONTENT.to_owned().try_into().expect("it is within the bounds"),
            domain::ContentType::Text,
        ),
        created_at: story::second_moment(),
        expires_at: None,
        state: domain::MessageState::default(),
    };
    let update = domain::MessageUpdate {
        update_id: story::third_message(),
        chat_id: story::direct_chat(),
        sequence: Sequence(3),
        user_id: ada,
        client_message_id: story::update(),
        target: Sequence(2),
        kind: domain::UpdateKind::Reacted(story::reaction()),
        created_at: story::now(),
        expires_at: None,
    };
    let counted = domain::ReactionCount { reaction: story::reaction(), count: 1 };
    let state = domain::MessageState { revision: Sequence(3), edited: None, reactions: vec![counted] };
    let updated = domain::Message { state, ..message.clone() };
    let name = |name: &str| name.to_owned().try_into().expect("it is within the bounds");
    let change = |summary, event_number: Option<u64>, body| Example {
        summary,
        event: Event {
            event_id: EventId::from_bytes(story::group().to_bytes()),
            event_time: story::now(),
            event_number: event_number.map(domain::EventNumber),
            body,
        },
    };
    vec![
        Example {
            summary: "A message was sent.",
            event: Event::message_persisted(message, None).numbered(Some(domain::EventNumber(3))),
        },
        Example {
            summary: "A message was edited or deleted, or a member reacted to it.",
            event: Event::message_updated(update, Some(updated)).numbered(Some(domain::EventNumber(4))),
        },
        change(
            "Messages were purged. No read has returned them since they expired.",
            None,
            EventBody::MessagesExpired { chat_id, sequences: vec![Sequence(1)] },
        ),
        change(
            "A member was added, removed, or given another role.",
            Some(4),
            EventBody::MembershipChanged {
                chat_id,
                user_id: story::cleo(),
                change: MembershipChange::Added,
                role: Role::Member,
                changed_by: ada,
            },
        ),
        change(
            "A chat was created.",
            Some(1),
            EventBody::ChatCreated {
                chat_id,
                chat_type: ChatType::Group,
                name: Some(name("Saturday")),
                created_by: ada,
                initial_members: vec![ada, story::bob()],
            },
        ),
        change(
            "A group got another name.",
            Some(5),
            EventBody::ChatRenamed { chat_id, name: name("Sunday"), changed_by: ada },
        ),
        change(
            "New messages of a chat live for another time.",
            Some(6),
            EventBody::MessageTtlChanged { chat_id, message_ttl: Ttl::from_secs(86_400), changed_by: ada },
        ),
    ]
}

fn notification() -> Value {
    let body = NotificationBody {
        body_type: NotificationBody::TYPE,
        user_id: story::ada(),
        device_id: story::device(),
        token: Some("what the device was registered with"),
        chat_id: story::group(),
        chat_type: ChatType::Group,
        chat_name: Some("Saturday"),
        message_id: story::second_message(),
        sequence: Sequence(2),
        sender_id: story::bob(),
        sender_name: "Bob",
        preview: Some(story::SECOND_CONTENT),
        created_at: story::second_moment(),
        unread_count: 1,
        unread_count_exact: None,
    };
    serde_json::to_value(body).expect("strings and numbers always serialize")
}

/// Asserts that JSON text matches a schema of the document.
#[cfg(test)]
#[track_caller]
pub(super) fn assert_described(name: &str, text: &[u8]) {
    let document = events_asyncapi();
    let schema = json!({ "$ref": format!("#/components/schemas/{name}"), "components": document["components"] });
    let validator = jsonschema::validator_for(&schema).expect("the schemas are schemas");
    let value: Value = serde_json::from_slice(text).expect("it is JSON");
    assert!(validator.is_valid(&value), "{value} is no {name}");
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    use super::*;

    #[test]
    fn the_committed_document_is_the_present_one() {
        let text = serde_json::to_string_pretty(&events_asyncapi()).unwrap() + "\n";
        expect_file!["../../../../docs/asyncapi-events.json"].assert_eq(&text);
    }

    #[test]
    fn every_type_of_event_has_one_example_that_matches_its_schema() {
        let mut types: Vec<_> = examples().iter().map(Example::event_type).collect();
        types.sort();
        let mut all = ChangePayload::schemas().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        all.extend([MessagePersisted::TYPE, MessageUpdated::TYPE]);
        all.sort();
        assert_eq!(types, all);
        for example in examples() {
            let value = example.json(None);
            assert_described("Event", value.to_string().as_bytes());
            assert_described(&format!("{}Event", example.event_type()), value.to_string().as_bytes());
        }
        assert_described("Notification", notification().to_string().as_bytes());
        assert_described("OneTimeCode", one_time_code().to_string().as_bytes());
    }

    #[test]
    fn a_damaged_event_does_not_match() {
        let document = events_asyncapi();
        let schema = json!({ "$ref": "#/components/schemas/Event", "components": document["components"] });
        let validator = jsonschema::validator_for(&schema).unwrap();
        let sound = examples()[0].json(None).to_string();
        for (from, to) in [
            ("\"event_version\":1", "\"event_version\":2"),
            ("\"event_number\":3", "\"event_number\":0"),
            ("\"evt_", "\"event_"),
            ("MessagePersisted", "MessageEdited"),
            ("\"sequence\":2", "\"sequence\":\"2\""),
            ("\"client_message_id\"", "\"client_id\""),
            ("\"partition_key\":\"chat_", "\"partition_key\":\"room_"),
        ] {
            let damaged = sound.replace(from, to);
            assert_ne!(damaged, sound, "{from}");
            assert!(!validator.is_valid(&serde_json::from_str(&damaged).unwrap()), "{damaged}");
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn check(document: &Value, value: &Value) {
            match value {
                Value::Object(fields) => {
                    if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                        assert!(document.pointer(reference.strip_prefix('#').unwrap()).is_some(), "{reference}");
                    }
                    fields.values().for_each(|value| check(document, value));
                }
                Value::Array(values) => values.iter().for_each(|value| check(document, value)),
                _ => {}
            }
        }
        let document = events_asyncapi();
        check(&document, &document);
    }
}
