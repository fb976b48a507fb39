//! The event log for operators: reads it, and moves consumer groups to another position (ADR-003, 7.4).

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use domain::{ChatId, EventKind, Timestamp};
use fanout::Fanout;
use notify::{EventWebhook, Notifications};
pub use ports::Record;
use ports::{Engine, EventConsumer, EventLog, GroupActive, Ids, Position, RandomIds, Start, StoreError};
use protocol::event::EventEnvelope;
use serde_json::Value;

use super::engine::{open_existing, with_remedy};
use crate::config::Config;

/// Most bytes in the name of a group.
const GROUP_LEN_MAX: usize = 200;
/// The fields of an event's payload that users wrote: the content of a message, the name of a chat, a reaction.
const CONTENTS: [&str; 3] = ["content", "name", "reaction"];

/// The consumer groups of the service itself, and the role that consumes as each.
const OWN_GROUPS: [(&str, &str); 3] =
    [(Fanout::GROUP, "fanout"), (EventWebhook::GROUP, "api"), (Notifications::GROUP, "api")];

/// A position in the log, as an operator types it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// After the last event.
    Now,
    /// At the oldest event kept.
    Oldest,
    /// At the first event that is not older.
    Time(Timestamp),
    /// At the event with this position.
    Position(u64),
}

/// A text that is not a position.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{0}` is not a position in the log; use `now`, `oldest`, a time as 2026-01-30T14:30:00Z, or the position of an event"
)]
pub struct BeginningError(String);

impl FromStr for Beginning {
    type Err = BeginningError;

    fn from_str(text: &str) -> Result<Self, BeginningError> {
        match text {
            "now" => return Ok(Self::Now),
            "oldest" => return Ok(Self::Oldest),
            _ => {}
        }
        let position = text.parse().map(Self::Position);
        position.or_else(|_| text.parse().map(Self::Time)).map_err(|_| BeginningError(text.to_owned()))
    }
}

impl From<Beginning> for Start {
    fn from(beginning: Beginning) -> Self {
        match beginning {
            // No event has this position, so everything existing is before it.
            Beginning::Now => Self::At(Position(u64::MAX)),
            Beginning::Oldest => Self::Oldest,
            Beginning::Time(time) => Self::Time(time),
            Beginning::Position(position) => Self::At(Position(position)),
        }
    }
}

/// The part of the log to show.
#[derive(Clone, Debug, Default)]
pub struct TailOptions {
    /// The position to start at; the position of the group, if absent.
    pub from: Option<Beginning>,
    /// The consumer group, which keeps its position for the next call. Without one, a temporary group is used.
    pub group: Option<String>,
    pub chat_id: Option<ChatId>,
    pub kind: Option<EventKind>,
}

/// Follows the log.
pub struct Tail {
    engine: Box<dyn Engine>,
    log: Arc<dyn EventLog>,
    consumer: Box<dyn EventConsumer>,
    group: String,
    options: TailOptions,
}

impl Tail {
    pub async fn open(config: &Config, options: TailOptions) -> anyhow::Result<Self> {
        let group = match &options.group {
            Some(group) => checked(group)?.to_owned(),
            None => format!("tail-{}", RandomIds.ulid()),
        };
        ensure!(
            role_of(&group).is_none(),
            "the service consumes as group `{group}`, and would miss the events shown here; choose another --group"
        );
        let engine = open(config).await?;
        let log = engine.log();
        let from = options.from.or_else(|| options.group.is_none().then_some(Beginning::Now));
        if let Some(from) = from {
            seek(&*log, &group, from.into()).await?;
        }
        let consumer = log.consumer(&group).await?;
        Ok(Self { engine, log, consumer, group, options })
    }

    /// Waits for the next events and returns those that match, maybe none. Returns `None` when everything has been read
    /// and no process can write while this is open.
    pub async fn next(&mut self) -> anyhow::Result<Option<Vec<Record>>> {
        if self.engine.is_exclusive() && self.log.lag(&self.group).await? == 0 {
            return Ok(None);
        }
        let mut records = self.consumer.next().await.context("the log cannot be read")?;
        let TailOptions { chat_id, kind, .. } = self.options;
        records.retain(|record| {
            let body = &record.event.body;
            chat_id.is_none_or(|chat_id| body.chat_id() == chat_id) && kind.is_none_or(|kind| body.kind() == kind)
        });
        Ok(Some(records))
    }

    /// Commits the position of the group after all events returned so far.
    pub async fn shown(&mut self) -> anyhow::Result<()> {
        Ok(self.consumer.commit().await?)
    }

    pub async fn close(self) {
        drop((self.consumer, self.log));
        self.engine.close().await;
    }
}

/// Opens the store and log of a configuration.
pub(super) async fn open(config: &Config) -> anyhow::Result<Box<dyn Engine>> {
    let remedy = "the log is in the data directory, which one process holds at a time";
    open_existing(config).await.map_err(|error| with_remedy(error, remedy))
}

/// An event in its envelope, with its position. Without `contents`, text written by users is replaced by its length.
pub fn envelope(record: &Record, contents: bool) -> anyhow::Result<Value> {
    let envelope = EventEnvelope { event: Cow::Borrowed(&*record.event), position: Some(record.position.0) };
    let mut envelope: Value = serde_json::from_slice(&envelope.encode())?;
    if !contents {
        hide_contents(&mut envelope["payload"]);
    }
    Ok(envelope)
}

/// Replaces the texts that users wrote, in a payload and in the message in it.
fn hide_contents(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for key in CONTENTS {
                if let Some(hidden) = fields.remove(key) {
                    fields.insert(format!("{key}_bytes"), hidden.as_str().map_or(0, str::len).into());
                }
            }
            fields.values_mut().for_each(hide_contents);
        }
        Value::Array(values) => values.iter_mut().for_each(hide_contents),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A group that was moved to a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedGroup {
    pub group: String,
    /// The number of log entries that it will read.
    pub events: u64,
}

/// Moves a group to a position, so that its consumers rebuild their state from there.
///
/// It is meant for a new group. A group with active consumers is refused. A group that has already consumed is refused
/// unless `force` is set.
pub async fn replay(config: &Config, group: &str, from: Beginning, force: bool) -> anyhow::Result<MovedGroup> {
    let group = checked(group)?;
    let engine = open(config).await?;
    let outcome = prepare(&*engine.log(), group, from, force).await;
    engine.close().await;
    outcome
}

async fn prepare(log: &dyn EventLog, group: &str, from: Beginning, force: bool) -> anyhow::Result<MovedGroup> {
    if let Some(role) = role_of(group).filter(|_| !force) {
        bail!(
            "the service itself consumes as group `{group}`; stop all processes with the role `{role}`, pass --force, \
             then start them again"
        );
    }
    if !force && !is_fresh(log, group).await? {
        bail!(
            "group `{group}` has consumed already; to rebuild from a position give the new consumer a new group, or pass \
             --force to move this one"
        );
    }
    seek(log, group, from.into()).await?;
    Ok(MovedGroup { group: group.to_owned(), events: log.lag(group).await? })
}

/// The consumer groups of the service itself.
pub fn own_groups() -> [&'static str; OWN_GROUPS.len()] {
    OWN_GROUPS.map(|(group, _)| group)
}

/// The role that consumes as a group, if it is one of the service's own.
fn role_of(group: &str) -> Option<&'static str> {
    OWN_GROUPS.iter().find(|(own, _)| *own == group).map(|(_, role)| *role)
}

/// Whether a group is at the position of a group that has never consumed.
async fn is_fresh(log: &dyn EventLog, group: &str) -> Result<bool, StoreError> {
    let unused = format!("unused-{}", RandomIds.ulid());
    // New events may arrive meanwhile, so the reference is read before and after.
    let fewest = log.lag(&unused).await?;
    let left = log.lag(group).await?;
    Ok((fewest..=log.lag(&unused).await?).contains(&left))
}

/// Moves a group. If the log refuses because the group is in use, the error names the processes to stop.
async fn seek(log: &dyn EventLog, group: &str, to: Start) -> anyhow::Result<()> {
    let Err(failure) = log.seek(group, to).await else { return Ok(()) };
    let StoreError::Unavailable(source) = &failure else { return Err(failure.into()) };
    if source.downcast_ref::<GroupActive>().is_none() {
        return Err(failure)
            .context(format!("group `{group}` was not moved; is the log reachable? see `tidings doctor`"));
    }
    match role_of(group) {
        Some(role) => bail!(
            "processes with the role `{role}` consume as group `{group}`; stop them, replay, then start them again"
        ),
        None => {
            bail!("consumers are active in group `{group}`; stop its consumers, or choose a group that is not in use")
        }
    }
}

/// Checks the name of a group, and returns the name that the log uses.
fn checked(group: &str) -> anyhow::Result<&str> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    ensure!(
        (1..=GROUP_LEN_MAX).contains(&group.len()) && group.bytes().all(allowed),
        "`{group}` is not a group name; use 1 to {GROUP_LEN_MAX} letters, digits, `.`, `_` and `-`"
    );
    // Operators call it `notifications`, the log has another name.
    Ok(if group == "notifications" { Notifications::GROUP } else { group })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use domain::{
        Body, ChatId, ClientMessageId, ContentType, Event, EventBody, EventId, Message, MessageId, MessageState,
        MessageUpdate, Reaction, ReactionCount, Sequence, UpdateKind, UserId,
    };
    use memory::MemoryStore;
    use ports::{ChatWriter, Clock, NewGroup, SystemClock};
    use tokio::time::timeout;

    use super::*;

    async fn with_chats(count: usize) -> MemoryStore {
        let store = MemoryStore::new(Arc::new(RandomIds));
        for _ in 0..count {
            let name = "group".to_owned().try_into().unwrap();
            let (chat_id, created_by) = (RandomIds.ulid().into(), RandomIds.ulid().into());
            let group = NewGroup { chat_id, name, created_by, members: vec![], created_at: SystemClock.now() };
            store.create_group(group).await.unwrap();
        }
        store
    }

    #[test]
    fn positions_are_parsed_from_words_times_and_numbers() {
        let time = "2026-01-30T14:30:00Z".parse().unwrap();
        for (text, place) in [
            ("now", Beginning::Now),
            ("oldest", Beginning::Oldest),
            ("2026-01-30T14:30:00Z", Beginning::Time(time)),
            ("17", Beginning::Position(17)),
        ] {
            assert_eq!(text.parse::<Beginning>().unwrap(), place);
        }
        let error = "yesterday".parse::<Beginning>().unwrap_err();
        assert!(error.to_string().starts_with("`yesterday` is not a position in the log; "), "{error}");
    }

    #[tokio::test]
    async fn now_is_after_the_last_event() {
        let store = with_chats(3).await;
        seek(&store, "new", Beginning::Now.into()).await.unwrap();
        assert_eq!(store.lag("new").await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_group_that_has_consumed_is_moved_by_force_alone() {
        let store = with_chats(3).await;
        let mut consumer = store.consumer("search").await.unwrap();
        timeout(Duration::from_secs(5), consumer.next()).await.unwrap().unwrap();
        consumer.commit().await.unwrap();
        let refusal = prepare(&store, "search", Beginning::Oldest, false).await.unwrap_err();
        assert!(refusal.to_string().starts_with("group `search` has consumed already; "), "{refusal}");
        let all = store.lag("unused").await.unwrap();
        let prepared = prepare(&store, "search", Beginning::Oldest, true).await.unwrap();
        assert_eq!(prepared, MovedGroup { group: "search".to_owned(), events: all });
        assert_eq!(prepare(&store, "fresh", Beginning::Oldest, false).await.unwrap().events, all);
    }

    #[tokio::test]
    async fn a_group_of_the_service_is_moved_by_force_alone() {
        let store = with_chats(1).await;
        let refusal = prepare(&store, "webhook", Beginning::Oldest, false).await.unwrap_err();
        assert!(refusal.to_string().contains("stop all processes with the role `api`, pass --force"), "{refusal}");
        assert_eq!(prepare(&store, "webhook", Beginning::Now, true).await.unwrap().events, 0);
    }

    #[test]
    fn names_of_groups_are_plain_words() {
        assert_eq!(checked("search-2").unwrap(), "search-2");
        assert_eq!(checked("notifications").unwrap(), "notify");
        for name in ["", "two words", &"x".repeat(201)] {
            assert!(checked(name).is_err(), "{name}");
        }
    }

    #[test]
    fn text_of_users_is_hidden_unless_asked_for() {
        let body = EventBody::ChatRenamed {
            chat_id: ChatId::from_bytes([1; 16]),
            name: "secret".to_owned().try_into().unwrap(),
            changed_by: UserId::from_bytes([2; 16]),
        };
        let event = Arc::new(Event {
            event_id: EventId::from_bytes([3; 16]),
            event_time: Timestamp::default(),
            event_number: None,
            body,
        });
        let record = Record { position: Position(7), event };
        let hidden = envelope(&record, false).unwrap();
        assert!(!hidden.to_string().contains("secret"), "{hidden}");
        assert_eq!((&hidden["payload"]["name_bytes"], &hidden["position"]), (&6.into(), &7.into()));
        assert_eq!(envelope(&record, true).unwrap()["payload"]["name"], "secret");
    }

    #[test]
    fn text_of_users_in_an_updated_message_is_hidden() {
        let reaction: Reaction = "secret".parse().unwrap();
        let message = Message {
            message_id: MessageId::from_bytes([1; 16]),
            chat_id: ChatId::from_bytes([2; 16]),
            sequence: Sequence(1),
            sender_id: UserId::from_bytes([3; 16]),
            client_message_id: ClientMessageId::from_bytes([4; 16]),
            body: Body::new("a secret".to_owned().try_into().unwrap(), ContentType::Text),
            created_at: Timestamp::default(),
            expires_at: None,
            state: MessageState {
                revision: Sequence(2),
                edited: None,
                reactions: vec![ReactionCount { reaction: reaction.clone(), count: 1 }],
            },
        };
        let update = MessageUpdate {
            update_id: MessageId::from_bytes([5; 16]),
            chat_id: message.chat_id,
            sequence: Sequence(2),
            user_id: message.sender_id,
            client_message_id: ClientMessageId::from_bytes([6; 16]),
            target: Sequence(1),
            kind: UpdateKind::Reacted(reaction),
            created_at: Timestamp::default(),
            expires_at: None,
        };
        let event = Arc::new(Event::message_updated(update, Some(message)));
        let record = Record { position: Position(7), event };
        let hidden = envelope(&record, false).unwrap();
        assert!(!hidden.to_string().contains("secret"), "{hidden}");
        assert_eq!(hidden["payload"]["reaction_bytes"], 6);
        assert_eq!(envelope(&record, true).unwrap()["payload"]["message"]["content"], "a secret");
    }
}
