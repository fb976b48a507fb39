//! Store against log, both ways (ADR-003, 7.5): messages without an event, events without a message, and events that
//! got into the log behind a later one of their chat.
//!
//! It covers every chat that the log has an event of since the time that is asked for, those that the store knows to
//! have something unpublished, and the one that is named. A chat that lost all its events of that time, although the
//! store believes that they are published, is found only by its name: finding it otherwise would take a scan.
//!
//! Memory is bounded. Of a chat it remembers where it is, which takes some 100 bytes, for a million chats at the most;
//! events of others are counted and said. Of events that wait to be compared it remembers the ids, for 100,000 at the
//! most, and of findings as many as are asked for.

mod comparison;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use domain::limits::RETENTION;
use domain::{ChatId, Event, MessageId, Sequence, Timestamp};
use ports::{Clock, EventLog, Ids, MessageReader, PageBounds, Position, RandomIds, Start, StoreError, SystemClock};
use serde::Serialize;
use tokio::time::{Instant, timeout};

use self::comparison::Comparison;
use super::opened::{Between, Opened};
use crate::config::Config;

/// What is younger than this is not missing yet: its event may be on the way.
const SETTLED_AFTER: Duration = Duration::from_secs(60);
/// How much later than its retention the log is looked at, where nobody says since when: its end is being cut off.
const RETENTION_EDGE: Duration = Duration::from_secs(3600);
/// How long the log is silent before it is asked whether there is more.
const QUIET: Duration = Duration::from_secs(2);
/// How long it may be silent although there is more.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// How long reading goes on in a log that never ends because others write to it, once as much was read as it had in the
/// beginning. Some parts of it are ahead of others then.
const OVERLAP: Duration = Duration::from_secs(5);
/// Events between two looks at whether everything was read.
const LOOK_INTERVAL: u64 = 10_000;
/// Events that are published at once.
const PUBLISH_LEN: usize = 100;

/// What is compared.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// One chat; otherwise all that the module says.
    pub chat_id: Option<ChatId>,
    /// Since when; as long as the log keeps events, if absent.
    pub since: Option<Timestamp>,
    /// Findings after which it stops.
    pub limit: usize,
    /// Pages of messages that are read from the store in a second, at the most.
    pub rate: u32,
}

/// A message, or an event of one, that something is wrong with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    pub chat_id: ChatId,
    pub sequence: Sequence,
    pub message_id: MessageId,
}

/// What came of it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Events and messages older than this were left out.
    pub since: Timestamp,
    /// Chats of which something was compared.
    pub chats: u64,
    /// Events of messages that were read, each counted once.
    pub events: u64,
    /// Events that the log has again. It may.
    pub repeated: u64,
    /// Messages of the store that were compared.
    pub messages: u64,
    /// Messages whose event is not in the log.
    pub missing: Vec<Finding>,
    /// Events whose message is not in the store.
    pub orphaned: Vec<Finding>,
    /// Events that are in the log for the first time behind a later one of their chat.
    pub late: Vec<Finding>,
    /// Chats with something that has waited for the log for too long, as the store knows.
    pub overdue: Vec<ChatId>,
    /// Those of the missing that are in the log now.
    pub republished: u64,
    /// Events of chats that found no room in memory and were not looked at.
    pub uncovered_events: u64,
    /// Whether it stopped at the limit of findings.
    pub stopped_at_limit: bool,
}

impl Report {
    /// Whether something is left for an operator to see to.
    pub fn has_findings(&self) -> bool {
        !self.missing.is_empty() || !self.orphaned.is_empty() || !self.late.is_empty() || !self.overdue.is_empty()
    }

    fn findings(&self) -> usize {
        self.missing.len() + self.orphaned.len() + self.late.len()
    }
}

/// How far it is: places of the log that were read, and all that there are to read.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub read: u64,
    pub all: u64,
}

/// Compares, and publishes what is missing if that is to be done. Nothing else is changed.
pub async fn reconcile(
    config: &Config,
    scope: Scope,
    republish: bool,
    progress: impl Fn(Progress),
) -> anyhow::Result<Report> {
    let opened = Opened::open(config).await?;
    if republish && opened.between.is_none() {
        bail!("on one machine an event is part of its message's commit; there is nothing to republish");
    }
    let look = Look { log: &*opened.log, messages: &*opened.messages, between: opened.between.as_ref() };
    let outcome = look.run(scope, republish, progress).await;
    opened.close().await;
    outcome
}

/// The two sides, and what is between them.
struct Look<'a> {
    log: &'a dyn EventLog,
    messages: &'a dyn MessageReader,
    between: Option<&'a Between>,
}

impl Look<'_> {
    async fn run(&self, scope: Scope, republish: bool, progress: impl Fn(Progress)) -> anyhow::Result<Report> {
        let now = SystemClock.now();
        let settled = now.minus(SETTLED_AFTER);
        let since = scope.since.unwrap_or(now.minus(RETENTION.saturating_sub(RETENTION_EDGE)));
        let mut comparison = Comparison::new(self.messages, &SystemClock, scope, since);
        self.read_log(&mut comparison, since, progress).await?;
        if let Some(between) = self.between {
            let overdue = between.outbox.overdue(settled).await.context("the store did not say what is unpublished")?;
            comparison.report.overdue = match scope.chat_id {
                Some(named) => overdue.into_iter().filter(|chat_id| *chat_id == named).collect(),
                None => overdue,
            };
        }
        let mut report = comparison.finish(settled).await.context("the store cannot be read")?;
        // Beyond the limit there may be older ones, and those would have to go first.
        if let Some(between) = self.between.filter(|_| republish && !report.stopped_at_limit) {
            self.republish(between, &mut report).await?;
        }
        Ok(report)
    }

    /// Hands everything that the log has by now to the comparison.
    async fn read_log(
        &self,
        comparison: &mut Comparison<'_>,
        since: Timestamp,
        progress: impl Fn(Progress),
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
                progress(Progress { read: read.min(all), all });
            }
            match overlap_ends {
                Some(ends) if is_quiet || Instant::now() >= ends => break,
                Some(_) => {}
                None if is_quiet || read >= look_at => {
                    look_at = read + LOOK_INTERVAL;
                    consumer.commit().await?;
                    let left = self.log.lag(&group).await?;
                    // Everything that was there is read when no more is left than has come since.
                    let has_reached_end = left == 0 || left <= self.log.lag(&end).await?;
                    if has_reached_end && (left == 0 || is_quiet) {
                        break;
                    } else if has_reached_end {
                        overlap_ends = Some(Instant::now() + OVERLAP);
                    } else if last_read.elapsed() > SILENCE_MAX {
                        bail!("the log has more than it tells; {read} of {all} events were read");
                    }
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Publishes what is missing from the store, the oldest of each chat first.
    async fn republish(&self, between: &Between, report: &mut Report) -> anyhow::Result<()> {
        let mut chats: BTreeMap<ChatId, Vec<Sequence>> = BTreeMap::new();
        for finding in &report.missing {
            chats.entry(finding.chat_id).or_default().push(finding.sequence);
        }
        let count = report.missing.len();
        for (chat_id, mut sequences) in chats {
            sequences.sort();
            for sequences in sequences.chunks(PUBLISH_LEN) {
                let events = self.events(chat_id, sequences).await.context("the store cannot be read")?;
                let published = between.producer.publish(&events).await;
                published.with_context(|| format!("{} of {count} events were republished", report.republished))?;
                report.republished += events.len() as u64;
                report.missing.retain(|found| found.chat_id != chat_id || !sequences.contains(&found.sequence));
            }
        }
        Ok(())
    }

    /// The events of messages. Those that have expired meanwhile are left out: they reach nobody any more (G11).
    async fn events(&self, chat_id: ChatId, sequences: &[Sequence]) -> Result<Vec<Arc<Event>>, StoreError> {
        let mut events = Vec::with_capacity(sequences.len());
        for sequence in sequences {
            let one = PageBounds { count: 1, bytes: 0 };
            let before = Sequence(sequence.0.saturating_sub(1));
            let page = self.messages.after(chat_id, before, one, SystemClock.now()).await?;
            let message = page.messages.into_iter().find(|message| message.sequence == *sequence);
            // Nobody waits on the connection it came in on any more, so that one may hear of it too.
            events.extend(message.map(|message| Arc::new(Event::message_persisted(message, None))));
        }
        Ok(events)
    }
}
