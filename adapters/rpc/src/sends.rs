use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use domain::{ChatId, IngestError, TraceContext};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ports::{Clock, Ingest, PeerProcess, ProcessRole, SendRequest, Sent, SystemClock, lock, trace};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{self, Instant};
use tracing::Span;
use tracing::field::display;

use crate::asserted_users::AssertedUsers;
use crate::config::RETRY_AFTER;
use crate::directory::{Directory, Links};
use crate::link::{PeerCallError, call_span, record};
use crate::rendezvous::rank;
use crate::{proto, wire};

/// All pending sends of this process, in order.
///
/// A send is placed in a *lane*, the queue of the stream to one process, before [`send`](Self::send) returns. All
/// pending sends of a chat are in one lane: the chat is *pinned* to it. When the owner of a chat changes, its sends
/// continue to the old owner until none is pending there, so none overtakes another.
///
/// If the process of a lane is unreachable or shuts down, its queue moves to other lanes, in order, since queued sends
/// were not transmitted. Transmitted sends stay, and fail if their stream breaks. The rest of the queue then fails too,
/// because a later send must not succeed when an earlier one failed.
pub(crate) struct SendRouter {
    state: Mutex<SendLanes>,
    /// The processes that have a lane.
    routed: watch::Sender<Links>,
    directory: Arc<Directory>,
    /// This process, if it has the ingest role.
    local: Option<(PeerProcess, Arc<dyn Ingest>)>,
}

#[derive(Default)]
struct SendLanes {
    lanes: HashMap<u64, SendLane>,
    pins: HashMap<ChatId, Pin>,
}

struct SendLane {
    phase: LanePhase,
    /// Identifies the latest stream. Older streams get no sends.
    epoch: u64,
    /// Wakes the latest stream.
    wake: Arc<Notify>,
    queue: VecDeque<UnansweredSend>,
    handed_over: BTreeMap<u64, UnansweredSend>,
    /// The number of the next send.
    number: u64,
    /// The senders whose assertions the latest stream has presented.
    asserted: AssertedUsers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LanePhase {
    /// A stream is being opened. Sends are queued.
    Connecting,
    /// The stream is open.
    Open,
    /// No further sends are transmitted; the transmitted ones are being answered.
    Draining,
    /// The process is unreachable.
    Down,
}

/// The place of a chat's pending sends.
struct Pin {
    place: SendTarget,
    count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendTarget {
    Lane(u64),
    Local,
}

/// A pending send.
struct UnansweredSend {
    request: SendRequest,
    begun: Instant,
    deadline: Instant,
    reply: oneshot::Sender<Reply>,
    /// The sender's trace context.
    trace: Option<TraceContext>,
    /// The span of the call, if the send goes to another process and is traced.
    span: Span,
}

type SendResult = Result<Sent, IngestError>;

enum Reply {
    Settled(SendResult),
    /// The send was handed to this process's own ingest.
    Local(BoxFuture<'static, SendResult>),
}

/// A reply to deliver. It must be delivered without holding the lock, because its receiver may call back at once.
#[must_use]
pub(crate) struct PendingReply {
    reply: oneshot::Sender<Reply>,
    begun: Instant,
    content: Reply,
}

impl PendingReply {
    pub(crate) fn give(self) {
        if let Reply::Settled(outcome) = &self.content {
            record("send", self.begun, !matches!(outcome, Err(IngestError::Unavailable { .. })));
        }
        // The receiver is closed if the client has disconnected; its retry gets the same outcome.
        drop(self.reply.send(self.content));
    }
}

/// The next action of a stream.
pub(crate) enum StreamAction {
    Send(Box<proto::SendRequest>),
    Wait,
    /// Closes our half of the stream.
    End,
}

impl SendRouter {
    pub(crate) fn new(directory: Arc<Directory>, local: Option<(PeerProcess, Arc<dyn Ingest>)>) -> Self {
        Self { state: Mutex::default(), routed: watch::Sender::new(Links::default()), directory, local }
    }

    /// Places a send. The future resolves to its outcome, at the latest at the deadline.
    pub(crate) fn send(self: &Arc<Self>, request: SendRequest) -> BoxFuture<'static, SendResult> {
        let begun = Instant::now();
        let deadline = begun + self.directory.config().deadline;
        let (reply, outcome) = oneshot::channel();
        let ranking = self.ranking(request.chat_id);
        let waiting = UnansweredSend { request, begun, deadline, reply, trace: trace::current(), span: Span::none() };
        let answer = self.place(&mut self.state(), &ranking, waiting);
        if let Some(answer) = answer {
            answer.give();
        }
        async move {
            match time::timeout_at(deadline, outcome).await {
                Ok(Ok(Reply::Settled(outcome))) => outcome,
                Ok(Ok(Reply::Local(outcome))) => outcome.await,
                // The lane ended without a reply, or the deadline passed: the outcome is unknown.
                Ok(Err(_)) | Err(_) => Err(unavailable()),
            }
        }
        .boxed()
    }

    /// Adds a lane. It accepts sends before it has a stream.
    pub(crate) fn add(&self, lane: u64) {
        self.state().lanes.insert(lane, SendLane::new());
    }

    /// Routes sends to exactly these processes from now on. All of them have lanes.
    pub(crate) fn route(&self, links: Links) {
        self.routed.send_replace(links);
    }

    /// Begins a stream, and returns its epoch and its waker.
    pub(crate) fn begin(&self, lane: u64) -> (u64, Arc<Notify>) {
        let mut state = self.state();
        let lane = state.lane(lane);
        lane.epoch += 1;
        lane.wake = Arc::default();
        lane.asserted = AssertedUsers::default();
        (lane.epoch, lane.wake.clone())
    }

    /// Starts transmitting sends on the latest stream.
    pub(crate) fn open(&self, lane: u64) {
        let mut state = self.state();
        let lane = state.lane(lane);
        lane.phase = LanePhase::Open;
        lane.wake.notify_one();
    }

    /// Stops transmitting sends.
    pub(crate) fn drain(&self, lane: u64) {
        let mut state = self.state();
        let lane = state.lane(lane);
        lane.phase = LanePhase::Draining;
        lane.wake.notify_one();
    }

    /// The next action of a stream. Returning a send marks it as transmitted.
    pub(crate) fn next(&self, lane: u64, epoch: u64) -> StreamAction {
        let now = Instant::now();
        let mut state = self.state();
        let Some(lane) = state.lanes.get_mut(&lane).filter(|lane| lane.epoch == epoch) else {
            return StreamAction::End;
        };
        match lane.phase {
            LanePhase::Connecting | LanePhase::Down => StreamAction::Wait,
            LanePhase::Draining => StreamAction::End,
            LanePhase::Open => {
                // Skip expired sends: their callers no longer wait, so a commit would be unexpected. `expire` answers
                // them.
                let on_time = lane.queue.iter().position(|waiting| waiting.deadline > now);
                let Some(waiting) = on_time.and_then(|index| lane.queue.remove(index)) else {
                    return StreamAction::Wait;
                };
                let number = lane.number;
                lane.number += 1;
                let trace = trace::context(&waiting.span);
                let mut send = wire::to_send(number, waiting.deadline - now, &waiting.request, trace);
                send.assertion = lane.present(&waiting.request);
                lane.handed_over.insert(number, waiting);
                StreamAction::Send(Box::new(send))
            }
        }
    }

    /// Answers a transmitted send. `None` if it is no longer pending.
    pub(crate) fn settle(&self, lane: u64, number: u64, outcome: SendResult) -> Option<PendingReply> {
        let mut state = self.state();
        let waiting = state.lane(lane).handed_over.remove(&number)?;
        Some(state.settle(waiting, outcome))
    }

    /// Answers a transmitted send whose assertion was refused. The next send of its sender presents one again.
    pub(crate) fn refuse(&self, lane: u64, number: u64) -> Option<PendingReply> {
        let mut state = self.state();
        let lane = state.lane(lane);
        let waiting = lane.handed_over.remove(&number)?;
        lane.asserted.forget(waiting.request.sender_id);
        Some(state.settle(waiting, Err(unavailable())))
    }

    /// Answers expired sends. Also returns how many of them were transmitted, which indicates the health of the
    /// process.
    pub(crate) fn expire(&self, lane: u64) -> (usize, Vec<PendingReply>) {
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

    /// Whether a transmitted send is still unanswered.
    pub(crate) fn is_waiting(&self, lane: u64) -> bool {
        !self.state().lane(lane).handed_over.is_empty()
    }

    /// Fails all sends of a lane with a broken stream: their outcomes are unknown. The lane waits for a new stream.
    pub(crate) fn fail(&self, lane: u64) -> Vec<PendingReply> {
        let mut state = self.state();
        let lane = state.lane(lane);
        lane.epoch += 1;
        lane.phase = LanePhase::Connecting;
        let mut failed: Vec<_> = std::mem::take(&mut lane.handed_over).into_values().collect();
        failed.extend(std::mem::take(&mut lane.queue));
        failed.into_iter().map(|waiting| state.settle(waiting, Err(unavailable()))).collect()
    }

    /// Moves the queue of an unreachable process to other lanes.
    pub(crate) fn hand_over(self: &Arc<Self>, lane: u64) -> Vec<PendingReply> {
        let mut state = self.state();
        let queue = {
            let lane = state.lane(lane);
            assert!(lane.handed_over.is_empty(), "transmitted sends are answered first");
            lane.phase = LanePhase::Down;
            std::mem::take(&mut lane.queue)
        };
        // Unpin all chats first: a pin would route a chat's next send back to this lane.
        for waiting in &queue {
            state.unpin(waiting.request.chat_id);
        }
        let now = Instant::now();
        let place = |waiting: UnansweredSend| {
            if waiting.deadline <= now {
                return Some(waiting.answer(Err(unavailable())));
            }
            let ranking = self.ranking(waiting.request.chat_id);
            self.place(&mut state, &ranking, waiting)
        };
        queue.into_iter().filter_map(place).collect()
    }

    /// Removes a lane after its queue was moved.
    pub(crate) fn remove(&self, lane: u64) {
        self.state().lanes.remove(&lane);
    }

    /// The places for the sends of a chat, best first.
    fn ranking(&self, chat_id: ChatId) -> Vec<SendTarget> {
        let links = self.routed.borrow().clone();
        let remote =
            links.iter().filter(|link| link.is_usable()).map(|link| (&*link.peer.id, SendTarget::Lane(link.serial)));
        let local = self.local.iter().map(|(peer, _)| (&*peer.id, SendTarget::Local));
        let ranked = rank(chat_id, remote.chain(local).collect(), |(id, _)| id);
        ranked.into_iter().map(|(_, place)| place).collect()
    }

    /// Places a send where its chat is pinned, or at the first place that accepts it. Returns an answer if none does.
    fn place(
        self: &Arc<Self>,
        state: &mut SendLanes,
        ranking: &[SendTarget],
        mut waiting: UnansweredSend,
    ) -> Option<PendingReply> {
        let chat_id = waiting.request.chat_id;
        let pinned = state.pins.get(&chat_id).map(|pin| pin.place);
        let Some(place) = pinned.or_else(|| ranking.iter().copied().find(|place| state.takes_sends(*place))) else {
            self.directory.note_absence(&PeerCallError::NoProcess { role: ProcessRole::Ingest });
            return Some(waiting.answer(Err(unavailable())));
        };
        let answer = match (place, &self.local) {
            (SendTarget::Local, Some((_, ingest))) => {
                let UnansweredSend { request, begun, reply, .. } = waiting;
                let pinned = Pinned { sends: self.clone(), chat_id };
                // The order of this call is the commit order, so it is made under the lock. It does not block.
                let outcome = ingest.send(request).inspect(move |_| drop(pinned)).boxed();
                Some(PendingReply { reply, begun, content: Reply::Local(outcome) })
            }
            (SendTarget::Local, None) => return Some(waiting.answer(Err(unavailable()))),
            (SendTarget::Lane(serial), _) => {
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

    fn state(&self) -> MutexGuard<'_, SendLanes> {
        lock(&self.state)
    }
}

impl SendLanes {
    fn lane(&mut self, serial: u64) -> &mut SendLane {
        self.lanes.get_mut(&serial).expect("a lane exists until its queue was moved")
    }

    fn takes_sends(&self, place: SendTarget) -> bool {
        match place {
            SendTarget::Lane(serial) => self
                .lanes
                .get(&serial)
                .is_some_and(|lane| matches!(lane.phase, LanePhase::Connecting | LanePhase::Open)),
            SendTarget::Local => true,
        }
    }

    fn settle(&mut self, waiting: UnansweredSend, outcome: SendResult) -> PendingReply {
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

impl SendLane {
    fn new() -> Self {
        Self {
            phase: LanePhase::Connecting,
            epoch: 0,
            wake: Arc::default(),
            queue: VecDeque::new(),
            handed_over: BTreeMap::new(),
            number: 0,
            asserted: AssertedUsers::default(),
        }
    }

    /// The proof that the send has to carry: none if the stream has presented one that expires no sooner.
    fn present(&mut self, request: &SendRequest) -> Option<Vec<u8>> {
        let assertion = request.assertion.as_ref()?;
        if self.asserted.expiry(request.sender_id).is_some_and(|presented| presented >= assertion.expires_at) {
            return None;
        }
        self.asserted.note(request.sender_id, assertion.expires_at, SystemClock.now());
        Some(assertion.proof.to_vec())
    }
}

impl UnansweredSend {
    fn answer(self, outcome: SendResult) -> PendingReply {
        if let Err(failure @ (IngestError::Unavailable { .. } | IngestError::Busy)) = &outcome {
            self.span.record("error", display(failure));
        }
        PendingReply { reply: self.reply, begun: self.begun, content: Reply::Settled(outcome) }
    }
}

/// Keeps a chat pinned to this process until its send is answered, or the future is dropped.
struct Pinned {
    sends: Arc<SendRouter>,
    chat_id: ChatId,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.sends.state().unpin(self.chat_id);
    }
}

/// The error for an unknown outcome.
pub(crate) fn unavailable() -> IngestError {
    IngestError::Unavailable { retry_after: RETRY_AFTER }
}
