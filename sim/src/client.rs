//! A device: a real [`ClientSession`], and an application that stores its events.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use audit::history::{Client, Entry, HistoryOp, Seen, fingerprint};
use domain::{
    Body, ChatId, ClientMessageId, ConnectionId, Content, ContentType, DeviceId, Invariant, Sequence, Timestamp, Ttl,
    UpdateAction, UpdateKind, UserId,
};
use futures_util::future::{AbortHandle, Abortable, BoxFuture};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use gateway::{Credential, Entrant};
use http::Method;
use ports::{Clock, ProcessRole};
use protocol::client::{
    ClientEvent, ClientSession, Ended, LookUpFailure, Output, RefreshFailure, SendBounds, StopReason,
};
use protocol::frame::{
    ClientFrame, Inbound, MessageBody, MessageUpdated, Outbound, PresenceStatus, RequestId, SendMessage, ServerFrame,
    UpdateMessage,
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::bugs::Bug;
use crate::copies::{Copies, CopyState, MessageCopy, update_fingerprint};
use crate::plan::{PlannedUpdate, REACTIONS};
use crate::rest::RestCall;
use crate::socket::{self, ClientSocket, GatewaySocket, SocketFrame};
use crate::trace::{TraceActor, TraceEvent};
use crate::world::World;

/// Initial data of a device.
#[derive(Clone)]
pub(crate) struct DeviceIdentity {
    pub(crate) name: String,
    pub(crate) user_id: UserId,
    pub(crate) device_id: DeviceId,
    pub(crate) access_token: String,
    pub(crate) refresh_token: String,
    /// Whether its sends stay in order: none is refused, and no restart loses unsent messages.
    pub(crate) keeps_order: bool,
    /// Whether the device never has a second connection, from a twin or from before a restart.
    pub(crate) is_alone: bool,
}

/// Commands to a device.
pub(crate) enum DeviceCommand {
    Send {
        chat_id: ChatId,
        name: u32,
        content: String,
        ttl: Option<u64>,
        ordered: bool,
    },
    Update {
        chat_id: ChatId,
        name: u32,
        kind: PlannedUpdate,
        /// Chooses the message.
        pick: usize,
    },
    RepeatUpdate,
    Read(ChatId),
    Type(ChatId, bool),
    Watch(UserId),
    GoOffline(Duration),
    /// Loses the network permanently.
    Vanish,
    Restart,
    Dawdle {
        lasts: Duration,
        pace: Duration,
    },
    Twin,
    /// Calls the REST API and returns the answer.
    Call {
        method: Method,
        path: String,
        body: Option<Value>,
        answer: oneshot::Sender<Option<(u16, Value)>>,
    },
    /// Reports the state of the device.
    Report(oneshot::Sender<DeviceState>),
}

/// State of a device.
pub(crate) struct DeviceState {
    pub(crate) user_id: UserId,
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) connections: u32,
    pub(crate) watermarks: BTreeMap<ChatId, Sequence>,
    pub(crate) copies: Copies,
    pub(crate) watched: BTreeMap<UserId, bool>,
    pub(crate) is_stopped: bool,
}

/// The client message id of a send: two users with the same id send two messages.
pub(crate) fn client_message_id(name: u32) -> ClientMessageId {
    ClientMessageId::from_bytes(u128::from(name).wrapping_add(1 << 100).to_be_bytes())
}

/// A readable name of a send.
fn send_name(id: ClientMessageId) -> String {
    let [.., a, b, c, d] = id.to_bytes();
    format!("#{}", u32::from_be_bytes([a, b, c, d]))
}

/// Retry interval of a client without a network.
const NO_NETWORK: Duration = Duration::from_secs(1);
/// The number of messages of which one is updated.
const RECENT: usize = 8;
/// Time until a user reopens a closed client.
const REOPENING: Duration = Duration::from_secs(3);

/// Runs a device until its commands end.
pub(crate) async fn run(
    world: Arc<World>,
    identity: DeviceIdentity,
    mut commands: mpsc::UnboundedReceiver<DeviceCommand>,
) {
    let mut device = SimDevice::new(world, identity);
    device.note(HistoryOp::Restarted { positions: vec![] });
    loop {
        device.follow();
        let timeout = device.session.poll_timeout().map_or_else(far, Instant::from_std);
        device.timer.as_mut().reset(timeout.min(far()));
        let may_read = Instant::now() >= device.reads_at;
        tokio::select! {
            biased;
            command = commands.recv() => match command {
                Some(command) => device.obey(command),
                None => return,
            },
            opened = next(&mut device.opening) => device.handle_opened(opened),
            report = device.errands.next(), if !device.errands.is_empty() => {
                if let Some(report) = report {
                    device.handle_report(report);
                }
            }
            frame = read(&mut device.socket), if may_read => device.handle_frame(frame),
            () = sleep_until(device.reads_at), if !may_read => {}
            () = device.timer.as_mut() => {
                let now = now();
                device.session.handle_timeout(now);
            }
        }
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

fn far() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

async fn next(opening: &mut Option<BoxFuture<'static, OpenedConnection>>) -> OpenedConnection {
    match opening {
        Some(future) => {
            let opened = future.await;
            *opening = None;
            opened
        }
        None => std::future::pending().await,
    }
}

async fn read(socket: &mut Option<ClientSocket>) -> Option<SocketFrame> {
    match socket {
        Some(socket) => socket.next().await,
        None => std::future::pending().await,
    }
}

type OpenedConnection = Result<(ClientSocket, String), Ended>;

/// Result of a REST call.
enum ClientErrandResult {
    Renewed(Result<(String, String), RefreshFailure>),
    Chats(Vec<Value>),
    LookedUp(ChatId, Result<Sequence, LookUpFailure>),
    Reopen,
    Done,
}

struct SimDevice {
    world: Arc<World>,
    identity: DeviceIdentity,
    session: ClientSession,
    socket: Option<ClientSocket>,
    opening: Option<BoxFuture<'static, OpenedConnection>>,
    errands: FuturesUnordered<BoxFuture<'static, ClientErrandResult>>,
    timer: Pin<Box<Sleep>>,
    connection: Option<ConnectionId>,
    connections: u32,
    /// Messages that the application has stored; they survive a crash.
    stored: BTreeMap<ChatId, Sequence>,
    /// Messages that it has shown. Equal to `stored`, unless an injected bug skips messages.
    shown: BTreeMap<ChatId, Sequence>,
    /// The messages that it has stored.
    copies: Copies,
    /// Updates without an outcome. They survive a crash, and are sent again after it.
    updates: BTreeMap<ClientMessageId, (UpdateMessage, HistoryOp)>,
    last_update: Option<(UpdateMessage, HistoryOp)>,
    /// The highest received sequence of each chat.
    highest: BTreeMap<ChatId, Sequence>,
    watched: BTreeMap<UserId, bool>,
    wants_to_watch: BTreeSet<UserId>,
    offline_until: Instant,
    dawdles_until: Instant,
    /// Time that it takes per frame while it dawdles.
    pace: Duration,
    /// The earliest time to read the next frame.
    reads_at: Instant,
    restarts: u64,
    /// The send that each request is an attempt of.
    tries: BTreeMap<RequestId, (ChatId, ClientMessageId)>,
    /// The sends over the current connection.
    sent_here: BTreeSet<(ChatId, ClientMessageId)>,
    /// Whether it is offline permanently.
    is_gone: bool,
}

impl SimDevice {
    fn new(world: Arc<World>, identity: DeviceIdentity) -> Self {
        let session = ClientSession::new(now(), SendBounds::default(), seed(&identity, 0));
        Self {
            world,
            identity,
            session,
            socket: None,
            opening: None,
            errands: FuturesUnordered::new(),
            timer: Box::pin(sleep(Duration::ZERO)),
            connection: None,
            connections: 0,
            stored: BTreeMap::new(),
            shown: BTreeMap::new(),
            copies: Copies::new(),
            updates: BTreeMap::new(),
            last_update: None,
            highest: BTreeMap::new(),
            watched: BTreeMap::new(),
            wants_to_watch: BTreeSet::new(),
            offline_until: Instant::now(),
            dawdles_until: Instant::now(),
            pace: Duration::ZERO,
            reads_at: Instant::now(),
            restarts: 0,
            tries: BTreeMap::new(),
            sent_here: BTreeSet::new(),
            is_gone: false,
        }
    }

    fn note(&self, op: HistoryOp) {
        if self.is_gone {
            return;
        }
        let client = Client { user_id: self.identity.user_id, device_id: self.identity.device_id };
        self.world.observe(&Entry { at: self.world.milliseconds(), client, op });
    }

    fn trace(&self, what: TraceEvent) {
        self.world.note(TraceActor::Client(self.identity.name.clone()), what);
    }

    /// Handles the outputs of the session until there are none.
    fn follow(&mut self) {
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Connect => self.open(),
                Output::Transmit(text) => self.transmit(text),
                Output::Disconnect => self.hang_up(),
                Output::Event(event) => self.handle_event(event),
                Output::RefreshToken => self.renew(),
                Output::ListChats => self.list_chats(),
                Output::LookUp(chat_id) => self.look_up(chat_id),
            }
        }
    }

    /// Writes a frame, and records the send that it is an attempt of.
    fn transmit(&mut self, text: String) {
        if let Ok(Inbound { request_id, frame }) = Inbound::parse(&text) {
            let entry = match &frame {
                ClientFrame::SendMessage(send) => Some((send.chat_id, send.client_message_id)),
                ClientFrame::UpdateMessage(update) => Some((update.chat_id, update.client_message_id)),
                _ => None,
            };
            if let Some((chat_id, id)) = entry {
                self.trace(TraceEvent::Sending { chat_id, send: send_name(id) });
                if self.sent_here.insert((chat_id, id)) {
                    self.world.checks.asked(chat_id, self.identity.user_id, id);
                }
                self.tries.extend(request_id.map(|request_id| (request_id, (chat_id, id))));
            }
        }
        if let Some(socket) = &self.socket {
            socket.send(text);
        }
    }

    fn hang_up(&mut self) {
        if let Some(socket) = self.socket.take() {
            socket.close();
        }
        self.lost("it hung up");
    }

    /// Handles the loss of the connection.
    fn lost(&mut self, how: &str) {
        self.opening = None;
        if self.connection.take().is_some() {
            self.note(HistoryOp::Disconnected);
            self.trace(TraceEvent::Disconnected { how: how.to_owned() });
        }
    }

    fn open(&mut self) {
        let (world, identity) = (self.world.clone(), self.identity.clone());
        let offline_until = self.offline_until;
        self.opening = Some(Box::pin(async move {
            if Instant::now() < offline_until {
                sleep(NO_NETWORK).await;
                return Err(Ended::Lost);
            }
            world.connect(&identity.access_token, identity.user_id, identity.device_id).await
        }));
    }

    fn handle_opened(&mut self, opened: OpenedConnection) {
        match opened {
            Ok((socket, gateway)) => {
                self.socket = Some(socket);
                self.sent_here.clear();
                self.trace(TraceEvent::Connected { gateway });
                self.session.handle_connected(now());
            }
            Err(ended) => {
                self.trace(TraceEvent::Disconnected { how: format!("{ended:?}") });
                self.session.handle_disconnected(now(), ended);
            }
        }
    }

    fn handle_frame(&mut self, frame: Option<SocketFrame>) {
        if Instant::now() < self.dawdles_until {
            self.reads_at = Instant::now() + self.pace;
        }
        let ended = match frame {
            Some(SocketFrame::Text(text)) => {
                let text = std::str::from_utf8(&text).expect("frames are JSON, which is UTF-8");
                if crate::broken::is_ignored(&self.world, text) {
                    return;
                }
                let has_skipped = self.see(text);
                if has_skipped && self.world.has(Bug::WatermarkByMaximum) {
                    return self.restart();
                }
                return self.session.handle_text(now(), text);
            }
            Some(SocketFrame::Close(Some(reason))) => {
                Ended::Closed { code: reason.code(), reason: reason.as_str().to_owned() }
            }
            Some(SocketFrame::Close(None)) | None => Ended::Lost,
        };
        self.socket = None;
        self.lost(&format!("{ended:?}"));
        self.session.handle_disconnected(now(), ended);
    }

    /// Updates the highest sequences, as a naive client does, and records refusals that the session retries. Returns
    /// whether a message arrived out of sequence.
    fn see(&mut self, text: &str) -> bool {
        let Ok(Outbound { request_id, frame }) = Outbound::parse(text) else { return false };
        match frame {
            ServerFrame::Message(body) => return self.see_entry(body.chat_id, body.sequence),
            ServerFrame::MessageUpdated(MessageUpdated { update, .. }) => {
                return self.see_entry(update.chat_id, update.sequence);
            }
            ServerFrame::Error(error) => {
                if let Some((chat_id, id)) = request_id.and_then(|request_id| self.tries.get(&request_id).copied()) {
                    let code = error.code.as_str().to_owned();
                    self.trace(TraceEvent::Failed { chat_id, send: send_name(id), code: code.clone() });
                    self.note(HistoryOp::SendFailed { chat_id, client_message_id: id, code });
                }
            }
            _ => {}
        }
        false
    }

    fn see_entry(&mut self, chat_id: ChatId, sequence: Sequence) -> bool {
        let highest = self.highest.entry(chat_id).or_default();
        *highest = sequence.max(*highest);
        self.session.watermark(chat_id).is_some_and(|at| sequence > at.next())
    }

    fn handle_event(&mut self, event: ClientEvent) {
        match event {
            ClientEvent::Connected { connection_id, .. } => {
                self.connection = Some(connection_id);
                self.connections += 1;
                self.note(HistoryOp::Connected { connection: connection_id });
            }
            ClientEvent::Message(body) => self.render(&body),
            ClientEvent::Updated(updated) => self.apply(&updated),
            ClientEvent::Sent(ack) => {
                self.updates.remove(&ack.client_message_id);
                let (chat_id, sequence) = (ack.chat_id, ack.sequence);
                self.trace(TraceEvent::Acked {
                    chat_id,
                    send: send_name(ack.client_message_id),
                    sequence,
                    deduplicated: ack.deduplicated,
                });
                self.world.acked(chat_id, ack.message_id, sequence);
                self.note(HistoryOp::SendAcked {
                    chat_id,
                    client_message_id: ack.client_message_id,
                    message_id: ack.message_id,
                    sequence,
                });
            }
            ClientEvent::Presence(presences) => {
                for presence in presences {
                    let is_online = presence.status == PresenceStatus::Online;
                    self.watched.insert(presence.user_id, is_online);
                    self.trace(TraceEvent::Seen { user_id: presence.user_id, view: format!("{:?}", presence.status) });
                }
            }
            ClientEvent::Expired(expired) => {
                self.trace(TraceEvent::Expired { chat_id: expired.chat_id, sequences: expired.sequences });
            }
            ClientEvent::ChatGone { chat_id } => {
                self.stored.remove(&chat_id);
                self.shown.remove(&chat_id);
                self.highest.remove(&chat_id);
                self.copies.remove(&chat_id);
                // The application deletes its messages of the chat. If the user joins again, it starts from the
                // beginning.
                self.note(HistoryOp::Restarted { positions: self.positions() });
            }
            // A permanent refusal was recorded when its answer arrived.
            ClientEvent::SendFailed { client_message_id, .. } => drop(self.updates.remove(&client_message_id)),
            ClientEvent::Disconnected { .. }
            | ClientEvent::Receipt(_)
            | ClientEvent::ChatUpdated(_)
            | ClientEvent::Typing(_)
            | ClientEvent::WatermarkReset { .. }
            | ClientEvent::Refused(_) => {}
            ClientEvent::Stopped(StopReason::DuplicateConnection) => {
                self.world.check(Invariant::ReconnectHeals, !self.identity.is_alone, || {
                    format!("{} was shut out by a connection of its own that it had given up", self.identity.name)
                });
                // The user reopens the client.
                self.errands.push(Box::pin(async {
                    sleep(REOPENING).await;
                    ClientErrandResult::Reopen
                }));
            }
            ClientEvent::Stopped(_) => self.note(HistoryOp::Stopped),
        }
    }

    fn render(&mut self, body: &MessageBody<'_>) {
        let (chat_id, sequence) = (body.chat_id, body.sequence);
        self.trace(TraceEvent::Rendered { chat_id, sequence, sender_id: body.sender_id });
        let message = Seen {
            sequence,
            message_id: body.message_id,
            sender_id: body.sender_id,
            client_message_id: body.client_message_id,
            content: fingerprint(body.content.as_ref()),
        };
        crate::copies::keep(&mut self.copies, body, self.world.has(Bug::OlderCopyKept));
        self.store_entry(chat_id, message);
    }

    /// Applies an update. Its id is not on the wire, so the store says which one it is.
    fn apply(&mut self, updated: &MessageUpdated<'_>) {
        let update = &updated.update;
        let (chat_id, sequence) = (update.chat_id, update.sequence);
        let Some(committed) = self.world.checks.committed(chat_id, sequence) else {
            let detail = format!("a client received an update at {sequence} of {chat_id}, which was never committed");
            return self.world.violated(Invariant::StoreIsAuthoritative, detail);
        };
        self.trace(TraceEvent::Rendered { chat_id, sequence, sender_id: update.user_id });
        let entry = Seen {
            sequence,
            message_id: committed.message_id,
            sender_id: update.user_id,
            client_message_id: Some(committed.client_message_id),
            content: update_fingerprint(update.kind, update.target_sequence, update.reaction.as_ref()),
        };
        crate::copies::apply(&mut self.copies, updated, self.world.has(Bug::OlderCopyKept));
        self.store_entry(chat_id, entry);
    }

    /// Stores an entry together with what it has changed.
    fn store_entry(&mut self, chat_id: ChatId, entry: Seen) {
        let sequence = entry.sequence;
        self.note(HistoryOp::Rendered { chat_id, message: entry });
        self.stored.insert(chat_id, sequence);
        self.shown.insert(chat_id, sequence);
        self.session.stored(now(), chat_id, sequence);
    }

    fn obey(&mut self, command: DeviceCommand) {
        if self.is_gone && !matches!(command, DeviceCommand::Report(_)) {
            return;
        }
        match command {
            DeviceCommand::Send { chat_id, name, content, ttl, ordered } => {
                self.send(chat_id, name, content, ttl, ordered)
            }
            DeviceCommand::Update { chat_id, name, kind, pick } => self.update(chat_id, name, kind, pick),
            DeviceCommand::RepeatUpdate => {
                if let Some((update, began)) = self.last_update.clone() {
                    self.send_update(update, began);
                }
            }
            DeviceCommand::Read(chat_id) => {
                if let Some(read) = self.session.watermark(chat_id) {
                    self.note(HistoryOp::Marked { chat_id, delivered: read, read });
                    self.trace(TraceEvent::Marked { chat_id, read: true, sequence: read });
                    self.session.mark_read(now(), chat_id, read);
                }
            }
            DeviceCommand::Type(chat_id, is_typing) => self.session.typing(now(), chat_id, is_typing),
            DeviceCommand::Watch(user_id) => {
                self.wants_to_watch.insert(user_id);
                self.session.watch(now(), &[user_id]);
            }
            DeviceCommand::GoOffline(lasts) => self.go_offline(lasts),
            DeviceCommand::Vanish => {
                self.go_offline(Duration::from_secs(24 * 3600));
                self.note(HistoryOp::Stopped);
                self.is_gone = true;
            }
            DeviceCommand::Restart => self.restart(),
            DeviceCommand::Dawdle { lasts, pace } => {
                self.dawdles_until = Instant::now() + lasts;
                self.pace = pace;
            }
            DeviceCommand::Twin => self.twin(),
            DeviceCommand::Call { method, path, body, answer } => {
                let (world, token) = (self.world.clone(), self.identity.access_token.clone());
                let offline_until = self.offline_until;
                self.errands.push(Box::pin(async move {
                    let brought = match Instant::now() < offline_until {
                        true => None,
                        false => world.rest(RestCall::with(method, &token, path, body)).await,
                    };
                    drop(answer.send(brought));
                    ClientErrandResult::Done
                }));
            }
            DeviceCommand::Report(report) => drop(report.send(self.standing())),
        }
    }

    fn send(&mut self, chat_id: ChatId, name: u32, content: String, ttl: Option<u64>, ordered: bool) {
        let id = client_message_id(name);
        let Ok(content) = Content::try_from(content) else { return };
        let message = SendMessage {
            client_message_id: id,
            chat_id,
            body: Body::new(content, ContentType::Text),
            ttl: ttl.and_then(Ttl::from_secs),
        };
        let began = HistoryOp::SendBegan {
            chat_id,
            client_message_id: id,
            content: fingerprint(message.body.content.as_str()),
            // Some process's clock may expire the message that much earlier.
            ttl_seconds: ttl.map(|ttl| ttl.saturating_sub(self.world.plan.skew_bound().as_secs())),
            ordered: ordered && self.identity.keeps_order,
        };
        self.note(began);
        if self.session.send(now(), message).is_err() {
            self.note(HistoryOp::SendFailed { chat_id, client_message_id: id, code: "QUEUE_FULL".to_owned() });
        }
    }

    /// Updates one of the last messages that the device has shown. Others' messages are edited and deleted less often,
    /// because the server refuses most of that.
    fn update(&mut self, chat_id: ChatId, name: u32, kind: PlannedUpdate, pick: usize) {
        let Some(of_chat) = self.copies.get(&chat_id) else { return };
        let is_of_author = matches!(kind, PlannedUpdate::Edit | PlannedUpdate::Delete);
        let only_own = is_of_author && !pick.is_multiple_of(8);
        let candidates: Vec<(&Sequence, &MessageCopy)> = of_chat
            .iter()
            .rev()
            .filter(|(_, copy)| copy.state != CopyState::Deleted)
            .filter(|(_, copy)| !only_own || copy.sender_id == self.identity.user_id)
            .take(RECENT)
            .collect();
        let Some((target, copy)) = candidates.get((pick / 8) % candidates.len().max(1)) else { return };
        let (target, copy) = (**target, (*copy).clone());
        let reaction = |n: usize| REACTIONS[n].parse().expect("it is a reaction");
        let client_message_id = client_message_id(name);
        let action = match kind {
            PlannedUpdate::Edit => {
                let content = format!("edit {name} by {}", self.identity.user_id);
                if let Some(client_message_id) = copy.client_message_id {
                    self.note(HistoryOp::Editing { chat_id, client_message_id, content: fingerprint(&content) });
                }
                let content = Content::try_from(content).expect("it is short");
                UpdateAction::Edit(Body::new(content, ContentType::Text))
            }
            PlannedUpdate::Delete => {
                self.note(HistoryOp::Deleting { chat_id, sequence: target });
                UpdateAction::Delete
            }
            PlannedUpdate::React(n) => UpdateAction::React(reaction(n)),
            PlannedUpdate::Unreact(n) => UpdateAction::Unreact(reaction(n)),
        };
        let kind = action.kind();
        // Some process's clock may expire the message that much earlier.
        let left = |at: Timestamp| at.since(self.world.clock.now()).saturating_sub(self.world.plan.skew_bound());
        let began = HistoryOp::UpdateBegan {
            chat_id,
            client_message_id,
            content: update_fingerprint((&kind).into(), target, kind.reaction()),
            // The entry of a deletion stays.
            ttl_seconds: copy.expires_at.filter(|_| kind != UpdateKind::Deleted).map(|at| left(at).as_secs()),
            ordered: self.identity.keeps_order,
        };
        let update = UpdateMessage { client_message_id, chat_id, target, action };
        self.last_update = Some((update.clone(), began.clone()));
        self.send_update(update, began);
    }

    fn send_update(&mut self, update: UpdateMessage, began: HistoryOp) {
        let (chat_id, client_message_id) = (update.chat_id, update.client_message_id);
        self.note(began.clone());
        if self.session.update(now(), update.clone()).is_ok() {
            self.updates.insert(client_message_id, (update, began));
        } else {
            self.note(HistoryOp::SendFailed { chat_id, client_message_id, code: "QUEUE_FULL".to_owned() });
        }
    }

    fn go_offline(&mut self, lasts: Duration) {
        self.offline_until = Instant::now() + lasts;
        if let Some(socket) = self.socket.take() {
            socket.cut();
            self.lost("it has no network");
            self.session.handle_disconnected(now(), Ended::Lost);
        }
    }

    /// Crashes, and restarts with its stored messages.
    fn restart(&mut self) {
        if let Some(socket) = self.socket.take() {
            socket.cut();
        }
        self.lost("it died");
        self.restarts += 1;
        self.session = ClientSession::new(now(), SendBounds::default(), seed(&self.identity, self.restarts));
        self.errands = FuturesUnordered::new();
        self.tries.clear();
        self.watched.clear();
        if self.world.has(Bug::WatermarkByMaximum) {
            self.stored.clone_from(&self.highest);
        }
        self.note(HistoryOp::Restarted { positions: self.positions() });
        for (chat_id, sequence) in &self.stored {
            self.session.track(now(), *chat_id, *sequence);
        }
        for (update, began) in std::mem::take(&mut self.updates).into_values() {
            self.send_update(update, began);
        }
        let watched: Vec<_> = self.wants_to_watch.iter().copied().collect();
        self.session.watch(now(), &watched);
    }

    /// The highest contiguous sequence of each chat that the application has.
    fn positions(&self) -> Vec<(ChatId, Sequence)> {
        self.shown.iter().map(|(chat_id, sequence)| (*chat_id, *sequence)).collect()
    }

    /// Opens and closes a second connection of the same device.
    fn twin(&mut self) {
        let (world, identity) = (self.world.clone(), self.identity.clone());
        self.errands.push(Box::pin(async move {
            if let Ok((mut socket, _)) =
                world.connect(&identity.access_token, identity.user_id, identity.device_id).await
            {
                drop(tokio::time::timeout(Duration::from_secs(2), socket.next()).await);
                socket.close();
            }
            ClientErrandResult::Done
        }));
    }

    fn renew(&mut self) {
        let (world, identity) = (self.world.clone(), self.identity.clone());
        self.errands.push(Box::pin(async move {
            let body = json!({ "refresh_token": identity.refresh_token, "device_id": identity.device_id });
            let answer = world.rest(RestCall::open("/auth/refresh", body)).await;
            let token = |body: &Value, name| body.pointer(&format!("/data/tokens/{name}"))?.as_str().map(str::to_owned);
            ClientErrandResult::Renewed(match &answer {
                Some((200, body)) => {
                    token(body, "access_token").zip(token(body, "refresh_token")).ok_or(RefreshFailure::Unreachable)
                }
                Some((400..500, _)) => Err(RefreshFailure::Refused),
                _ => Err(RefreshFailure::Unreachable),
            })
        }));
    }

    fn list_chats(&mut self) {
        let (world, token) = (self.world.clone(), self.identity.access_token.clone());
        self.errands.push(Box::pin(async move {
            loop {
                match world.rest(RestCall::get(&token, "/chats?limit=100")).await {
                    Some((200, body)) => {
                        let chats = body.pointer("/data/chats").and_then(Value::as_array);
                        return ClientErrandResult::Chats(chats.cloned().unwrap_or_default());
                    }
                    Some((401, _)) => return ClientErrandResult::Done,
                    _ => sleep(Duration::from_secs(1)).await,
                }
            }
        }));
    }

    fn look_up(&mut self, chat_id: ChatId) {
        let (world, token) = (self.world.clone(), self.identity.access_token.clone());
        self.errands.push(Box::pin(async move {
            let outcome = match world.rest(RestCall::get(&token, format!("/chats/{chat_id}"))).await {
                Some((200, body)) => sequence(&body["data"], "my_delivered_sequence").ok_or(LookUpFailure::Unreachable),
                Some((403 | 404, _)) => Err(LookUpFailure::Gone),
                _ => Err(LookUpFailure::Unreachable),
            };
            ClientErrandResult::LookedUp(chat_id, outcome)
        }));
    }

    fn handle_report(&mut self, report: ClientErrandResult) {
        match report {
            ClientErrandResult::Renewed(Ok((access_token, refresh_token))) => {
                self.identity.access_token = access_token;
                self.identity.refresh_token = refresh_token;
                self.session.handle_token_refreshed(now());
            }
            ClientErrandResult::Renewed(Err(failure)) => self.session.handle_refresh_failed(now(), failure),
            ClientErrandResult::Chats(chats) => {
                for chat in chats {
                    let chat_id = chat["chat_id"].as_str().and_then(|text| text.parse().ok());
                    let delivered = sequence(&chat, "my_delivered_sequence");
                    let head = sequence(&chat, "head_sequence");
                    if let (Some(chat_id), Some(delivered), Some(head)) = (chat_id, delivered, head) {
                        self.session.list(now(), chat_id, delivered, head);
                    }
                }
            }
            ClientErrandResult::LookedUp(chat_id, Ok(watermark)) => self.session.track(now(), chat_id, watermark),
            ClientErrandResult::LookedUp(chat_id, Err(failure)) => {
                self.session.handle_look_up_failed(now(), chat_id, failure)
            }
            ClientErrandResult::Reopen => self.restart(),
            ClientErrandResult::Done => {}
        }
    }

    fn standing(&self) -> DeviceState {
        let chats = self.stored.keys().chain(self.highest.keys());
        let watermark = |chat_id: &ChatId| Some((*chat_id, self.session.watermark(*chat_id)?));
        DeviceState {
            user_id: self.identity.user_id,
            connection: self.connection,
            connections: self.connections,
            watermarks: chats.filter_map(watermark).collect(),
            copies: self.copies.clone(),
            // Presence of other users may arrive unrequested; only subscribed users are checked.
            watched: self
                .wants_to_watch
                .iter()
                .filter_map(|user_id| Some((*user_id, *self.watched.get(user_id)?)))
                .collect(),
            is_stopped: self.session.is_stopped() || self.is_gone,
        }
    }
}

fn sequence(value: &Value, name: &str) -> Option<Sequence> {
    value.get(name)?.as_u64().map(Sequence)
}

/// Gives every session of every device its own jitter.
fn seed(identity: &DeviceIdentity, restarts: u64) -> u64 {
    let [.., a, b] = identity.device_id.to_bytes();
    u64::from_be_bytes([1, 2, 3, 4, 5, 6, a, b]).wrapping_add(restarts << 16)
}

/// Runs a connection as a gateway does, on its run queues. Dropping the future ends the connection, as the death of its
/// process does.
async fn converse(entrant: Entrant, socket: GatewaySocket) {
    let (abort, registration) = AbortHandle::new_pair();
    let (done, ended) = oneshot::channel();
    let _ends_with_it = AbortOnDrop(abort);
    entrant.schedule(|entrant| {
        Abortable::new(entrant.converse(socket), registration).map(|_| {
            // The process may be dead.
            let _ = done.send(());
        })
    });
    // Without an answer the connection has panicked, or its process is dead.
    assert!(ended.await.is_ok(), "a connection has panicked");
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl World {
    /// Virtual time in milliseconds, as in histories.
    pub(crate) fn milliseconds(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// Opens a connection to a random gateway and returns its name.
    async fn connect(
        self: &Arc<Self>,
        token: &str,
        user_id: UserId,
        device_id: DeviceId,
    ) -> Result<(ClientSocket, String), Ended> {
        self.travel().await;
        let candidates = self.directory.of(ProcessRole::Gateway);
        let index = self.streams.network.index(candidates.len().max(1));
        let Some(running) = candidates.into_iter().nth(index) else {
            sleep(NO_NETWORK).await;
            return Err(Ended::Lost);
        };
        let Some(gateway) = running.services.gateway.clone() else { return Err(Ended::Lost) };
        let (answer, answered) = oneshot::channel();
        let (world, token, holder) = (self.clone(), token.to_owned(), running.clone());
        running.process.spawn(async move {
            let admitted = async {
                let principal = gateway.identify(Credential::Token(&token), device_id).await?;
                gateway.admit(principal, device_id).await
            };
            match admitted.await {
                Err(refusal) => {
                    let refused = Ended::Refused { status: refusal.status.as_u16(), retry_after: refusal.retry_after };
                    drop(answer.send(Err(refused)));
                }
                Ok(entrant) => {
                    let (link, theirs, ours) = socket::connection(&world, &holder.process, user_id);
                    holder.hold(&link);
                    if answer.send(Ok(ours)).is_ok() {
                        converse(entrant, theirs).await;
                    }
                }
            }
        });
        let socket = tokio::select! {
            biased;
            answer = answered => answer.unwrap_or(Err(Ended::Lost)),
            () = running.process.died() => Err(Ended::Lost),
        }?;
        self.travel().await;
        Ok((socket, running.process.name.clone()))
    }
}
