use std::collections::BTreeMap;
use std::future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::{ChatId, ConnectionId, Event, Invariant, Message, UserId};
use futures_util::future::join_all;
use metrics::{counter, gauge, histogram};
use ports::{
    ChatReader, Clock, Delivery, EventLog, GatewayId, MemberCache, Push, Record, Routes, StoreError, holds, trace,
};
use protocol::frame::message_body;
use tracing::{Instrument, Span, debug_span, error, warn};

use crate::backlog::{Backlog, Prepared};
use crate::owed::Owed;
use crate::plan::{self, Plan, What};
use crate::receipts::Receipts;

/// How long to wait before the log or the store is asked again after a failure.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Recipients of large chats that are served at once: a few milliseconds, for which others of the same thread wait.
const TURN_LEN_MAX: usize = 2048;

/// The delivery plane in this process.
pub struct Fanout {
    pub chats: Arc<dyn ChatReader>,
    pub cache: Arc<dyn MemberCache>,
    pub routes: Arc<dyn Routes>,
    pub delivery: Arc<dyn Delivery>,
    pub clock: Arc<dyn Clock>,
    /// Members of a chat up to which it is a small one, and comes before large ones.
    pub small_members_max: usize,
    /// Watermarks that have moved, on their way to the members.
    pub receipts: Receipts,
}

/// Pushes gathered for each gateway, in the order of their events.
pub(crate) type Outgoing = BTreeMap<GatewayId, Vec<Push>>;

/// What is delivered at once.
#[derive(Default)]
struct Turn {
    outgoing: Outgoing,
    /// Of the events in it, each of which is processed when its pushes are handed over.
    spans: Vec<Span>,
}

impl Turn {
    /// Recipients of all pushes.
    fn len(&self) -> usize {
        self.outgoing.values().flatten().map(|push| push.recipients.len()).sum()
    }
}

impl Fanout {
    /// The name under which all fanout processes share the log.
    pub const GROUP: &'static str = "fanout";
    /// What is good for `small_members_max`.
    pub const SMALL_MEMBERS_MAX: usize = 32;

    /// Consumes the log, for ever. Failures of the log and of the store are waited out: an event is processed late rather
    /// than skipped. It may be dropped at any moment; the next run repeats what was not committed.
    pub async fn run(&self, log: Arc<dyn EventLog>) {
        let mut consumer = loop {
            match log.consumer(Self::GROUP).await {
                Ok(consumer) => break consumer,
                Err(failure) => wait_out(failure).await,
            }
        };
        let (mut backlog, mut owed) = (Backlog::default(), Owed::default());
        // None is a number too, and not the same as no fanout.
        gauge!("tidings_fanout_gateways_owed").set(0.0);
        loop {
            let records = tokio::select! {
                biased;
                () = tokio::time::sleep(RETRY_PAUSE), if !owed.is_empty() => Ok(vec![]),
                records = consumer.next(), if !owed.is_full() && backlog.has_room() => records,
                // Only when nothing is there to be read.
                () = future::ready(()), if !backlog.is_empty() => Ok(vec![]),
            };
            let records = match records {
                Ok(records) => records,
                Err(failure) => {
                    wait_out(failure).await;
                    // What was read is pushed all the same.
                    if backlog.is_empty() {
                        continue;
                    }
                    vec![]
                }
            };
            self.process_page(records, &mut backlog, &mut owed).await;
            self.process_backlog(&mut backlog, &mut owed).await;
            if !owed.is_empty() {
                self.make_up(&mut owed).await;
            }
            // The place is kept only now, behind the pushes: a crash before this repeats them.
            if owed.is_empty()
                && backlog.is_empty()
                && let Err(failure) = consumer.commit().await
            {
                warn!(error = &failure as &dyn std::error::Error, "the place in the log was not kept");
            }
        }
    }

    /// Processes a page of the log, but for events of large chats, whose turn comes later. Order is promised within each
    /// chat: a message for one reader does not wait for the thousand pushes of those before it.
    async fn process_page(&self, records: Vec<Record>, backlog: &mut Backlog, owed: &mut Owed) {
        let mut turn = Turn::default();
        for Record { event, .. } in records {
            let span = span_of(&event);
            let members = loop {
                match self.members_for(&event).instrument(span.clone()).await {
                    Ok(members) => break members,
                    Err(failure) => wait_out(failure).await,
                }
            };
            let chat_id = event.body.chat_id();
            let is_small = members.len() <= self.small_members_max;
            let prepared = Prepared { event, members, span };
            // What comes behind an event that waits does so too, however many members are left by then.
            if is_small && !backlog.has(chat_id) {
                self.push_event(prepared, &mut turn).await;
            } else {
                backlog.push(prepared);
            }
        }
        owed.note(self.deliver(turn.outgoing).await);
    }

    /// Gives large chats a turn, behind which whoever waits for a page or for a thread comes first again.
    async fn process_backlog(&self, backlog: &mut Backlog, owed: &mut Owed) {
        let mut turn = Turn::default();
        while turn.len() < TURN_LEN_MAX
            && let Some(prepared) = backlog.pop()
        {
            self.push_event(prepared, &mut turn).await;
        }
        owed.note(self.deliver(turn.outgoing).await);
        if !backlog.is_empty() {
            tokio::task::yield_now().await;
        }
    }

    /// Who is to hear of an event.
    async fn members_for(&self, event: &Event) -> Result<Arc<[UserId]>, StoreError> {
        let chat_id = event.body.chat_id();
        if plan::members_changed(event) {
            self.cache.invalidate(chat_id).await?;
        }
        self.members(chat_id).await
    }

    /// Adds the pushes of one event.
    async fn push_event(&self, prepared: Prepared, turn: &mut Turn) {
        let Prepared { event, members, span } = prepared;
        let Turn { outgoing, spans } = turn;
        let Plan { also, what } = Plan::of(&event);
        let pushed = async {
            match what {
                // One that has expired while it waited here is gone for everybody (G11).
                What::Message { message, .. } if message.is_expired(self.clock.now()) => {}
                What::Message { message, origin } => self.push_message(message, origin, &members, outgoing).await,
                What::Frame(frame) => {
                    let recipients: Vec<UserId> = members.iter().copied().chain(also).collect();
                    self.push(&recipients, None, || frame, outgoing).await;
                }
            }
        };
        pushed.instrument(span.clone()).await;
        if !span.is_disabled() {
            spans.push(span);
        }
        histogram!("tidings_fanout_lag_seconds").record(self.clock.now().since(event.event_time).as_secs_f64());
        counter!("tidings_fanout_events_total").increment(1);
    }

    async fn push_message(
        &self,
        message: &Message,
        origin: Option<ConnectionId>,
        members: &[UserId],
        outgoing: &mut Outgoing,
    ) {
        let sender = message.sender_id;
        let others: Vec<UserId> = members.iter().copied().filter(|member| *member != sender).collect();
        self.push(&others, None, || message_body(message, None), outgoing).await;
        // Most senders have one device, which has the acknowledgement: the sender's own frame is then never encoded.
        let has_other_devices = match self.routes.routes(sender).await {
            Ok(routes) => routes.iter().any(|route| Some(route.connection_id) != origin),
            // If they are away, the gateways are too, and whoever asks for those says so.
            Err(_) => true,
        };
        if members.contains(&sender) && has_other_devices {
            self.push(&[sender], origin, || message_body(message, Some(sender)), outgoing).await;
        }
    }

    /// Adds one push for each gateway that holds connections of the recipients. The frame is made if there is one.
    pub(crate) async fn push(
        &self,
        recipients: &[UserId],
        except: Option<ConnectionId>,
        frame: impl FnOnce() -> Bytes,
        outgoing: &mut Outgoing,
    ) {
        let gateways = match self.routes.gateways(recipients).await {
            Ok(gateways) if gateways.is_empty() => return,
            Ok(gateways) => gateways,
            Err(failure) => {
                warn!(error = &failure as &dyn std::error::Error, "routes are unknown; recipients will sync");
                return;
            }
        };
        let (frame, trace) = (frame(), trace::current());
        for (gateway, mut there) in gateways {
            // Routes answer in the order of the question, so one walk through the recipients finds them all.
            let mut rest = recipients.iter();
            there.retain(|user_id| {
                let asked = rest.any(|recipient| recipient == user_id) || recipients.contains(user_id);
                holds(Invariant::OnlyMembersReceive, asked, || format!("user {user_id} was to get a push of others"))
            });
            let recipients = there;
            outgoing.entry(gateway).or_default().push(Push { recipients, except, frame: frame.clone(), trace });
        }
    }

    /// Hands each gateway its pushes, and returns those that were not taken.
    pub(crate) async fn deliver(&self, outgoing: Outgoing) -> Outgoing {
        // At once, so that one that is slow or dead does not hold up the others.
        let delivered = outgoing.into_iter().map(async |(gateway, pushes)| {
            counter!("tidings_fanout_pushes_total").increment(pushes.len() as u64);
            let failure = self.delivery.deliver(&gateway, &pushes).await.err()?;
            counter!("tidings_fanout_push_failures_total").increment(pushes.len() as u64);
            let name = &*gateway.0;
            warn!(error = &failure as &dyn std::error::Error, gateway = name, "pushes were lost; recipients will sync");
            Some((gateway, pushes))
        });
        join_all(delivered).await.into_iter().flatten().collect()
    }

    /// The members of a chat, remembered or from the store, and then remembered.
    ///
    /// For the consumer of the log alone: what it reads is as new as every change it has seen, and the next change comes
    /// to it after this. Anybody else could remember an old list behind the event that voids it. When a chat moves to
    /// the consumer of another process, the cache that both share sees to that.
    async fn members(&self, chat_id: ChatId) -> Result<Arc<[UserId]>, StoreError> {
        let remembered = self.cache.members(chat_id).await?;
        let outcome = if remembered.is_some() { "hit" } else { "miss" };
        counter!("tidings_fanout_members_total", "outcome" => outcome).increment(1);
        if let Some(members) = remembered {
            return Ok(members);
        }
        let members = self.stored_members(chat_id).await?;
        self.cache.fill(chat_id, members.clone()).await?;
        Ok(members)
    }

    /// The members of a chat for whoever does not consume the log: remembered or from the store, and then forgotten.
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

/// What is done for an event, behind its commit.
fn span_of(event: &Event) -> Span {
    let (event_id, context) = (event.event_id, trace::of(event.event_id));
    debug_span!(
        target: trace::TARGET, parent: None, "fanout", otel.kind = "consumer",
        traceparent = context.map(tracing::field::display), %event_id, chat_id = %event.body.chat_id(),
    )
}

async fn wait_out(failure: StoreError) {
    counter!("tidings_fanout_waits_total").increment(1);
    error!(error = &failure as &dyn std::error::Error, "fanout waits for what it needs");
    tokio::time::sleep(RETRY_PAUSE).await;
}
