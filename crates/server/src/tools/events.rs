//! The event log for operators: reading along, and sending a group of consumers to another place (ADR-003, 7.4).

use std::borrow::Cow;
use std::str::FromStr;

use anyhow::{Context, bail, ensure};
use domain::{ChatId, EventKind, Timestamp};
use fanout::Fanout;
use notify::{EventWebhook, Notifications};
pub use ports::Record;
use ports::{EventConsumer, EventLog, Ids, Position, RandomIds, Start, StoreError};
use protocol::event::EventEnvelope;
use serde_json::Value;
use tidings_kafka::GroupActive;

use super::opened::Opened;
use crate::config::Config;

/// Bytes of the name of a group, at the most.
const GROUP_LEN_MAX: usize = 200;
/// What of an event's payload its users wrote: the content of a message, the name of a chat.
const CONTENTS: [&str; 2] = ["content", "name"];

/// The groups that are the service's own, and the role whose processes consume as them.
const OWN_GROUPS: [(&str, &str); 3] =
    [(Fanout::GROUP, "fanout"), (EventWebhook::GROUP, "api"), (Notifications::GROUP, "api")];

/// A place in the log, as it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// Behind everything that is there.
    Now,
    /// At the oldest event kept.
    Oldest,
    /// At the first event that is not older.
    Time(Timestamp),
    /// At the event with this position.
    Position(u64),
}

/// A text that names no place.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{0}` is no place in the log; it is `now`, `oldest`, a time as 2026-01-30T14:30:00Z, or the position of an event"
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
            // No event has this place, and none is behind it.
            Beginning::Now => Self::At(Position(u64::MAX)),
            Beginning::Oldest => Self::Oldest,
            Beginning::Time(time) => Self::Time(time),
            Beginning::Position(position) => Self::At(Position(position)),
        }
    }
}

/// What of the log is shown, and from where on.
#[derive(Clone, Debug, Default)]
pub struct TailOptions {
    /// Where to begin; where the group is, if it is absent.
    pub from: Option<Beginning>,
    /// The group to read as, which goes on there the next time. Without one it is a group of this call alone.
    pub group: Option<String>,
    pub chat_id: Option<ChatId>,
    pub kind: Option<EventKind>,
}

/// Reads the log along.
pub struct Tail {
    opened: Opened,
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
            "the service consumes as group `{group}`, and would miss what is shown here; choose another --group"
        );
        let opened = Opened::open(config).await?;
        let from = options.from.or_else(|| options.group.is_none().then_some(Beginning::Now));
        if let Some(from) = from {
            seek(&*opened.log, &group, from.into()).await?;
        }
        let consumer = opened.log.consumer(&group).await?;
        Ok(Self { opened, consumer, group, options })
    }

    /// Waits for the next events and returns those that are asked for, maybe none. `None` where nobody can write while
    /// this is open, and everything has been read.
    pub async fn next(&mut self) -> anyhow::Result<Option<Vec<Record>>> {
        if self.opened.is_still() && self.opened.log.lag(&self.group).await? == 0 {
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

    /// Says that everything so far was shown: the group goes on behind it.
    pub async fn shown(&mut self) -> anyhow::Result<()> {
        Ok(self.consumer.commit().await?)
    }

    pub async fn close(self) {
        drop(self.consumer);
        self.opened.close().await;
    }
}

/// An event in its envelope, with its place. What users wrote is replaced by its length, unless `contents` are wanted.
pub fn envelope(record: &Record, contents: bool) -> anyhow::Result<Value> {
    let envelope = EventEnvelope { event: Cow::Borrowed(&*record.event), position: Some(record.position.0) };
    let mut envelope: Value = serde_json::from_slice(&envelope.encode())?;
    if !contents && let Some(payload) = envelope["payload"].as_object_mut() {
        for key in CONTENTS {
            if let Some(hidden) = payload.remove(key) {
                payload.insert(format!("{key}_bytes"), hidden.as_str().map_or(0, str::len).into());
            }
        }
    }
    Ok(envelope)
}

/// A group that was sent to a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    pub group: String,
    /// How many places of the log it will read.
    pub events: u64,
}

/// Has a group begin at a place, so that whatever consumes as it builds its state anew from there.
///
/// It is for a fresh group: one that has consumers is refused, and one that has consumed too, unless `force` says that
/// this is meant.
pub async fn replay(config: &Config, group: &str, from: Beginning, force: bool) -> anyhow::Result<Prepared> {
    let group = checked(group)?;
    let opened = Opened::open(config).await?;
    let outcome = prepare(&*opened.log, group, from, force).await;
    opened.close().await;
    outcome
}

async fn prepare(log: &dyn EventLog, group: &str, from: Beginning, force: bool) -> anyhow::Result<Prepared> {
    if let Some(role) = role_of(group).filter(|_| !force) {
        bail!(
            "the service itself consumes as group `{group}`; stop all processes with the role `{role}`, say --force, \
             then start them again"
        );
    }
    if !force && !is_fresh(log, group).await? {
        bail!(
            "group `{group}` has consumed already; to rebuild from a place give the new consumer a new group, or say \
             --force to move this one"
        );
    }
    seek(log, group, from.into()).await?;
    Ok(Prepared { group: group.to_owned(), events: log.lag(group).await? })
}

/// The groups that the service itself consumes as.
pub fn own_groups() -> [&'static str; OWN_GROUPS.len()] {
    OWN_GROUPS.map(|(group, _)| group)
}

/// The role whose processes consume as a group, if it is one of the service's own.
fn role_of(group: &str) -> Option<&'static str> {
    OWN_GROUPS.iter().find(|(own, _)| *own == group).map(|(_, role)| *role)
}

/// Whether a group stands where one stands that has never consumed.
async fn is_fresh(log: &dyn EventLog, group: &str) -> Result<bool, StoreError> {
    let unused = format!("unused-{}", RandomIds.ulid());
    // Events come in meanwhile, so there is one look before and one after.
    let fewest = log.lag(&unused).await?;
    let left = log.lag(group).await?;
    Ok((fewest..=log.lag(&unused).await?).contains(&left))
}

/// Moves a group, and says what to stop if the log refuses it because the group is in use.
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
        None => bail!("somebody consumes as group `{group}`; stop its consumers, or choose a group that is not in use"),
    }
}

/// The name of a group as the log knows it.
fn checked(group: &str) -> anyhow::Result<&str> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    ensure!(
        (1..=GROUP_LEN_MAX).contains(&group.len()) && group.bytes().all(allowed),
        "`{group}` is no name for a group; use 1 to {GROUP_LEN_MAX} letters, digits, `.`, `_` and `-`"
    );
    // What people call it is not what the log calls it.
    Ok(if group == "notifications" { Notifications::GROUP } else { group })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use domain::{ChatId, Event, EventBody, EventId, UserId};
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
    fn places_are_words_times_and_positions() {
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
        assert!(error.to_string().starts_with("`yesterday` is no place in the log; "), "{error}");
    }

    #[tokio::test]
    async fn now_is_behind_everything_that_is_there() {
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
        assert_eq!(prepared, Prepared { group: "search".to_owned(), events: all });
        assert_eq!(prepare(&store, "fresh", Beginning::Oldest, false).await.unwrap().events, all);
    }

    #[tokio::test]
    async fn a_group_of_the_service_is_moved_by_force_alone() {
        let store = with_chats(1).await;
        let refusal = prepare(&store, "webhook", Beginning::Oldest, false).await.unwrap_err();
        assert!(refusal.to_string().contains("stop all processes with the role `api`, say --force"), "{refusal}");
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
    fn what_users_wrote_is_hidden_unless_asked_for() {
        let body = EventBody::ChatRenamed {
            chat_id: ChatId::from_bytes([1; 16]),
            name: "secret".to_owned().try_into().unwrap(),
            changed_by: UserId::from_bytes([2; 16]),
        };
        let event = Arc::new(Event { event_id: EventId::from_bytes([3; 16]), event_time: Timestamp::default(), body });
        let record = Record { position: Position(7), event };
        let hidden = envelope(&record, false).unwrap();
        assert!(!hidden.to_string().contains("secret"), "{hidden}");
        assert_eq!((&hidden["payload"]["name_bytes"], &hidden["position"]), (&6.into(), &7.into()));
        assert_eq!(envelope(&record, true).unwrap()["payload"]["name"], "secret");
    }
}
