use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{ChatId, ClientMessageId, Sequence};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use protocol::client::{ClientEvent, ClientSession, Ended, Output, SendBounds};
use protocol::frame::SendMessageAck;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Sleep, sleep_until, timeout};
use tokio_tungstenite::tungstenite::protocol::frame::Utf8Bytes;

use crate::errand::{Errand, Report};
use crate::events::Taken;
use crate::handle::Command;
use crate::{Api, ApiError, ClientHandle, ConnectError, Credential, Events, RawConnection, SendError};

/// Events that wait for the application. While more do, nothing is read from the socket: an application that is too slow
/// is a slow reader to the server, and heals like one.
const EVENTS_LEN_MAX: usize = 1024;
/// Commands that wait for the driver; callers wait beyond that.
const COMMANDS_LEN_MAX: usize = 256;
/// REST calls under way at once.
const ERRANDS_MAX: usize = 4;
/// A goodbye takes no longer.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Between two early renewals of tokens, the second of which is only needed if the first fails.
const RENEWAL_PAUSE: Duration = Duration::from_secs(30);
/// A timer for nothing.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// Starts the task of a session.
pub(crate) fn spawn(
    api: Api,
    send_bounds: SendBounds,
    reconnect_pause: Duration,
    positions: &[(ChatId, Sequence)],
) -> (ClientHandle, Events) {
    let (commands, command_receiver) = mpsc::channel(COMMANDS_LEN_MAX);
    let (events, event_receiver) = mpsc::channel(EVENTS_LEN_MAX);
    let taken = Arc::new(Taken::default());
    let now = Instant::now();
    let mut session = ClientSession::new(now, send_bounds, rand::random()).with_reconnect_pause(reconnect_pause);
    for (chat_id, sequence) in positions {
        session.track(now, *chat_id, *sequence);
    }
    let driver = Driver {
        api,
        session,
        link: Link::Down,
        token: String::new(),
        renewal_paused_until: now,
        errands: VecDeque::new(),
        listing: Listing::Idle,
        running: FuturesUnordered::new(),
        events,
        untold: VecDeque::new(),
        taken: Arc::clone(&taken),
        told: VecDeque::new(),
        stored: 0,
        outcomes: HashMap::new(),
        closers: Vec::new(),
    };
    tokio::spawn(driver.run(command_receiver));
    (ClientHandle::new(commands), taken.events(event_receiver))
}

/// Does what a [`ClientSession`] says: one task, which ends with the session.
struct Driver {
    api: Api,
    session: ClientSession,
    link: Link,
    /// The access token of the last handshake.
    token: String,
    renewal_paused_until: Instant,
    errands: VecDeque<Errand>,
    listing: Listing,
    running: FuturesUnordered<BoxFuture<'static, Report>>,
    events: mpsc::Sender<ClientEvent>,
    /// Events that have no room in the channel yet.
    untold: VecDeque<ClientEvent>,
    taken: Arc<Taken>,
    /// Messages that were told and are not known to be stored, in order.
    told: VecDeque<(ChatId, Sequence)>,
    /// How many messages have left `told`.
    stored: u64,
    outcomes: HashMap<ClientMessageId, oneshot::Sender<Result<SendMessageAck, SendError>>>,
    closers: Vec<oneshot::Sender<()>>,
}

/// A list of chats is good for the connection it was asked for on, and for later ones it is made anew.
#[derive(PartialEq)]
enum Listing {
    Idle,
    UnderWay,
    /// Under way for a connection that is over.
    Outdated,
}

enum Link {
    Down,
    Opening(BoxFuture<'static, Opened>),
    Up(Box<RawConnection>),
}

struct Opened {
    token: String,
    connection: Result<Box<RawConnection>, Ended>,
}

enum FromLink {
    Opened(Opened),
    Text(Utf8Bytes),
    Ended(Ended),
}

impl Driver {
    async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let mut timer = Box::pin(sleep_until(Instant::now().into()));
        loop {
            self.follow_session().await;
            if self.session.is_stopped() && (self.untold.is_empty() || self.events.is_closed()) {
                break;
            }
            while self.running.len() < ERRANDS_MAX
                && let Some(errand) = self.errands.pop_front()
            {
                self.running.push(errand.run(self.api.clone()));
            }
            arm(timer.as_mut(), [self.session.poll_timeout(), self.renew_at()].into_iter().flatten().min());
            let all_told = self.untold.is_empty();
            tokio::select! {
                from_link = self.link.next(all_told) => self.handle_link(from_link),
                Some(command) = commands.recv() => self.handle_command(command),
                () = tell_next(&self.events, &mut self.untold), if !all_told => {}
                () = self.events.closed() => self.session.close(Instant::now()),
                () = self.taken.changed() => {}
                Some(report) = self.running.next(), if !self.running.is_empty() => self.handle_report(report),
                () = timer.as_mut() => self.handle_timeout(),
            }
            self.note_stored();
        }
    }

    /// Does what the session says, until it says nothing more.
    async fn follow_session(&mut self) {
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Connect => self.link = Link::Opening(Box::pin(open(self.api.clone()))),
                Output::Transmit(text) => self.transmit(text),
                Output::Disconnect => {
                    if let Link::Up(mut connection) = std::mem::replace(&mut self.link, Link::Down)
                        && timeout(CLOSE_TIMEOUT, connection.close()).await.is_err()
                    {
                        tracing::debug!("connection dropped without a goodbye");
                    }
                }
                Output::RefreshToken => self.errands.push_front(Errand::Renew { stale: self.token.clone() }),
                Output::ListChats => match self.listing {
                    Listing::Idle => {
                        self.listing = Listing::UnderWay;
                        self.errands.push_back(Errand::ListChats);
                    }
                    Listing::UnderWay | Listing::Outdated => self.listing = Listing::Outdated,
                },
                Output::LookUp(chat_id) => self.errands.push_back(Errand::LookUp(chat_id)),
                Output::Event(event) => self.handle_event(event),
            }
        }
        if self.session.is_stopped() {
            // Whoever waits for an outcome learns that the session is closed.
            self.outcomes.clear();
            for closer in self.closers.drain(..) {
                // Whoever asked for the close may have stopped waiting.
                let _ = closer.send(());
            }
        }
    }

    fn transmit(&mut self, text: String) {
        if let Link::Up(connection) = &mut self.link
            && let Err(error) = connection.send(text)
        {
            // If it was a request, it stays without an answer, and the session leaves the connection for that.
            tracing::warn!(%error, "frame dropped");
        }
    }

    /// Outcomes of sends go to whoever sent them, everything else to the stream of events.
    fn handle_event(&mut self, event: ClientEvent) {
        let (client_message_id, outcome) = match event {
            ClientEvent::Sent(ack) => (ack.client_message_id, Ok(ack)),
            ClientEvent::SendFailed { client_message_id, error, .. } => {
                (client_message_id, Err(SendError::Refused(error)))
            }
            event => return self.tell(event),
        };
        if let Some(sender) = self.outcomes.remove(&client_message_id) {
            // Whoever sent it may not care for the outcome.
            let _ = sender.send(outcome);
        }
    }

    fn tell(&mut self, event: ClientEvent) {
        if let ClientEvent::Message(message) = &event {
            self.told.push_back((message.chat_id, message.sequence));
        }
        match self.events.try_reserve() {
            Ok(permit) if self.untold.is_empty() => permit.send(event),
            _ => self.untold.push_back(event),
        }
    }

    fn handle_link(&mut self, from_link: FromLink) {
        let now = Instant::now();
        match from_link {
            FromLink::Text(text) => self.session.handle_text(now, &text),
            FromLink::Opened(Opened { token, connection: Ok(connection) }) => {
                self.token = token;
                self.link = Link::Up(connection);
                self.session.handle_connected(now);
            }
            FromLink::Opened(Opened { token, connection: Err(ended) }) => {
                self.token = token;
                self.link = Link::Down;
                self.session.handle_disconnected(now, ended);
            }
            FromLink::Ended(ended) => {
                self.link = Link::Down;
                self.session.handle_disconnected(now, ended);
            }
        }
    }

    fn handle_command(&mut self, command: Command) {
        let now = Instant::now();
        match command {
            Command::Send { message, outcome } => {
                let client_message_id = message.client_message_id;
                match self.session.send(now, message) {
                    Ok(()) => drop(self.outcomes.insert(client_message_id, outcome)),
                    // Whoever sent it may not care for the outcome.
                    Err(full) => drop(outcome.send(Err(full.into()))),
                }
            }
            Command::MarkRead { chat_id, sequence } => self.session.mark_read(now, chat_id, sequence),
            Command::Typing { chat_id, is_typing } => self.session.typing(now, chat_id, is_typing),
            Command::Watch { user_ids } => self.session.watch(now, &user_ids),
            Command::Unwatch { user_ids } => self.session.unwatch(now, &user_ids),
            Command::Close { done } => {
                self.note_stored();
                self.closers.push(done);
                self.session.close(now);
            }
        }
    }

    fn handle_report(&mut self, report: Report) {
        let now = Instant::now();
        match report {
            Report::Renewed(Ok(())) => self.session.handle_token_refreshed(now),
            Report::Renewed(Err(failure)) => self.session.handle_refresh_failed(now, failure),
            Report::Chats(_) if self.listing == Listing::Outdated => {
                self.listing = Listing::UnderWay;
                self.errands.push_back(Errand::ListChats);
            }
            Report::Chats(chats) => {
                self.listing = Listing::Idle;
                for chat in chats {
                    self.session.list(now, chat.chat_id, chat.my_delivered_sequence, chat.head_sequence);
                }
            }
            Report::Watermark(chat_id, Ok(watermark)) => self.session.track(now, chat_id, watermark),
            Report::Watermark(chat_id, Err(failure)) => self.session.handle_look_up_failed(now, chat_id, failure),
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

    /// When to renew the tokens, in good time and without haste.
    fn renew_at(&self) -> Option<Instant> {
        self.api.renew_at().map(|at| at.max(self.renewal_paused_until))
    }

    /// Tells the session which messages the application has dealt with.
    fn note_stored(&mut self) {
        let taken = self.taken.messages();
        let now = Instant::now();
        while self.stored < taken
            && let Some((chat_id, sequence)) = self.told.pop_front()
        {
            self.stored += 1;
            self.session.stored(now, chat_id, sequence);
        }
    }
}

impl Link {
    /// What comes next from the socket. Without `may_read` it only writes. Cancelling it loses nothing.
    async fn next(&mut self, may_read: bool) -> FromLink {
        match self {
            Self::Down => pending().await,
            Self::Opening(opening) => FromLink::Opened(opening.await),
            Self::Up(connection) if may_read => match connection.next_text().await {
                Ok(text) => FromLink::Text(text),
                Err(ended) => FromLink::Ended(ended),
            },
            Self::Up(connection) => match connection.flush().await {
                Ok(()) => pending().await,
                Err(ended) => FromLink::Ended(ended),
            },
        }
    }
}

/// Tells the first of the events that wait, once there is room. Cancelling it loses nothing.
async fn tell_next(events: &mpsc::Sender<ClientEvent>, untold: &mut VecDeque<ClientEvent>) {
    if let (Ok(permit), Some(event)) = (events.reserve().await, untold.pop_front()) {
        permit.send(event);
    }
}

async fn open(api: Api) -> Opened {
    let token = match api.access_token().await {
        Ok(token) => token,
        Err(error) => {
            let ended = match error {
                ApiError::NotSignedIn | ApiError::Refused { status: 401, .. } => {
                    Ended::Refused { status: 401, retry_after: None }
                }
                _ => Ended::Lost,
            };
            tracing::debug!(%error, "no token to connect with");
            return Opened { token: String::new(), connection: Err(ended) };
        }
    };
    let connection = RawConnection::connect(api.base_url(), api.device_id(), Credential::Token(&token)).await;
    let connection = connection.map(Box::new).map_err(|error| {
        tracing::debug!(%error, "not connected");
        match error {
            ConnectError::Refused { status, retry_after } => Ended::Refused { status, retry_after },
            ConnectError::Unwritable | ConnectError::Transport(_) => Ended::Lost,
        }
    });
    Opened { token, connection }
}

/// Sets the timer, and leaves it alone if it rings early anyway: setting it anew for every frame costs more than a ring.
fn arm(timer: Pin<&mut Sleep>, deadline: Option<Instant>) {
    let deadline = deadline.unwrap_or_else(|| Instant::now() + LONG).into();
    if timer.is_elapsed() || deadline < timer.deadline() {
        timer.reset(deadline);
    }
}
