use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{ChatId, ClientMessageId, Sequence};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use protocol::client::{ClientEvent, ClientSession, Ended, Output, QueueFull, SendBounds};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Sleep, sleep_until, timeout};
use tokio_tungstenite::tungstenite::protocol::frame::Utf8Bytes;

use crate::errand::{Errand, ErrandResult};
use crate::events::ProcessedEntries;
use crate::handle::{HandleCommand, OutcomeSender};
use crate::{Api, ApiError, ClientHandle, ConnectError, Credential, Events, RawConnection, SendError};

/// Capacity of the event channel. While it is full, nothing is read from the socket: to the server, a slow application
/// is a slow consumer, and recovers as one.
const EVENTS_LEN_MAX: usize = 1024;
/// Capacity of the command channel; callers wait while it is full.
const COMMANDS_LEN_MAX: usize = 256;
/// Most REST calls in flight.
const ERRANDS_MAX: usize = 4;
/// Timeout of the closing handshake.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Delay between two early renewals of tokens; the second one is needed only if the first fails.
const RENEWAL_PAUSE: Duration = Duration::from_secs(30);
/// Timer duration while there is no deadline.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// Spawns the task of a session.
pub(crate) fn spawn(
    api: Api,
    send_bounds: SendBounds,
    reconnect_pause: Duration,
    positions: &[(ChatId, Sequence)],
) -> (ClientHandle, Events) {
    let (commands, command_receiver) = mpsc::channel(COMMANDS_LEN_MAX);
    let (events, event_receiver) = mpsc::channel(EVENTS_LEN_MAX);
    let taken = Arc::new(ProcessedEntries::default());
    let now = Instant::now();
    let mut session = ClientSession::new(now, send_bounds, rand::random()).with_reconnect_pause(reconnect_pause);
    for (chat_id, sequence) in positions {
        session.track(now, *chat_id, *sequence);
    }
    let driver = SessionDriver {
        api,
        session,
        link: SocketState::Down,
        token: String::new(),
        renewal_paused_until: now,
        errands: VecDeque::new(),
        listing: ChatListing::Idle,
        running: FuturesUnordered::new(),
        events,
        queued_events: VecDeque::new(),
        taken: Arc::clone(&taken),
        emitted: VecDeque::new(),
        stored: 0,
        outcomes: HashMap::new(),
        closers: Vec::new(),
    };
    tokio::spawn(driver.run(command_receiver));
    (ClientHandle::new(commands), taken.events(event_receiver))
}

/// Executes the outputs of a [`ClientSession`] in one task, which ends with the session.
struct SessionDriver {
    api: Api,
    session: ClientSession,
    link: SocketState,
    /// The access token of the last handshake, or a later one with which the connection was renewed.
    token: String,
    renewal_paused_until: Instant,
    errands: VecDeque<Errand>,
    listing: ChatListing,
    running: FuturesUnordered<BoxFuture<'static, ErrandResult>>,
    events: mpsc::Sender<ClientEvent>,
    /// Events that do not fit into the channel yet.
    queued_events: VecDeque<ClientEvent>,
    taken: Arc<ProcessedEntries>,
    /// Messages and updates that were emitted and are not known to be stored, in order.
    emitted: VecDeque<(ChatId, Sequence)>,
    /// The number of entries removed from `emitted`.
    stored: u64,
    outcomes: HashMap<ClientMessageId, OutcomeSender>,
    closers: Vec<oneshot::Sender<()>>,
}

/// The state of the chat list. A list is valid only for the connection on which it was requested; a later connection
/// repeats it.
#[derive(PartialEq)]
enum ChatListing {
    Idle,
    UnderWay,
    /// In flight for a connection that has ended.
    Outdated,
}

enum SocketState {
    Down,
    Opening(BoxFuture<'static, ConnectAttempt>),
    Up(Box<RawConnection>),
}

struct ConnectAttempt {
    token: String,
    connection: Result<Box<RawConnection>, Ended>,
}

enum SocketInput {
    Opened(ConnectAttempt),
    Text(Utf8Bytes),
    Ended(Ended),
}

impl SessionDriver {
    async fn run(mut self, mut commands: mpsc::Receiver<HandleCommand>) {
        let mut timer = Box::pin(sleep_until(Instant::now().into()));
        loop {
            self.follow_session().await;
            if self.session.is_stopped() && (self.queued_events.is_empty() || self.events.is_closed()) {
                break;
            }
            while self.running.len() < ERRANDS_MAX
                && let Some(errand) = self.errands.pop_front()
            {
                self.running.push(errand.run(self.api.clone()));
            }
            arm(timer.as_mut(), [self.session.poll_timeout(), self.renew_at()].into_iter().flatten().min());
            let all_emitted = self.queued_events.is_empty();
            tokio::select! {
                from_link = self.link.next(all_emitted) => self.handle_link(from_link),
                Some(command) = commands.recv() => self.handle_command(command),
                () = emit_next(&self.events, &mut self.queued_events), if !all_emitted => {}
                () = self.events.closed() => self.session.close(Instant::now()),
                () = self.taken.changed() => {}
                Some(report) = self.running.next(), if !self.running.is_empty() => self.handle_report(report),
                () = timer.as_mut() => self.handle_timeout(),
            }
            self.note_stored();
            self.renew_connection();
        }
    }

    /// Renews the authentication of the connection after the tokens were renewed, here or by a REST call. The timer of the
    /// renewal wakes the loop in time for both.
    fn renew_connection(&mut self) {
        if let SocketState::Up(_) = self.link
            && let Some(token) = self.api.present_token().filter(|token| *token != self.token)
            && self.session.reauth(Instant::now(), token.clone().into())
        {
            self.token = token;
        }
    }

    /// Executes the outputs of the session until there are none.
    async fn follow_session(&mut self) {
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Connect => self.link = SocketState::Opening(Box::pin(open(self.api.clone()))),
                Output::Transmit(text) => self.transmit(text),
                Output::Disconnect => {
                    if let SocketState::Up(mut connection) = std::mem::replace(&mut self.link, SocketState::Down)
                        && timeout(CLOSE_TIMEOUT, connection.close()).await.is_err()
                    {
                        tracing::debug!("closing handshake timed out; connection dropped");
                    }
                }
                Output::RefreshToken => self.errands.push_front(Errand::Renew { stale: self.token.clone() }),
                Output::ListChats => match self.listing {
                    ChatListing::Idle => {
                        self.listing = ChatListing::UnderWay;
                        self.errands.push_back(Errand::ListChats);
                    }
                    ChatListing::UnderWay | ChatListing::Outdated => self.listing = ChatListing::Outdated,
                },
                Output::LookUp(chat_id) => self.errands.push_back(Errand::LookUp(chat_id)),
                Output::Event(event) => self.handle_event(event),
            }
        }
        if self.session.is_stopped() {
            // Dropping the senders resolves pending outcomes as closed.
            self.outcomes.clear();
            for closer in self.closers.drain(..) {
                // The caller of `close` may have stopped waiting.
                let _ = closer.send(());
            }
        }
    }

    fn transmit(&mut self, text: String) {
        if let SocketState::Up(connection) = &mut self.link
            && let Err(error) = connection.send(text)
        {
            // A dropped request gets no reply, so the session closes the connection after the request timeout.
            tracing::warn!(%error, "frame dropped: write buffer is full");
        }
    }

    /// Routes the outcomes of sends and updates to their callers, and all other events to the event stream.
    fn handle_event(&mut self, event: ClientEvent) {
        let (client_message_id, outcome) = match event {
            ClientEvent::Sent(ack) => (ack.client_message_id, Ok(ack)),
            ClientEvent::SendFailed { client_message_id, error, .. } => {
                (client_message_id, Err(SendError::Refused(error)))
            }
            event => return self.emit(event),
        };
        if let Some(sender) = self.outcomes.remove(&client_message_id) {
            // The caller may have dropped the future.
            let _ = sender.send(outcome);
        }
    }

    fn emit(&mut self, event: ClientEvent) {
        match &event {
            ClientEvent::Message(message) => self.emitted.push_back((message.chat_id, message.sequence)),
            ClientEvent::Updated(updated) => {
                self.emitted.push_back((updated.update.chat_id, updated.update.sequence));
            }
            _ => {}
        }
        match self.events.try_reserve() {
            Ok(permit) if self.queued_events.is_empty() => permit.send(event),
            _ => self.queued_events.push_back(event),
        }
    }

    fn handle_link(&mut self, from_link: SocketInput) {
        let now = Instant::now();
        match from_link {
            SocketInput::Text(text) => self.session.handle_text(now, &text),
            SocketInput::Opened(ConnectAttempt { token, connection: Ok(connection) }) => {
                self.token = token;
                self.link = SocketState::Up(connection);
                self.session.handle_connected(now);
            }
            SocketInput::Opened(ConnectAttempt { token, connection: Err(ended) }) => {
                self.token = token;
                self.link = SocketState::Down;
                self.session.handle_disconnected(now, ended);
            }
            SocketInput::Ended(ended) => {
                self.link = SocketState::Down;
                self.session.handle_disconnected(now, ended);
            }
        }
    }

    fn handle_command(&mut self, command: HandleCommand) {
        let now = Instant::now();
        match command {
            HandleCommand::Send { message, outcome } => {
                let client_message_id = message.client_message_id;
                let queued = self.session.send(now, message);
                self.await_outcome(client_message_id, queued, outcome);
            }
            HandleCommand::Update { update, outcome } => {
                let client_message_id = update.client_message_id;
                let queued = self.session.update(now, update);
                self.await_outcome(client_message_id, queued, outcome);
            }
            HandleCommand::MarkRead { chat_id, sequence } => self.session.mark_read(now, chat_id, sequence),
            HandleCommand::Typing { chat_id, is_typing } => self.session.typing(now, chat_id, is_typing),
            HandleCommand::Watch { user_ids } => self.session.watch(now, &user_ids),
            HandleCommand::Unwatch { user_ids } => self.session.unwatch(now, &user_ids),
            HandleCommand::Close { done } => {
                self.note_stored();
                self.closers.push(done);
                self.session.close(now);
            }
        }
    }

    fn await_outcome(
        &mut self,
        client_message_id: ClientMessageId,
        queued: Result<(), QueueFull>,
        outcome: OutcomeSender,
    ) {
        match queued {
            Ok(()) => drop(self.outcomes.insert(client_message_id, outcome)),
            // The caller may have dropped the future.
            Err(full) => drop(outcome.send(Err(full.into()))),
        }
    }

    fn handle_report(&mut self, report: ErrandResult) {
        let now = Instant::now();
        match report {
            ErrandResult::Renewed(Ok(())) => self.session.handle_token_refreshed(now),
            ErrandResult::Renewed(Err(failure)) => self.session.handle_refresh_failed(now, failure),
            ErrandResult::Chats(_) if self.listing == ChatListing::Outdated => {
                self.listing = ChatListing::UnderWay;
                self.errands.push_back(Errand::ListChats);
            }
            ErrandResult::Chats(chats) => {
                self.listing = ChatListing::Idle;
                for chat in chats {
                    self.session.list(now, chat.chat_id, chat.my_delivered_sequence, chat.head_sequence);
                }
            }
            ErrandResult::Watermark(chat_id, Ok(watermark)) => self.session.track(now, chat_id, watermark),
            ErrandResult::Watermark(chat_id, Err(failure)) => self.session.handle_look_up_failed(now, chat_id, failure),
        }
    }

    fn handle_timeout(&mut self) {
        let now = Instant::now();
        if self.renew_at().is_some_and(|at| now >= at) {
            self.renewal_paused_until = now + RENEWAL_PAUSE;
            self.errands.push_front(Errand::RenewEarly);
        }
        self.session.handle_timeout(now);
    }

    /// When to renew the tokens: before they expire, but not sooner than the pause after the last attempt.
    fn renew_at(&self) -> Option<Instant> {
        self.api.renew_at().map(|at| at.max(self.renewal_paused_until))
    }

    /// Reports to the session the messages and updates that the application has processed.
    fn note_stored(&mut self) {
        let taken = self.taken.entries();
        let now = Instant::now();
        while self.stored < taken
            && let Some((chat_id, sequence)) = self.emitted.pop_front()
        {
            self.stored += 1;
            self.session.stored(now, chat_id, sequence);
        }
    }
}

impl SocketState {
    /// The next input from the socket. Without `may_read` it only writes. Cancel safe.
    async fn next(&mut self, may_read: bool) -> SocketInput {
        match self {
            Self::Down => pending().await,
            Self::Opening(opening) => SocketInput::Opened(opening.await),
            Self::Up(connection) if may_read => match connection.next_text().await {
                Ok(text) => SocketInput::Text(text),
                Err(ended) => SocketInput::Ended(ended),
            },
            Self::Up(connection) => match connection.flush().await {
                Ok(()) => pending().await,
                Err(ended) => SocketInput::Ended(ended),
            },
        }
    }
}

/// Emits the first queued event once the channel has room. Cancel safe.
async fn emit_next(events: &mpsc::Sender<ClientEvent>, queued_events: &mut VecDeque<ClientEvent>) {
    if let (Ok(permit), Some(event)) = (events.reserve().await, queued_events.pop_front()) {
        permit.send(event);
    }
}

async fn open(api: Api) -> ConnectAttempt {
    let token = match api.access_token().await {
        Ok(token) => token,
        Err(error) => {
            let ended = match error {
                ApiError::NotSignedIn | ApiError::Refused { status: 401, .. } => {
                    Ended::Refused { status: 401, retry_after: None }
                }
                _ => Ended::Lost,
            };
            tracing::debug!(%error, "no access token for the handshake");
            return ConnectAttempt { token: String::new(), connection: Err(ended) };
        }
    };
    let connection = RawConnection::connect(api.base_url(), api.device_id(), Credential::Token(&token)).await;
    let connection = connection.map(Box::new).map_err(|error| {
        tracing::debug!(%error, "connection attempt failed");
        match error {
            ConnectError::Refused { status, retry_after } => Ended::Refused { status, retry_after },
            ConnectError::Unwritable | ConnectError::Transport(_) => Ended::Lost,
        }
    });
    ConnectAttempt { token, connection }
}

/// Sets the timer unless it already fires earlier: a reset for every frame costs more than a spurious wake-up.
fn arm(timer: Pin<&mut Sleep>, deadline: Option<Instant>) {
    let deadline = deadline.unwrap_or_else(|| Instant::now() + LONG).into();
    if timer.is_elapsed() || deadline < timer.deadline() {
        timer.reset(deadline);
    }
}
