use std::collections::BTreeSet;
use std::future;
use std::sync::Arc;
use std::time::Duration;

use domain::{ChatId, Event, UserId};
use futures_util::FutureExt;
use futures_util::future::join_all;
use metrics::{counter, gauge, histogram};
use ports::{
    ChatReader, Clock, Delivery, EventLog, MemberCache, RecipientLookup, Recipients, Record, Routes, StoreError,
    error_chain, trace,
};
use protocol::frame::{message_body, update_body};
use tokio::time::{self, Instant};
use tokio::try_join;
use tracing::{Span, debug_span, error, warn};

use crate::backlog::{Backlog, QueuedEvent};
use crate::lookups::Lookups;
use crate::missed_pushes::MissedPushes;
use crate::push_plan::{self, PushContent, PushPlan};
use crate::pushes::{GatewayPushes, PushBatch, push_entry, push_frame};
use crate::receipts::Receipts;
use crate::unpushed::Unpushed;

/// Pause before a failed call to the log or the store is retried.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Longest wait for running lookups before the next page is read. If they finish within this time, the offset is
/// committed after each page. A slower lookup delays the commit, and other chats by no more than this.
const PAGE_WAIT_MAX: Duration = Duration::from_millis(5);
/// Recipients of large chats served in one batch. It takes a few milliseconds, and other tasks of the thread wait for it.
const BATCH_LEN_MAX: usize = 2048;

/// The delivery plane in this process.
pub struct Fanout {
    pub chats: Arc<dyn ChatReader>,
    pub cache: Arc<dyn MemberCache>,
    /// Reads the same cache and routes.
    pub recipients: Arc<dyn RecipientLookup>,
    pub routes: Arc<dyn Routes>,
    pub delivery: Arc<dyn Delivery>,
    pub clock: Arc<dyn Clock>,
    /// Most members of a small chat. Small chats are served before large ones.
    pub small_members_max: usize,
    /// Receipts to push to the members.
    pub receipts: Receipts,
}

/// The next step of the consumer.
enum Step {
    /// Look up the recipients of a page of the log.
    Read(Result<Vec<Record>, StoreError>),
    /// Push events of one chat.
    Push(Vec<QueuedEvent>),
    /// Serve the backlog, or retry missed pushes.
    Continue,
}

impl Fanout {
    /// The consumer group that all fanout processes share.
    pub const GROUP: &'static str = "fanout";
    /// Default of `small_members_max`.
    pub const SMALL_MEMBERS_MAX: usize = 32;

    /// Consumes the log until the task is aborted. It retries failures of the log and the store, so an event may be late
    /// but is never skipped. Dropping the future is safe: the next run repeats all events without a committed offset.
    ///
    /// Events of one chat are pushed in order. Chats do not wait for each other: recipients of different chats are looked
    /// up concurrently, and a message to a small chat does not wait for the pushes of large chats before it. The offset
    /// is committed after all events that were read are pushed.
    pub async fn run(&self, log: Arc<dyn EventLog>) {
        let mut consumer = loop {
            match log.consumer(Self::GROUP).await {
                Ok(consumer) => break consumer,
                Err(failure) => {
                    report(&failure);
                    time::sleep(RETRY_PAUSE).await;
                }
            }
        };
        let (mut lookups, mut backlog) = (Lookups::new(self), Backlog::default());
        let (mut unpushed, mut missed) = (Unpushed::default(), MissedPushes::default());
        // No read before these times: after a failure, and while lookups of the last page run.
        let (mut retry_at, mut page_until) = (None, None);
        // Publish 0 explicitly: an absent gauge would read as "no fanout running".
        gauge!("tidings_fanout_gateways_owed").set(0.0);
        loop {
            let read_at: Option<Instant> = if lookups.is_empty() { retry_at } else { retry_at.max(page_until) };
            let read = async {
                if let Some(at) = read_at.filter(|at| *at > Instant::now()) {
                    time::sleep_until(at).await;
                }
                consumer.next().await
            };
            let step = tokio::select! {
                biased;
                () = time::sleep(RETRY_PAUSE), if !missed.is_empty() => Step::Continue,
                Some(events) = lookups.next(), if !lookups.is_empty() => Step::Push(events),
                records = read, if !missed.is_full() && unpushed.has_room() => Step::Read(records),
                // Reached only when the log has no new records.
                () = future::ready(()), if !backlog.is_empty() => Step::Continue,
            };
            let mut batch = PushBatch::default();
            match step {
                Step::Read(Ok(records)) => {
                    page_until = Some(Instant::now() + PAGE_WAIT_MAX);
                    unpushed.add(records.len());
                    for Record { event, .. } in records {
                        let span = span_of(&event);
                        lookups.push(event, span);
                    }
                }
                Step::Read(Err(failure)) => {
                    report(&failure);
                    retry_at = Some(Instant::now() + RETRY_PAUSE);
                }
                Step::Push(events) => self.push_or_queue(events, &mut backlog, &mut batch),
                Step::Continue => {}
            }
            // Deliver all events with finished lookups together.
            while let Some(Some(events)) = lookups.next().now_or_never() {
                self.push_or_queue(events, &mut backlog, &mut batch);
            }
            self.deliver_batch(batch, &mut unpushed, &mut missed).await;
            self.process_backlog(&mut backlog, &mut unpushed, &mut missed).await;
            if !missed.is_empty() {
                self.request_resyncs(&mut missed).await;
            }
            // Commit after the pushes: a crash before this point repeats them.
            if missed.is_empty()
                && unpushed.is_empty()
                && let Err(failure) = consumer.commit().await
            {
                warn!(
                    error = %error_chain(&failure),
                    "offset commit failed; the events are processed again after a restart"
                );
            }
        }
    }

    /// Pushes events of one small chat, or queues them if the chat is large.
    fn push_or_queue(&self, events: Vec<QueuedEvent>, backlog: &mut Backlog, batch: &mut PushBatch) {
        for prepared in events {
            let is_small = prepared.recipients.members.len() <= self.small_members_max;
            // An event of a chat with queued events must queue, too, even if the chat is small by now.
            if is_small && !backlog.has(prepared.event.body.chat_id()) {
                self.push_event(prepared, batch);
            } else {
                backlog.push(prepared);
            }
        }
    }

    /// Serves one batch of the backlog, then yields to other tasks and to the next page.
    async fn process_backlog(&self, backlog: &mut Backlog, unpushed: &mut Unpushed, missed: &mut MissedPushes) {
        let mut batch = PushBatch::default();
        while batch.len() < BATCH_LEN_MAX
            && let Some(prepared) = backlog.pop()
        {
            self.push_event(prepared, &mut batch);
        }
        self.deliver_batch(batch, unpushed, missed).await;
        if !backlog.is_empty() {
            tokio::task::yield_now().await;
        }
    }

    /// Adds the pushes of one event.
    fn push_event(&self, prepared: QueuedEvent, batch: &mut PushBatch) {
        let QueuedEvent { event, recipients, span } = prepared;
        let PushPlan { also, content } = PushPlan::of(&event);
        span.in_scope(|| match content {
            // A message that expired before its push is not delivered (G11).
            PushContent::Message { message, .. } if message.is_expired(self.clock.now()) => {}
            PushContent::Message { message, origin } => {
                let encode = |reader| message_body(message, reader);
                push_entry(message.sender_id, origin, encode, &recipients, &mut batch.outgoing);
            }
            PushContent::Update { update, .. } if update.is_expired(self.clock.now()) => {}
            PushContent::Update { update, message } => {
                let alive = message.filter(|message| !message.is_expired(self.clock.now()));
                let encode = |reader| update_body(update, alive, reader);
                push_entry(update.user_id, None, encode, &recipients, &mut batch.outgoing);
            }
            PushContent::Frame(frame) => push_frame(frame, also, &recipients, &mut batch.outgoing),
        });
        batch.events += 1;
        if !span.is_disabled() {
            batch.spans.push(span);
        }
        histogram!("tidings_fanout_lag_seconds").record(self.clock.now().since(event.event_time).as_secs_f64());
        counter!("tidings_fanout_events_total").increment(1);
    }

    async fn deliver_batch(&self, batch: PushBatch, unpushed: &mut Unpushed, missed: &mut MissedPushes) {
        let PushBatch { outgoing, events, spans } = batch;
        missed.note(self.deliver(outgoing).await);
        unpushed.remove(events);
        drop(spans);
    }

    /// Delivers pushes to their gateways and returns the failed ones.
    pub(crate) async fn deliver(&self, outgoing: GatewayPushes) -> GatewayPushes {
        // Concurrently, so that a slow or dead gateway does not delay the others.
        let delivered = outgoing.into_iter().map(async |(gateway, pushes)| {
            counter!("tidings_fanout_pushes_total").increment(pushes.len() as u64);
            let failure = self.delivery.deliver(&gateway, &pushes).await.err()?;
            counter!("tidings_fanout_push_failures_total").increment(pushes.len() as u64);
            let name = &*gateway.0;
            warn!(
                error = %error_chain(&failure),
                gateway = name,
                "delivery to a gateway failed; its recipients will be asked to resync"
            );
            Some((gateway, pushes))
        });
        join_all(delivered).await.into_iter().flatten().collect()
    }

    /// The recipients of consecutive events of a chat, of which at most the first changes the members. The members are
    /// from the cache, or else from the store, which fills the cache.
    ///
    /// Only the log consumer may call it, one call at a time for each chat: its read is at least as new as every membership
    /// event it has seen, and later events invalidate the cache afterwards. Another caller could cache an old list after
    /// the event that invalidates it. The shared cache handles the case that a chat moves to the consumer of another
    /// process.
    pub(crate) async fn recipients_for(
        &self,
        chat_id: ChatId,
        events: impl Iterator<Item = &Event> + Clone,
    ) -> Result<Recipients, StoreError> {
        if events.clone().any(push_plan::members_changed) {
            self.cache.invalidate(chat_id).await?;
        }
        let named: Vec<UserId> = BTreeSet::from_iter(events.filter_map(push_plan::named)).into_iter().collect();
        let cached = self.recipients.cached(chat_id, &named).await?;
        let outcome = if cached.is_some() { "hit" } else { "miss" };
        counter!("tidings_fanout_members_total", "outcome" => outcome).increment(1);
        if let Some(recipients) = cached {
            return Ok(recipients);
        }
        let members = self.stored_members(chat_id).await?;
        let filled = self.cache.fill(chat_id, members.clone());
        let ((), recipients) = try_join!(filled, self.recipients.of(members, &named))?;
        Ok(recipients)
    }

    /// The recipients of a chat for callers other than the log consumer. Members from the store are not cached.
    pub(crate) async fn recipients_now(&self, chat_id: ChatId) -> Result<Recipients, StoreError> {
        match self.recipients.cached(chat_id, &[]).await? {
            Some(recipients) => Ok(recipients),
            None => self.recipients.of(self.stored_members(chat_id).await?, &[]).await,
        }
    }

    /// The members of a chat for callers other than the log consumer. A result from the store is not cached.
    pub(crate) async fn members_now(&self, chat_id: ChatId) -> Result<Arc<[UserId]>, StoreError> {
        match self.cache.members(chat_id).await? {
            Some(members) => Ok(members),
            None => self.stored_members(chat_id).await,
        }
    }

    async fn stored_members(&self, chat_id: ChatId) -> Result<Arc<[UserId]>, StoreError> {
        Ok(self.chats.members(chat_id).await?.iter().map(|member| member.user_id).collect())
    }
}

/// Span of the processing of an event.
fn span_of(event: &Event) -> Span {
    let (event_id, context) = (event.event_id, trace::of(event.event_id));
    debug_span!(
        target: trace::TARGET, parent: None, "fanout", otel.kind = "consumer",
        traceparent = context.map(tracing::field::display), %event_id, chat_id = %event.body.chat_id(),
    )
}

fn report(failure: &StoreError) {
    counter!("tidings_fanout_waits_total").increment(1);
    error!(error = %error_chain(failure), "fanout cannot read the log; retrying");
}
