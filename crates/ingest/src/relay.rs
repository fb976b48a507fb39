use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use domain::{ChatId, Event, Sequence};
use futures_util::{FutureExt, StreamExt, stream};
use metrics::{counter, gauge, histogram};
use ports::{Clock, Committed, EventProducer, Outbox, StoreError, error_chain, trace};
use quick_cache::unsync::Cache;
use tokio::time::{MissedTickBehavior, interval};
use tracing::field::Empty;
use tracing::{Span, debug_span, warn};

use crate::checks;

/// Age at which an event is overdue. Every relay publishes overdue events; newer ones are left to the committing process.
const OVERDUE_AFTER: Duration = Duration::from_secs(2);
/// How often overdue events are looked up.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// How often published offsets are written to the store. It costs one write per busy chat, and stays below `OVERDUE_AFTER`.
const MARK_INTERVAL: Duration = Duration::from_millis(500);
/// Chats with a cached published sequence.
const KNOWN_MAX: usize = 100_000;
/// Chats that are read or marked concurrently.
const CHATS_AT_ONCE: usize = 16;

/// Publishes committed events to a log that is not part of the store (C2), in order and without client retries.
///
/// Order invariant: a message is published only when all earlier messages of its chat are known to be in the log. Otherwise
/// the relay reads the chat from the store, starting at its first unpublished message. Several relays may do this
/// concurrently: the log then has an event twice, but never a later event first.
pub struct Relay {
    pub outbox: Arc<dyn Outbox>,
    pub producer: Arc<dyn EventProducer>,
    pub clock: Arc<dyn Clock>,
}

/// Cached state of a relay. It may be lost at any time, because the store has the published sequences.
struct RelayCache {
    /// The last sequence of each chat in the log.
    published: Cache<ChatId, Sequence>,
    /// The same for chats that are not marked in the store yet.
    unmarked: BTreeMap<ChatId, Sequence>,
}

impl Relay {
    /// Publishes until `stop` is ready, then publishes the remaining commits. It retries failures of the store and the log.
    /// Dropping the future is safe: unpublished or unmarked events become overdue and are published again.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let mut cache = RelayCache { published: Cache::new(KNOWN_MAX), unmarked: BTreeMap::new() };
        let (mut marks, mut sweeps) = (interval(MARK_INTERVAL), interval(SWEEP_INTERVAL));
        marks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stop = std::pin::pin!(stop.fuse());
        loop {
            tokio::select! {
                biased;
                _ = marks.tick() => self.mark(&mut cache).await,
                _ = sweeps.tick() => self.sweep(&mut cache).await,
                commits = self.outbox.committed() => self.publish(commits, &mut cache).await,
                () = &mut stop => break,
            }
        }
        while let Some(commits) = self.outbox.committed().now_or_never() {
            self.publish(commits, &mut cache).await;
        }
        self.mark(&mut cache).await;
    }

    /// Publishes new commits. Messages that directly follow the last one in the log are published as they are; all others are
    /// read from the store.
    async fn publish(&self, commits: Vec<Committed>, cache: &mut RelayCache) {
        let (mut events, mut ends) = (vec![], BTreeMap::new());
        let (mut behind, mut changed) = (BTreeSet::new(), BTreeSet::new());
        for Committed { chat_id, messages } in commits {
            let (Some(first), Some(last)) = (sequence(messages.first()), sequence(messages.last())) else {
                changed.insert(chat_id);
                continue;
            };
            let end = ends.get(&chat_id).or_else(|| cache.published.get(&chat_id)).copied().unwrap_or_default();
            let follows = first == end.next() && !behind.contains(&chat_id);
            if follows && checks::commit_may_be_published(chat_id, &messages) {
                events.extend(messages);
                ends.insert(chat_id, last);
            } else {
                behind.insert(chat_id);
            }
        }
        if let Err(failure) = self.produce(&events).await {
            for chat_id in ends.keys() {
                cache.published.remove(chat_id);
            }
            // All events of these commits become overdue.
            return report(&failure, "publishing to the log failed; the events are retried when overdue");
        }
        for (chat_id, end) in ends {
            cache.published.insert(chat_id, end);
            cache.unmarked.insert(chat_id, end);
        }
        let behind = behind.into_iter().map(|chat_id| (chat_id, EventCategory::Messages));
        let changed = changed.into_iter().map(|chat_id| (chat_id, EventCategory::Changes));
        self.catch_up(behind.chain(changed).collect(), cache).await;
    }

    /// Publishes all overdue events, including those of other processes.
    async fn sweep(&self, cache: &mut RelayCache) {
        loop {
            let chats = match self.outbox.overdue(self.clock.now().minus(OVERDUE_AFTER)).await {
                Ok(chats) => chats,
                Err(failure) => return report(&failure, "lookup of overdue chats failed; retrying at next interval"),
            };
            gauge!("tidings_relay_overdue_chats").set(chats.len() as f64);
            let everything = chats.into_iter().flat_map(|chat_id| {
                [EventCategory::Messages, EventCategory::Changes].map(|category| (chat_id, category))
            });
            // Stop without progress: a chat may still be listed shortly after it was published.
            if !self.catch_up(everything.collect(), cache).await {
                return;
            }
        }
    }

    /// Publishes all unpublished events of some chats. Returns `false` if there were none, or on failure.
    async fn catch_up(&self, chats: Vec<(ChatId, EventCategory)>, cache: &mut RelayCache) -> bool {
        let mut outcomes = stream::iter(chats)
            .map(|(chat_id, category)| async move {
                let outcome = match category {
                    EventCategory::Messages => self.catch_up_messages(chat_id).await,
                    EventCategory::Changes => self.catch_up_changes(chat_id).await,
                };
                (chat_id, outcome)
            })
            .buffer_unordered(CHATS_AT_ONCE);
        let mut got_on = false;
        while let Some((chat_id, outcome)) = outcomes.next().await {
            match outcome {
                Ok(CaughtUp::Nothing) => {}
                Ok(CaughtUp::Changes) => got_on = true,
                Ok(CaughtUp::Messages(end)) => {
                    got_on = true;
                    cache.published.insert(chat_id, end);
                }
                Err(failure) => {
                    cache.published.remove(&chat_id);
                    report(&failure, "publishing a chat's unpublished events failed; retrying at next interval");
                    return false;
                }
            }
        }
        got_on
    }

    async fn catch_up_messages(&self, chat_id: ChatId) -> Result<CaughtUp, StoreError> {
        let (mut caught, mut published) = (CaughtUp::Nothing, Sequence::ZERO);
        loop {
            let events = self.outbox.unpublished(chat_id).await?;
            let Some(end) = sequence(events.last()) else { return Ok(caught) };
            if !checks::backlog_may_be_published(chat_id, published, &events) {
                let source = format!("the unpublished messages of `{chat_id}` are not in order").into();
                return Err(StoreError::Corrupt { table: "messages", source });
            }
            self.produce(&events).await?;
            self.outbox.published(chat_id, end).await?;
            (caught, published) = (CaughtUp::Messages(end), end);
        }
    }

    async fn catch_up_changes(&self, chat_id: ChatId) -> Result<CaughtUp, StoreError> {
        let mut caught = CaughtUp::Nothing;
        loop {
            let waiting = self.outbox.pending_changes(chat_id).await?;
            if waiting.is_empty() {
                return Ok(caught);
            }
            let (keys, events): (Vec<_>, Vec<_>) = waiting.into_iter().map(|one| (one.key, one.event)).unzip();
            self.produce(&events).await?;
            self.outbox.confirm_changes(chat_id, &keys).await?;
            caught = CaughtUp::Changes;
        }
    }

    async fn produce(&self, events: &[Arc<Event>]) -> Result<(), StoreError> {
        if events.is_empty() {
            return Ok(());
        }
        let spans: Vec<Span> = events.iter().filter_map(|event| publish_span(event)).collect();
        self.producer.publish(events).await.inspect_err(|failure| {
            for span in &spans {
                span.record("error", tracing::field::display(failure));
            }
        })?;
        let now = self.clock.now();
        for event in events {
            histogram!("tidings_relay_delay_seconds").record(now.since(event.event_time).as_secs_f64());
        }
        counter!("tidings_relay_published_total").increment(events.len() as u64);
        Ok(())
    }

    /// Writes published sequences to the store. Failed writes are retried at the next interval.
    async fn mark(&self, cache: &mut RelayCache) {
        let unmarked = std::mem::take(&mut cache.unmarked);
        let mark = |(chat_id, end)| async move { (chat_id, end, self.outbox.published(chat_id, end).await) };
        let mut marked = stream::iter(unmarked).map(mark).buffer_unordered(CHATS_AT_ONCE);
        while let Some((chat_id, end, outcome)) = marked.next().await {
            if let Err(failure) = outcome {
                cache.unmarked.insert(chat_id, end);
                report(&failure, "published sequence could not be stored; retrying at next interval");
            }
        }
    }
}

/// The two kinds of a chat's events, each with its own order.
enum EventCategory {
    Messages,
    Changes,
}

/// Result of catching up with one chat.
enum CaughtUp {
    Nothing,
    /// Messages up to this sequence, already marked in the store.
    Messages(Sequence),
    Changes,
}

/// Span of publishing an event, if it has a trace. Consumers of the event continue the trace from here.
fn publish_span(event: &Event) -> Option<Span> {
    let (event_id, context) = (event.event_id, trace::of(event.event_id)?);
    let span = debug_span!(
        target: trace::TARGET, parent: None, "publish", otel.kind = "producer", traceparent = %context, %event_id,
        error = Empty,
    );
    if let Some(context) = trace::context(&span) {
        trace::remember(event_id, context);
    }
    Some(span)
}

fn sequence(event: Option<&Arc<Event>>) -> Option<Sequence> {
    event?.body.sequence()
}

fn report(failure: &StoreError, message: &'static str) {
    counter!("tidings_relay_failures_total").increment(1);
    warn!(error = %error_chain(failure), "{message}");
}
