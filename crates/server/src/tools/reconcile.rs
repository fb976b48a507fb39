//! Compares store and log in both directions (ADR-003, 7.5): messages without an event, events without a message, and
//! events that were published after a later one of their chat.
//!
//! It covers every chat with an event in the log since the given time, the chats with unpublished events in the outbox,
//! and a named chat. A chat that lost all its events of that time, although the outbox considers them published, is
//! only found by its name: finding it otherwise would take a scan.
//!
//! Memory is bounded:
//! - a state of some 100 bytes per chat, for at most a million chats; events of further chats are counted and reported
//! - the ids of at most 100,000 events that wait for comparison
//! - as many findings as requested

mod comparison;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use domain::limits::RETENTION;
use domain::{ChatId, Event, MessageId, Sequence, Timestamp};
use ports::{
    Clock, Engine, EventLog, EventProducer, Ids, MessageReader, Outbox, PageBounds, Position, RandomIds, Start,
    StoreError, SystemClock,
};
use serde::Serialize;
use tokio::time::{Instant, timeout};

use self::comparison::Comparison;
use super::events::open;
use crate::config::Config;

/// A younger message is not missing yet: its event may still be published.
const SETTLED_AFTER: Duration = Duration::from_secs(60);
/// Distance from the start of the log's retention at which a comparison starts by default, because the oldest events
/// are being deleted.
const RETENTION_EDGE: Duration = Duration::from_secs(3600);
/// Idle time of the log after which its lag is checked.
const QUIET: Duration = Duration::from_secs(2);
/// The longest idle time with a remaining lag.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// How long reading continues in a log with active producers, after the initial lag has been read. Some partitions are
/// ahead of others then.
const OVERLAP: Duration = Duration::from_secs(5);
/// Events between two checks of the lag.
const LOOK_INTERVAL: u64 = 10_000;
/// Events published in one batch.
const PUBLISH_LEN: usize = 100;

/// The scope of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// One chat; otherwise all chats that the module describes.
    pub chat_id: Option<ChatId>,
    /// The start time; the retention of the log, if absent.
    pub since: Option<Timestamp>,
    /// Number of findings after which it stops.
    pub limit: usize,
    /// Most pages of messages read from the store per second.
    pub rate: u32,
}

/// A message, or the event of one, with a discrepancy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ReconcileFinding {
    pub chat_id: ChatId,
    pub sequence: Sequence,
    pub message_id: MessageId,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Events and messages older than this were left out.
    pub since: Timestamp,
    /// Chats that were compared at least in part.
    pub chats: u64,
    /// Message events read, each counted once.
    pub events: u64,
    /// Duplicate events in the log, which are allowed.
    pub repeated: u64,
    /// Messages of the store that were compared.
    pub messages: u64,
    /// Messages whose event is not in the log.
    pub missing: Vec<ReconcileFinding>,
    /// Events whose message is not in the store.
    pub orphaned: Vec<ReconcileFinding>,
    /// Events first published after a later event of their chat.
    pub late: Vec<ReconcileFinding>,
    /// Chats with overdue unpublished events, according to the outbox.
    pub overdue: Vec<ChatId>,
    /// Missing events that have been published by this run.
    pub republished: u64,
    /// Events of chats beyond the memory limit, which were not compared.
    pub uncovered_events: u64,
    /// Whether it stopped at the limit of findings.
    pub stopped_at_limit: bool,
}

impl Report {
    /// Whether there are findings for an operator to handle.
    pub fn has_findings(&self) -> bool {
        !self.missing.is_empty() || !self.orphaned.is_empty() || !self.late.is_empty() || !self.overdue.is_empty()
    }

    fn findings(&self) -> usize {
        self.missing.len() + self.orphaned.len() + self.late.len()
    }
}

/// Progress: log entries read, and the total.
#[derive(Clone, Copy, Debug)]
pub struct ReconcileProgress {
    pub read: u64,
    pub all: u64,
}

/// Compares, and publishes missing events if `republish` is set. It changes nothing else.
pub async fn reconcile(
    config: &Config,
    scope: Scope,
    republish: bool,
    progress: impl Fn(ReconcileProgress),
) -> anyhow::Result<Report> {
    let engine = open(config).await?;
    let outcome = run(&*engine, scope, republish, progress).await;
    engine.close().await;
    outcome
}

async fn run(
    engine: &dyn Engine,
    scope: Scope,
    republish: bool,
    progress: impl Fn(ReconcileProgress),
) -> anyhow::Result<Report> {
    let outbox = engine.outbox();
    if republish && outbox.is_none() {
        bail!("on one machine an event is part of its message's commit; there is nothing to republish");
    }
    let producer = if republish { engine.producer() } else { Ok(None) };
    let producer = producer.map_err(anyhow::Error::from_boxed).context("the log cannot be written")?;
    let look = ReconcileRun { log: engine.log(), messages: engine.stores().message_reader, outbox, producer };
    look.run(scope, progress).await
}

/// Store, log, and the outbox between them, if they are separate.
struct ReconcileRun {
    log: Arc<dyn EventLog>,
    messages: Arc<dyn MessageReader>,
    outbox: Option<Arc<dyn Outbox>>,
    /// Publishes missing events; absent if they are only reported.
    producer: Option<Arc<dyn EventProducer>>,
}

impl ReconcileRun {
    async fn run(&self, scope: Scope, progress: impl Fn(ReconcileProgress)) -> anyhow::Result<Report> {
        let now = SystemClock.now();
        let settled = now.minus(SETTLED_AFTER);
        let since = scope.since.unwrap_or(now.minus(RETENTION.saturating_sub(RETENTION_EDGE)));
        let mut comparison = Comparison::new(&*self.messages, &SystemClock, scope, since);
        self.read_log(&mut comparison, since, progress).await?;
        if let Some(outbox) = &self.outbox {
            let overdue = outbox.overdue(settled).await.context("cannot read the unpublished events from the store")?;
            comparison.report.overdue = match scope.chat_id {
                Some(named) => overdue.into_iter().filter(|chat_id| *chat_id == named).collect(),
                None => overdue,
            };
        }
        let mut report = comparison.finish(settled).await.context("the store cannot be read")?;
        // Older events may be missing beyond the limit, and they would have to be published first.
        if let Some(producer) = self.producer.as_ref().filter(|_| !report.stopped_at_limit) {
            self.republish(&**producer, &mut report).await?;
        }
        Ok(report)
    }

    /// Feeds all current events of the log to the comparison.
    async fn read_log(
        &self,
        comparison: &mut Comparison<'_>,
        since: Timestamp,
        progress: impl Fn(ReconcileProgress),
    ) -> anyhow::Result<()> {
        let name = |what: &str| format!("reconcile-{what}-{}", RandomIds.ulid());
        let (group, end) = (name("reader"), name("end"));
        let moved = async |group: &str, to| self.log.seek(group, to).await.context("the log cannot be reached");
        moved(&group, Start::Time(since)).await?;
        moved(&end, Start::At(Position(u64::MAX))).await?;
        let all = self.log.lag(&group).await?;
        let mut consumer = self.log.consumer(&group).await?;
        let (mut read, mut look_at, mut last_read) = (0, all, Instant::now());
        let mut overlap_ends: Option<Instant> = None;
        while all > 0 && !comparison.is_full() {
            let next = timeout(QUIET, consumer.next()).await;
            let is_quiet = next.is_err();
            if let Ok(records) = next {
                let records = records.context("the log cannot be read")?;
                for record in &records {
                    comparison.take(&record.event).await.context("the store cannot be read")?;
                }
                read += records.len() as u64;
                last_read = Instant::now();
                progress(ReconcileProgress { read: read.min(all), all });
            }
            match overlap_ends {
                Some(ends) if is_quiet || Instant::now() >= ends => break,
                Some(_) => {}
                None if is_quiet || read >= look_at => {
                    look_at = read + LOOK_INTERVAL;
                    consumer.commit().await?;
                    let left = self.log.lag(&group).await?;
                    // The initial events are all read when the remaining lag is no larger than the events since then.
                    let has_reached_end = left == 0 || left <= self.log.lag(&end).await?;
                    if has_reached_end && (left == 0 || is_quiet) {
                        break;
                    } else if has_reached_end {
                        overlap_ends = Some(Instant::now() + OVERLAP);
                    } else if last_read.elapsed() > SILENCE_MAX {
                        bail!("the log has a lag but returns no events; {read} of {all} were read");
                    }
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Publishes missing events from the store, the oldest of each chat first.
    async fn republish(&self, producer: &dyn EventProducer, report: &mut Report) -> anyhow::Result<()> {
        let mut chats: BTreeMap<ChatId, Vec<Sequence>> = BTreeMap::new();
        for finding in &report.missing {
            chats.entry(finding.chat_id).or_default().push(finding.sequence);
        }
        let count = report.missing.len();
        for (chat_id, mut sequences) in chats {
            sequences.sort();
            for sequences in sequences.chunks(PUBLISH_LEN) {
                let events = self.events(chat_id, sequences).await.context("the store cannot be read")?;
                let published = producer.publish(&events).await;
                published.with_context(|| format!("{} of {count} events were republished", report.republished))?;
                report.republished += events.len() as u64;
                report.missing.retain(|found| found.chat_id != chat_id || !sequences.contains(&found.sequence));
            }
        }
        Ok(())
    }

    /// The events of messages and updates. Expired ones are left out, because they must not be delivered any more (G11).
    async fn events(&self, chat_id: ChatId, sequences: &[Sequence]) -> Result<Vec<Arc<Event>>, StoreError> {
        let mut events = Vec::with_capacity(sequences.len());
        for sequence in sequences {
            let one = PageBounds { count: 1, bytes: 0 };
            let before = Sequence(sequence.0.saturating_sub(1));
            let page = self.messages.after(chat_id, before, one, SystemClock.now()).await?;
            let message = page.messages.into_iter().find(|message| message.sequence == *sequence);
            // The original connection is unknown by now, so no connection is excluded from the push.
            events.extend(message.map(|message| Arc::new(Event::message_persisted(message, None))));
            let update = page.updates.into_iter().find(|update| update.sequence == *sequence);
            let target = page.updated.into_iter().next();
            events.extend(update.map(|update| Arc::new(Event::message_updated(update, target))));
        }
        Ok(events)
    }
}
