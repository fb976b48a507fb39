use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use domain::{ChatId, Event};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use metrics::counter;
use ports::{Recipients, StoreError, error_chain};
use tokio::time::{self, Instant};
use tracing::{Instrument, Span, error};

use crate::Fanout;
use crate::backlog::QueuedEvent;
use crate::fanout::RETRY_PAUSE;
use crate::push_plan::members_changed;

/// Most chats with a running lookup. Other chats wait for their turn.
const RUNNING_MAX: usize = 64;

/// Events of the log that wait for the lookup of their recipients.
///
/// Lookups of different chats run concurrently, so a slow one does not delay other chats. A chat has one lookup at a
/// time, which keeps its events in order. One lookup serves all waiting events of its chat up to the next change of
/// members. Its result is at least as new as each of these events.
///
/// A failed lookup is retried, so an event may be late but is never skipped.
pub(crate) struct Lookups<'a> {
    fanout: &'a Fanout,
    /// The waiting events of each chat. A chat with a running lookup has an entry, which may be empty.
    chats: HashMap<ChatId, VecDeque<ReadEvent>>,
    /// Chats with waiting events and without a running lookup.
    turns: VecDeque<ChatId>,
    running: FuturesUnordered<BoxFuture<'a, ChatLookup>>,
    /// When a failure was last logged. Failures of many chats at once are one log line.
    logged_at: Option<Instant>,
}

/// An event of the log.
struct ReadEvent {
    event: Arc<Event>,
    /// Span of the event's processing.
    span: Span,
}

/// A finished lookup with its events.
struct ChatLookup {
    chat_id: ChatId,
    events: Vec<ReadEvent>,
    outcome: Result<Recipients, StoreError>,
}

impl<'a> Lookups<'a> {
    pub(crate) fn new(fanout: &'a Fanout) -> Self {
        let (chats, turns, running) = (HashMap::new(), VecDeque::new(), FuturesUnordered::new());
        Self { fanout, chats, turns, running, logged_at: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chats.is_empty()
    }

    pub(crate) fn push(&mut self, event: Arc<Event>, span: Span) {
        let chat_id = event.body.chat_id();
        let chat = self.chats.entry(chat_id).or_insert_with(|| {
            self.turns.push_back(chat_id);
            VecDeque::new()
        });
        chat.push_back(ReadEvent { event, span });
    }

    /// Waits for the next finished lookup and returns its events, in their order. Returns `None` if no event waits.
    /// Dropping the future loses no event.
    pub(crate) async fn next(&mut self) -> Option<Vec<QueuedEvent>> {
        loop {
            self.start();
            let ChatLookup { chat_id, events, outcome } = self.running.next().await?;
            let recipients = match outcome {
                Ok(recipients) => Arc::new(recipients),
                Err(failure) => {
                    self.report(&failure);
                    let retry = self.fanout.look_up(chat_id, events);
                    self.running.push(time::sleep(RETRY_PAUSE).then(|()| retry).boxed());
                    continue;
                }
            };
            if self.chats.get(&chat_id).is_some_and(VecDeque::is_empty) {
                self.chats.remove(&chat_id);
            } else {
                self.turns.push_back(chat_id);
            }
            let queued = |ReadEvent { event, span }| QueuedEvent { event, recipients: recipients.clone(), span };
            return Some(events.into_iter().map(queued).collect());
        }
    }

    fn start(&mut self) {
        while self.running.len() < RUNNING_MAX
            && let Some(chat_id) = self.turns.pop_front()
        {
            let events = self.chats.get_mut(&chat_id).map(take_run).unwrap_or_default();
            self.running.push(self.fanout.look_up(chat_id, events).boxed());
        }
    }

    fn report(&mut self, failure: &StoreError) {
        counter!("tidings_fanout_waits_total").increment(1);
        if self.logged_at.is_none_or(|at| at.elapsed() >= RETRY_PAUSE) {
            self.logged_at = Some(Instant::now());
            error!(error = %error_chain(failure), "fanout cannot look up recipients; retrying");
        }
    }
}

/// Takes the events that one lookup serves: all up to the next change of members.
fn take_run(waiting: &mut VecDeque<ReadEvent>) -> Vec<ReadEvent> {
    let end = waiting.iter().skip(1).position(|read| members_changed(&read.event));
    waiting.drain(..end.map_or(waiting.len(), |end| end + 1)).collect()
}

impl Fanout {
    async fn look_up(&self, chat_id: ChatId, events: Vec<ReadEvent>) -> ChatLookup {
        let span = events.first().map_or_else(Span::none, |first| first.span.clone());
        let recipients = self.recipients_for(chat_id, events.iter().map(|read| &*read.event));
        let outcome = recipients.instrument(span).await;
        ChatLookup { chat_id, events, outcome }
    }
}
