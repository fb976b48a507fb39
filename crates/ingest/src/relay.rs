use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use domain::{ChatId, Event, EventBody, Sequence};
use futures_util::{FutureExt, StreamExt, stream};
use metrics::{counter, gauge, histogram};
use ports::{Clock, Committed, EventProducer, Outbox, StoreError, trace};
use quick_cache::unsync::Cache;
use tokio::time::{MissedTickBehavior, interval};
use tracing::field::Empty;
use tracing::{Span, debug_span, warn};

use crate::checks;

/// How long something may wait before every relay sees to it; until then it is left to the process that committed it.
const OVERDUE_AFTER: Duration = Duration::from_secs(2);
/// How often what is overdue is looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// How often the store is told what is published. A busy chat costs one write for each, and nothing is overdue meanwhile.
const MARK_INTERVAL: Duration = Duration::from_millis(500);
/// Chats whose place in the log is remembered.
const KNOWN_MAX: usize = 100_000;
/// Chats that are read, or whose place is written, at the same time.
const CHATS_AT_ONCE: usize = 16;

/// Brings what was committed into a log that is not part of the store (C2), in order and with no client's help.
///
/// The rule that keeps the order: a message is published only when every earlier one of its chat is known to be in the
/// log. A chat of which that is not known is read from the store, from its first unpublished message on. Any number of
/// relays may do so at once; the log then has an event twice, and never a later one first.
pub struct Relay {
    pub outbox: Arc<dyn Outbox>,
    pub producer: Arc<dyn EventProducer>,
    pub clock: Arc<dyn Clock>,
}

/// What a relay remembers between two rounds. All of it may be lost: the store has what counts.
struct Known {
    /// Up to where the log has the messages of a chat.
    published: Cache<ChatId, Sequence>,
    /// The same, where the store has not been told yet.
    unmarked: BTreeMap<ChatId, Sequence>,
}

impl Relay {
    /// Publishes until `stop` is ready, then what has been committed by then. Failures of store and log are waited out. It
    /// may be dropped at any moment: whatever was not published, or not marked so, is overdue soon.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let mut known = Known { published: Cache::new(KNOWN_MAX), unmarked: BTreeMap::new() };
        let (mut marks, mut sweeps) = (interval(MARK_INTERVAL), interval(SWEEP_INTERVAL));
        marks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stop = std::pin::pin!(stop.fuse());
        loop {
            tokio::select! {
                biased;
                _ = marks.tick() => self.mark(&mut known).await,
                _ = sweeps.tick() => self.sweep(&mut known).await,
                commits = self.outbox.committed() => self.publish(commits, &mut known).await,
                () = &mut stop => break,
            }
        }
        while let Some(commits) = self.outbox.committed().now_or_never() {
            self.publish(commits, &mut known).await;
        }
        self.mark(&mut known).await;
    }

    /// Publishes what was just committed: messages that follow on what the log has as they are, everything else from the
    /// store.
    async fn publish(&self, commits: Vec<Committed>, known: &mut Known) {
        let (mut events, mut ends) = (vec![], BTreeMap::new());
        let (mut behind, mut changed) = (BTreeSet::new(), BTreeSet::new());
        for Committed { chat_id, messages } in commits {
            let (Some(first), Some(last)) = (sequence(messages.first()), sequence(messages.last())) else {
                changed.insert(chat_id);
                continue;
            };
            let end = ends.get(&chat_id).or_else(|| known.published.get(&chat_id)).copied().unwrap_or_default();
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
                known.published.remove(chat_id);
            }
            // Everything of these commits is overdue soon.
            return report(&failure, "events wait for the log");
        }
        for (chat_id, end) in ends {
            known.published.insert(chat_id, end);
            known.unmarked.insert(chat_id, end);
        }
        let behind = behind.into_iter().map(|chat_id| (chat_id, What::Messages));
        let changed = changed.into_iter().map(|chat_id| (chat_id, What::Changes));
        self.catch_up(behind.chain(changed).collect(), known).await;
    }

    /// Publishes what is overdue, whoever has committed it.
    async fn sweep(&self, known: &mut Known) {
        loop {
            let chats = match self.outbox.overdue(self.clock.now().minus(OVERDUE_AFTER)).await {
                Ok(chats) => chats,
                Err(failure) => return report(&failure, "what waits for the log could not be looked up"),
            };
            gauge!("tidings_relay_overdue_chats").set(chats.len() as f64);
            let everything =
                chats.into_iter().flat_map(|chat_id| [What::Messages, What::Changes].map(|what| (chat_id, what)));
            // Only while it gets on: a chat may still be listed for a moment after it has been seen to.
            if !self.catch_up(everything.collect(), known).await {
                return;
            }
        }
    }

    /// Publishes everything of some chats that the store does not know to be published. `false` if there was nothing, or
    /// no getting on.
    async fn catch_up(&self, chats: Vec<(ChatId, What)>, known: &mut Known) -> bool {
        let mut outcomes = stream::iter(chats)
            .map(|(chat_id, what)| async move {
                let outcome = match what {
                    What::Messages => self.catch_up_messages(chat_id).await,
                    What::Changes => self.catch_up_changes(chat_id).await,
                };
                (chat_id, outcome)
            })
            .buffer_unordered(CHATS_AT_ONCE);
        let mut got_on = false;
        while let Some((chat_id, outcome)) = outcomes.next().await {
            match outcome {
                Ok(Caught::Nothing) => {}
                Ok(Caught::Changes) => got_on = true,
                Ok(Caught::Messages(end)) => {
                    got_on = true;
                    known.published.insert(chat_id, end);
                }
                Err(failure) => {
                    known.published.remove(&chat_id);
                    report(&failure, "events of a chat wait for the log");
                    return false;
                }
            }
        }
        got_on
    }

    async fn catch_up_messages(&self, chat_id: ChatId) -> Result<Caught, StoreError> {
        let (mut caught, mut published) = (Caught::Nothing, Sequence::ZERO);
        loop {
            let events = self.outbox.unpublished(chat_id).await?;
            let Some(end) = sequence(events.last()) else { return Ok(caught) };
            if !checks::backlog_may_be_published(chat_id, published, &events) {
                let source = format!("the unpublished messages of `{chat_id}` are not in order").into();
                return Err(StoreError::Corrupt { table: "messages", source });
            }
            self.produce(&events).await?;
            self.outbox.published(chat_id, end).await?;
            (caught, published) = (Caught::Messages(end), end);
        }
    }

    async fn catch_up_changes(&self, chat_id: ChatId) -> Result<Caught, StoreError> {
        let mut caught = Caught::Nothing;
        loop {
            let waiting = self.outbox.waiting(chat_id).await?;
            if waiting.is_empty() {
                return Ok(caught);
            }
            let (places, events): (Vec<_>, Vec<_>) = waiting.into_iter().map(|one| (one.place, one.event)).unzip();
            self.produce(&events).await?;
            self.outbox.forget(chat_id, &places).await?;
            caught = Caught::Changes;
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

    /// Tells the store what is published. What it cannot be told now it is told the next time.
    async fn mark(&self, known: &mut Known) {
        let unmarked = std::mem::take(&mut known.unmarked);
        let mark = |(chat_id, end)| async move { (chat_id, end, self.outbox.published(chat_id, end).await) };
        let mut marked = stream::iter(unmarked).map(mark).buffer_unordered(CHATS_AT_ONCE);
        while let Some((chat_id, end, outcome)) = marked.next().await {
            if let Err(failure) = outcome {
                known.unmarked.insert(chat_id, end);
                report(&failure, "the store was not told what is published");
            }
        }
    }
}

/// The two halves of a chat's events, each with an order of its own.
enum What {
    Messages,
    Changes,
}

/// What was published of one chat.
enum Caught {
    Nothing,
    /// Messages, up to here; the store has been told.
    Messages(Sequence),
    Changes,
}

/// The way of an event into the log, if it is in a trace. Whoever consumes the event goes on from here.
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
    match &event?.body {
        EventBody::MessagePersisted { message, .. } => Some(message.sequence),
        _ => None,
    }
}

fn report(failure: &StoreError, message: &'static str) {
    counter!("tidings_relay_failures_total").increment(1);
    warn!(error = failure as &dyn std::error::Error, "{message}");
}
