use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::{ChatId, TraceContext};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ports::{Ingest, IngestError, Peer, ProcessRole, SendRequest, Sent, trace};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{self, Instant};
use tracing::Span;
use tracing::field::display;

use crate::config::RETRY_AFTER;
use crate::directory::{Directory, Links};
use crate::link::{CallError, call_span, record};
use crate::rendezvous::rank;
use crate::{proto, wire};

/// All sends of this process that wait for an answer, and their order.
///
/// A send gets its place in a *lane*, the queue of the stream to one process, before [`send`](Self::send) returns. All
/// sends of a chat without an answer are in one lane: the chat is *pinned* to it. So when the owner of a chat changes, its
/// sends go on to the old one until none is under way there, and none overtakes another.
///
/// A lane's queue is passed on to other lanes, in order, if its process cannot be reached or is about to end: what is
/// in the queue was not handed over. What was handed over stays, and fails if its stream breaks; then the rest of the
/// queue fails with it, because a later send must not succeed in the place of an earlier one.
pub(crate) struct Sends {
    state: Mutex<State>,
    /// The processes that have a lane.
    routed: watch::Sender<Links>,
    directory: Arc<Directory>,
    /// This process, if it commits itself.
    local: Option<(Peer, Arc<dyn Ingest>)>,
}

#[derive(Default)]
struct State {
    lanes: HashMap<u64, Lane>,
    pins: HashMap<ChatId, Pin>,
}

struct Lane {
    phase: Phase,
    /// The stream that sends are for. A stream that is not the latest gets none.
    epoch: u64,
    /// Tells the latest stream that there is something to do.
    wake: Arc<Notify>,
    queue: VecDeque<Waiting>,
    handed_over: BTreeMap<u64, Waiting>,
    /// The number of the next send.
    number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There will be a stream, or it turns out that there will not. Sends wait.
    Connecting,
    /// There is a stream.
    Open,
    /// Nothing more is handed over; what was is being answered.
    Draining,
    /// The process cannot be reached.
    Down,
}

/// Where the sends of a chat without an answer are.
struct Pin {
    place: Place,
    count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Lane(u64),
    Local,
}

/// A send without an answer.
struct Waiting {
    request: SendRequest,
    begun: Instant,
    deadline: Instant,
    reply: oneshot::Sender<Reply>,
    /// Where its sender stands in a trace.
    trace: Option<TraceContext>,
    /// The call, if it is one and in a trace.
    span: Span,
}

type Outcome = Result<Sent, IngestError>;

enum Reply {
    Settled(Outcome),
    /// This process itself has the send now.
    Local(BoxFuture<'static, Outcome>),
}

/// A reply on its way. It is given when no lock is held, because whoever gets it may come back at once.
#[must_use]
pub(crate) struct Answer {
    reply: oneshot::Sender<Reply>,
    begun: Instant,
    content: Reply,
}

impl Answer {
    pub(crate) fn give(self) {
        if let Reply::Settled(outcome) = &self.content {
            record("send", self.begun, !matches!(outcome, Err(IngestError::Unavailable { .. })));
        }
        // A sender whose connection is gone does not hear it; the retry will be told the same.
        drop(self.reply.send(self.content));
    }
}

/// What a stream does next.
pub(crate) enum Next {
    Send(Box<proto::SendRequest>),
    Wait,
    /// Ends our half of the stream.
    End,
}

impl Sends {
    pub(crate) fn new(directory: Arc<Directory>, local: Option<(Peer, Arc<dyn Ingest>)>) -> Self {
        Self { state: Mutex::default(), routed: watch::Sender::new(Links::default()), directory, local }
    }

    /// Gives a send its place. The future waits for the outcome, no longer than the deadline.
    pub(crate) fn send(self: &Arc<Self>, request: SendRequest) -> BoxFuture<'static, Outcome> {
        let begun = Instant::now();
        let deadline = begun + self.directory.config().deadline;
        let (reply, outcome) = oneshot::channel();
        let ranking = self.ranking(request.chat_id);
        let waiting = Waiting { request, begun, deadline, reply, trace: trace::current(), span: Span::none() };
        let answer = self.place(&mut self.state(), &ranking, waiting);
        if let Some(answer) = answer {
            answer.give();
        }
        async move {
            match time::timeout_at(deadline, outcome).await {
                Ok(Ok(Reply::Settled(outcome))) => outcome,
                Ok(Ok(Reply::Local(outcome))) => outcome.await,
                // A lane that ended without an answer, or one that takes too long: the outcome is unknown.
                Ok(Err(_)) | Err(_) => Err(unavailable()),
            }
        }
        .boxed()
    }

    /// Makes a lane. It takes sends before it has a stream.
    pub(crate) fn add(&self, lane: u64) {
        self.state().lanes.insert(lane, Lane::new());
    }

    /// Sends to these processes from now on, which have lanes, and to no others.
    pub(crate) fn route(&self, links: Links) {
        self.routed.send_replace(links);
    }

    /// Begins a stream, and returns what names it and what wakes it.
    pub(crate) fn begin(&self, lane: u64) -> (u64, Arc<Notify>) {
        let mut state = self.state();
        let lane = state.lane(lane);
        lane.epoch += 1;
        lane.wake = Arc::default();
        (lane.epoch, lane.wake.clone())
    }

    /// Has sends handed over to the latest stream.
    pub(crate) fn open(&self, lane: u64) {
        let mut state = self.state();
        let lane = state.lane(lane);
        lane.phase = Phase::Open;
        lane.wake.notify_one();
    }

    /// Hands over nothing more.
    pub(crate) fn drain(&self, lane: u64) {
        let mut state = self.state();
        let lane = state.lane(lane);
        lane.phase = Phase::Draining;
        lane.wake.notify_one();
    }

    /// What a stream does next. A send is handed over by this, unless nobody waits for it any more.
    pub(crate) fn next(&self, lane: u64, epoch: u64) -> Next {
        let now = Instant::now();
        let mut state = self.state();
        let Some(lane) = state.lanes.get_mut(&lane).filter(|lane| lane.epoch == epoch) else { return Next::End };
        match lane.phase {
            Phase::Connecting | Phase::Down => Next::Wait,
            Phase::Draining => Next::End,
            Phase::Open => {
                // A commit of one that is late would be one that nobody expects. It is answered with the others.
                let on_time = lane.queue.iter().position(|waiting| waiting.deadline > now);
                let Some(waiting) = on_time.and_then(|index| lane.queue.remove(index)) else { return Next::Wait };
                let number = lane.number;
                lane.number += 1;
                let trace = trace::context(&waiting.span);
                let send = wire::to_send(number, waiting.deadline - now, &waiting.request, trace);
                lane.handed_over.insert(number, waiting);
                Next::Send(Box::new(send))
            }
        }
    }

    /// Answers a send that was handed over. `None` if nobody waits for it.
    pub(crate) fn settle(&self, lane: u64, number: u64, outcome: Outcome) -> Option<Answer> {
        let mut state = self.state();
        let waiting = state.lane(lane).handed_over.remove(&number)?;
        Some(state.settle(waiting, outcome))
    }

    /// Answers those whose time is over. How many of them were handed over says something about the process.
    pub(crate) fn expire(&self, lane: u64) -> (usize, Vec<Answer>) {
        let now = Instant::now();
        let mut state = self.state();
        let lane = state.lane(lane);
        let mut late: Vec<_> = lane.handed_over.extract_if(.., |_, waiting| waiting.deadline <= now).collect();
        let handed_over = late.len();
        let queue = std::mem::take(&mut lane.queue);
        let (over, still): (VecDeque<_>, _) = queue.into_iter().partition(|waiting| waiting.deadline <= now);
        lane.queue = still;
        late.extend(over.into_iter().map(|waiting| (0, waiting)));
        let answers = late.into_iter().map(|(_, waiting)| state.settle(waiting, Err(unavailable()))).collect();
        (handed_over, answers)
    }

    /// Whether a send was handed over and has no answer yet.
    pub(crate) fn is_waiting(&self, lane: u64) -> bool {
        !self.state().lane(lane).handed_over.is_empty()
    }

    /// Answers everything in a lane whose stream broke: what came of it is unknown. There will be another stream.
    pub(crate) fn fail(&self, lane: u64) -> Vec<Answer> {
        let mut state = self.state();
        let lane = state.lane(lane);
        lane.epoch += 1;
        lane.phase = Phase::Connecting;
        let mut failed: Vec<_> = std::mem::take(&mut lane.handed_over).into_values().collect();
        failed.extend(std::mem::take(&mut lane.queue));
        failed.into_iter().map(|waiting| state.settle(waiting, Err(unavailable()))).collect()
    }

    /// Passes on what waits for a process that cannot be reached.
    pub(crate) fn pass_on(self: &Arc<Self>, lane: u64) -> Vec<Answer> {
        let mut state = self.state();
        let queue = {
            let lane = state.lane(lane);
            assert!(lane.handed_over.is_empty(), "what was handed over is answered first");
            lane.phase = Phase::Down;
            std::mem::take(&mut lane.queue)
        };
        // All of them first: a pin would bring the next send of a chat back to where this one came from.
        for waiting in &queue {
            state.unpin(waiting.request.chat_id);
        }
        let now = Instant::now();
        let place = |waiting: Waiting| {
            if waiting.deadline <= now {
                return Some(waiting.answer(Err(unavailable())));
            }
            let ranking = self.ranking(waiting.request.chat_id);
            self.place(&mut state, &ranking, waiting)
        };
        queue.into_iter().filter_map(place).collect()
    }

    /// Forgets a lane from which everything was passed on.
    pub(crate) fn remove(&self, lane: u64) {
        self.state().lanes.remove(&lane);
    }

    /// Where the sends of a chat belong, the best place first.
    fn ranking(&self, chat_id: ChatId) -> Vec<Place> {
        let links = self.routed.borrow().clone();
        let remote =
            links.iter().filter(|link| link.is_usable()).map(|link| (&*link.peer.id, Place::Lane(link.serial)));
        let local = self.local.iter().map(|(peer, _)| (&*peer.id, Place::Local));
        let ranked = rank(chat_id, remote.chain(local).collect(), |(id, _)| id);
        ranked.into_iter().map(|(_, place)| place).collect()
    }

    /// Puts a send where its chat is pinned, or at the first place that takes it. An answer means that it has none.
    fn place(self: &Arc<Self>, state: &mut State, ranking: &[Place], mut waiting: Waiting) -> Option<Answer> {
        let chat_id = waiting.request.chat_id;
        let pinned = state.pins.get(&chat_id).map(|pin| pin.place);
        let Some(place) = pinned.or_else(|| ranking.iter().copied().find(|place| state.takes_sends(*place))) else {
            self.directory.note_absence(&CallError::NoProcess { role: ProcessRole::Ingest });
            return Some(waiting.answer(Err(unavailable())));
        };
        let answer = match (place, &self.local) {
            (Place::Local, Some((_, ingest))) => {
                let Waiting { request, begun, reply, .. } = waiting;
                let pinned = Pinned { sends: self.clone(), chat_id };
                // The order of this call is the order of the commits, so it is made under the lock. It does not block.
                let outcome = ingest.send(request).inspect(move |_| drop(pinned)).boxed();
                Some(Answer { reply, begun, content: Reply::Local(outcome) })
            }
            (Place::Local, None) => return Some(waiting.answer(Err(unavailable()))),
            (Place::Lane(serial), _) => {
                let lane = state.lane(serial);
                if lane.queue.len() + lane.handed_over.len() >= self.directory.config().sends_max {
                    return Some(waiting.answer(Err(IngestError::Busy)));
                }
                waiting.span = call_span("send", waiting.trace);
                lane.queue.push_back(waiting);
                lane.wake.notify_one();
                None
            }
        };
        state.pins.entry(chat_id).or_insert(Pin { place, count: 0 }).count += 1;
        answer
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing of ours that runs under this lock panics halfway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn lane(&mut self, serial: u64) -> &mut Lane {
        self.lanes.get_mut(&serial).expect("a lane is there until everything was passed on from it")
    }

    fn takes_sends(&self, place: Place) -> bool {
        match place {
            Place::Lane(serial) => {
                self.lanes.get(&serial).is_some_and(|lane| matches!(lane.phase, Phase::Connecting | Phase::Open))
            }
            Place::Local => true,
        }
    }

    fn settle(&mut self, waiting: Waiting, outcome: Outcome) -> Answer {
        self.unpin(waiting.request.chat_id);
        waiting.answer(outcome)
    }

    fn unpin(&mut self, chat_id: ChatId) {
        if let Some(pin) = self.pins.get_mut(&chat_id) {
            pin.count -= 1;
            if pin.count == 0 {
                self.pins.remove(&chat_id);
            }
        }
    }
}

impl Lane {
    fn new() -> Self {
        Self {
            phase: Phase::Connecting,
            epoch: 0,
            wake: Arc::default(),
            queue: VecDeque::new(),
            handed_over: BTreeMap::new(),
            number: 0,
        }
    }
}

impl Waiting {
    fn answer(self, outcome: Outcome) -> Answer {
        if let Err(failure @ (IngestError::Unavailable { .. } | IngestError::Busy)) = &outcome {
            self.span.record("error", display(failure));
        }
        Answer { reply: self.reply, begun: self.begun, content: Reply::Settled(outcome) }
    }
}

/// Keeps a chat at this process until a send of it is answered, or nobody waits for the answer.
struct Pinned {
    sends: Arc<Sends>,
    chat_id: ChatId,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.sends.state().unpin(self.chat_id);
    }
}

/// What whoever waits for an outcome that is unknown is told.
pub(crate) fn unavailable() -> IngestError {
    IngestError::Unavailable { retry_after: RETRY_AFTER }
}
