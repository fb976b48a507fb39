use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use domain::limits::PRESENCE_USERS_MAX;
use domain::{ChatId, Secret, Sequence, UserId};

use super::ack_schedule::AckSchedule;
use super::acks::Acks;
use super::backoff::{BACKOFF, Random, SERVER_DELAY_MAX, pause_from};
use super::feed::{Feed, FeedEntry};
use super::look_ups::LookUps;
use super::sends::{OutgoingEntry, OutgoingQueue, QueueFull, SendBounds, SendRefused};
use super::syncs::{Question, SyncOutcome, SyncRefused, Syncs};
use super::{ClientEvent, Ended, LookUpFailure, Output, RefreshFailure, StopReason};
use crate::frame::{
    ChatChangeKind, ChatUpdated, ClientFrame, ConnectionClosing, ConnectionEstablished, Inbound, MessageBody, Outbound,
    RequestId, SendMessage, SendMessageAck, ServerFrame, SyncResponse, UpdateMessage,
};
use crate::{CloseReason, ErrorBody, ErrorCode};

/// A signed-in client, across all its connections. Does no I/O, reads no clock and draws its jitter from a given seed.
///
/// ```text
///                    handle_connected          connection_established
///   Connecting ────────────────────► Greeting ────────────────────────► Established
///    ▲  │  ▲                            │ timeout, loss, close            │ silence, no answer,
///    │  │  └─ token refreshed ─ Refreshing ◄── token expired ─────────────┤ loss, close
///    │  ▼                                                                 ▼
///    └─ Waiting ◄─────────────────────────────────────────────────────────┤
///                Stopped ◄── revoked, signed out, duplicate, `close` ─────┘
/// ```
///
/// A duplicate is another connection of this device, and the newer one replaces the older. It may be this session's own
/// abandoned handshake, which a stalled server completes when it resumes. Within a minute after an abandoned handshake,
/// the session therefore answers a duplicate with a new connection; after that it assumes another program and stops.
///
/// The driver passes in what happens (`handle_*`) and the application's calls, and executes the outputs of
/// [`poll_output`](Self::poll_output) until there are none. The session keeps the client's duties of the contract:
/// - It sends nothing before `connection_established`.
/// - Sends keep their id and order in a bounded queue until they are acknowledged.
/// - Each message of a tracked chat is handed out exactly once and in order, despite loss, duplication and reordering.
/// - Acks follow the messages that the application has [`stored`](Self::stored).
#[derive(Debug)]
pub struct ClientSession {
    state: ClientSessionState,
    user_id: Option<UserId>,
    chats: BTreeMap<ChatId, TrackedChat>,
    look_ups: LookUps,
    sends: OutgoingQueue,
    syncs: Syncs,
    /// The highest read mark of each chat. Read marks have no reply, so each connection begins by repeating them.
    reads: BTreeMap<ChatId, Sequence>,
    /// The users with a presence subscription. A subscription ends with its connection, so each connection begins by
    /// repeating it.
    watched: BTreeSet<UserId>,
    /// Connections that failed in a row.
    failures: u32,
    /// The delay after the first failure.
    reconnect_pause: Duration,
    /// Whether the token was refreshed since the last established connection; a second refresh would not help.
    refreshed: bool,
    /// When a handshake was last abandoned.
    abandoned_at: Option<Instant>,
    /// The server's announcement of a close.
    closing: Option<ConnectionClosing>,
    random: Random,
    outputs: VecDeque<Output>,
}

#[derive(Debug)]
enum ClientSessionState {
    PendingChange { until: Instant },
    Refreshing,
    Connecting { deadline: Instant },
    Greeting { deadline: Instant },
    Established(ConnectionTimers),
    Stopped,
}

/// The timers of an established connection.
#[derive(Debug)]
struct ConnectionTimers {
    heartbeat_interval: Duration,
    last_heard: Instant,
    last_sent: Instant,
    last_beat: Instant,
    /// When to check for a request that has timed out. It is not updated for every request; the check computes the next
    /// time.
    requests_checked_at: Option<Instant>,
    acks: AckSchedule,
}

#[derive(Debug)]
struct TrackedChat {
    feed: Feed,
    acks: Acks,
}

impl TrackedChat {
    fn at(watermark: Sequence) -> Self {
        Self { feed: Feed::new(watermark), acks: Acks::new(watermark) }
    }

    /// A chat that starts at the user's delivered watermark, or before the first message that was pushed to this device
    /// while the chat was not tracked: another device may have acknowledged that message since, but this one has yet to
    /// hand it out.
    fn heard_of(watermark: Sequence, heard: Option<Sequence>) -> Self {
        Self::at(heard.map_or(watermark, |heard| watermark.min(Sequence(heard.0.saturating_sub(1)))))
    }

    fn ack_due(&self) -> Option<Sequence> {
        self.acks.due(self.feed.watermark())
    }
}

impl ClientSession {
    /// Timeout of a connection attempt, and of the wait for `connection_established`.
    const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
    /// Time within which a server may still complete an abandoned handshake.
    const ABANDONED_HANDSHAKE_MAX: Duration = Duration::from_secs(60);
    /// Timeout of a request; after it the connection counts as broken.
    const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
    /// Heartbeat intervals without a frame after which the server counts as unreachable.
    const SILENT_INTERVALS_MAX: u32 = 3;
    /// Accepted range of the announced heartbeat interval.
    const HEARTBEAT_INTERVALS: std::ops::RangeInclusive<Duration> =
        Duration::from_millis(100)..=Duration::from_secs(60);

    /// A session that connects at `now`. `seed` determines its jitter.
    pub fn new(now: Instant, bounds: SendBounds, seed: u64) -> Self {
        let mut session = Self {
            state: ClientSessionState::Stopped,
            user_id: None,
            chats: BTreeMap::new(),
            look_ups: LookUps::default(),
            sends: OutgoingQueue::new(bounds),
            syncs: Syncs::default(),
            reads: BTreeMap::new(),
            watched: BTreeSet::new(),
            failures: 0,
            reconnect_pause: BACKOFF.first,
            refreshed: false,
            abandoned_at: None,
            closing: None,
            random: Random::new(seed),
            outputs: VecDeque::new(),
        };
        session.connect(now);
        session
    }

    /// Sets the initial reconnect delay, instead of the contract's 1 s. It doubles as before.
    #[must_use]
    pub fn with_reconnect_pause(self, reconnect_pause: Duration) -> Self {
        Self { reconnect_pause, ..self }
    }

    /// The next output, in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called, if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let of_state = match &self.state {
            ClientSessionState::PendingChange { until: at }
            | ClientSessionState::Connecting { deadline: at }
            | ClientSessionState::Greeting { deadline: at } => Some(*at),
            ClientSessionState::Established(link) => {
                let pauses = [self.sends.poll_timeout(), self.syncs.poll_timeout()];
                link.deadlines().chain(pauses.into_iter().flatten()).min()
            }
            ClientSessionState::Refreshing => None,
            ClientSessionState::Stopped => return None,
        };
        [of_state, self.look_ups.poll_timeout()].into_iter().flatten().min()
    }

    /// The sequence up to which nothing of a tracked chat is missing.
    pub fn watermark(&self, chat_id: ChatId) -> Option<Sequence> {
        self.chats.get(&chat_id).map(|chat| chat.feed.watermark())
    }

    /// Whether the session is over.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, ClientSessionState::Stopped)
    }
}

/// Calls of the application.
impl ClientSession {
    /// Tracks a chat: hands out its messages after `watermark`. A chat that is already tracked keeps its watermark.
    pub fn track(&mut self, now: Instant, chat_id: ChatId, watermark: Sequence) {
        let heard = self.look_ups.end(chat_id);
        self.chats.entry(chat_id).or_insert_with(|| TrackedChat::heard_of(watermark, heard));
        self.syncs.want(chat_id);
        self.pump(now);
    }

    /// Takes a chat from a list that was requested on this connection, and tracks it if it is new. A new chat is synced
    /// unless nothing was missed: the head equals the user's watermark, and no push arrived while the chat was not
    /// tracked.
    pub fn list(&mut self, now: Instant, chat_id: ChatId, watermark: Sequence, head: Sequence) {
        if self.chats.contains_key(&chat_id) {
            return;
        }
        let heard = self.look_ups.end(chat_id);
        self.chats.insert(chat_id, TrackedChat::heard_of(watermark, heard));
        if heard.is_some() || head > watermark {
            self.syncs.want(chat_id);
            self.pump(now);
        }
    }

    /// Looks up a chat of the user's if it is not tracked yet; `heard` is the sequence of a pushed message.
    fn discover(&mut self, chat_id: ChatId, heard: Sequence) {
        if !self.chats.contains_key(&chat_id) && self.look_ups.begin(chat_id, heard) {
            self.outputs.push_back(Output::LookUp(chat_id));
        }
    }

    /// Sends a message as soon as there is a connection, and retries until it is acknowledged or refused permanently.
    pub fn send(&mut self, now: Instant, message: SendMessage) -> Result<(), QueueFull> {
        self.sends.push(OutgoingEntry::Message(message))?;
        self.pump(now);
        Ok(())
    }

    /// Updates a message, queued and retried as by [`send`](Self::send) and in one order with it.
    pub fn update(&mut self, now: Instant, update: UpdateMessage) -> Result<(), QueueFull> {
        self.sends.push(OutgoingEntry::Update(update))?;
        self.pump(now);
        Ok(())
    }

    /// Marks all messages up to `sequence` as read.
    pub fn mark_read(&mut self, now: Instant, chat_id: ChatId, sequence: Sequence) {
        let known = self.reads.entry(chat_id).or_insert(Sequence::ZERO);
        if sequence > *known {
            *known = sequence;
            self.transmit(now, None, ClientFrame::MarkRead { chat_id, sequence });
        }
    }

    /// Announces that the user is typing, or has stopped. Dropped while there is no connection.
    pub fn typing(&mut self, now: Instant, chat_id: ChatId, is_typing: bool) {
        self.transmit(now, None, ClientFrame::Typing { chat_id, is_typing });
    }

    /// Subscribes to the presence of users, on this connection and all later ones.
    pub fn watch(&mut self, now: Instant, user_ids: &[UserId]) {
        let new: Vec<UserId> = user_ids.iter().copied().filter(|user_id| self.watched.insert(*user_id)).collect();
        self.subscribe(now, &new);
    }

    /// Ends presence subscriptions.
    pub fn unwatch(&mut self, now: Instant, user_ids: &[UserId]) {
        let gone: Vec<UserId> = user_ids.iter().copied().filter(|user_id| self.watched.remove(user_id)).collect();
        for user_ids in gone.chunks(PRESENCE_USERS_MAX) {
            self.transmit(now, None, ClientFrame::PresenceUnsubscribe { user_ids: user_ids.to_vec() });
        }
    }

    /// Records that the application has stored this message and all before it; they are acknowledged soon.
    pub fn stored(&mut self, now: Instant, chat_id: ChatId, sequence: Sequence) {
        let Some(chat) = self.chats.get_mut(&chat_id) else { return };
        chat.acks.store(sequence);
        if chat.acks.is_batch(chat.feed.watermark()) {
            self.ack(now, chat_id);
        } else if chat.ack_due().is_some()
            && let ClientSessionState::Established(link) = &mut self.state
        {
            link.acks.stored(now, chat_id);
        }
    }

    /// Acknowledges the stored messages and ends the session. Sends without an acknowledgement by then are dropped.
    pub fn close(&mut self, now: Instant) {
        self.flush_acks(now);
        match self.state {
            ClientSessionState::Stopped => return,
            ClientSessionState::Connecting { .. }
            | ClientSessionState::Greeting { .. }
            | ClientSessionState::Established(_) => {
                self.outputs.push_back(Output::Disconnect);
            }
            ClientSessionState::PendingChange { .. } | ClientSessionState::Refreshing => {}
        }
        self.stop(StopReason::Closed);
    }
}

/// Inputs about the connection.
impl ClientSession {
    /// The WebSocket is open.
    pub fn handle_connected(&mut self, now: Instant) {
        if let ClientSessionState::Connecting { .. } = self.state {
            self.state = ClientSessionState::Greeting { deadline: now + Self::CONNECT_TIMEOUT };
        }
    }

    /// The WebSocket is closed, or could not be opened.
    pub fn handle_disconnected(&mut self, now: Instant, ended: Ended) {
        match self.state {
            ClientSessionState::Connecting { .. }
            | ClientSessionState::Greeting { .. }
            | ClientSessionState::Established(_) => self.lose(now, ended),
            ClientSessionState::PendingChange { .. } | ClientSessionState::Refreshing | ClientSessionState::Stopped => {
            }
        }
    }

    /// There is a new access token.
    pub fn handle_token_refreshed(&mut self, now: Instant) {
        if let ClientSessionState::Refreshing = self.state {
            self.connect(now);
        }
    }

    /// Renews the authentication of an established connection with a new token of the session, so that it stays open when
    /// the last one expires. Returns whether there is one. A server that refuses or does not know the frame closes the
    /// connection at the expiry, and the session reconnects.
    pub fn reauth(&mut self, now: Instant, token: Secret) -> bool {
        let is_established = matches!(self.state, ClientSessionState::Established(_));
        self.transmit(now, RequestId::new(REAUTH), ClientFrame::Reauth { token });
        is_established
    }

    /// There is no new access token.
    pub fn handle_refresh_failed(&mut self, now: Instant, failure: RefreshFailure) {
        match (&self.state, failure) {
            (ClientSessionState::Refreshing, RefreshFailure::Refused) => self.stop(StopReason::SignedOut),
            (ClientSessionState::Refreshing, RefreshFailure::Unreachable) => {
                // The next handshake will be refused like the last one, which triggers another refresh.
                self.refreshed = false;
                self.wait(now, Duration::ZERO);
            }
            _ => {}
        }
    }

    /// A chat could not be looked up.
    pub fn handle_look_up_failed(&mut self, now: Instant, chat_id: ChatId, failure: LookUpFailure) {
        match failure {
            LookUpFailure::Gone => {
                self.look_ups.end(chat_id);
            }
            LookUpFailure::Unreachable => self.look_ups.postpone(now, chat_id, &mut self.random),
        }
    }

    /// Must be called at the time of [`poll_timeout`](Self::poll_timeout).
    pub fn handle_timeout(&mut self, now: Instant) {
        match &self.state {
            ClientSessionState::PendingChange { until } if now >= *until => self.connect(now),
            ClientSessionState::Connecting { deadline } | ClientSessionState::Greeting { deadline }
                if now >= *deadline =>
            {
                self.abandon(now, Ended::Lost)
            }
            ClientSessionState::Established(_) => self.tick(now),
            _ => {}
        }
        while let Some(chat_id) = self.look_ups.next_due(now) {
            self.outputs.push_back(Output::LookUp(chat_id));
        }
    }

    fn tick(&mut self, now: Instant) {
        let oldest_request = [self.sends.oldest_in_flight(), self.syncs.oldest_in_flight()].into_iter().flatten().min();
        let ClientSessionState::Established(link) = &mut self.state else { return };
        let unanswered = oldest_request.is_some_and(|sent_at| now >= sent_at + Self::REQUEST_TIMEOUT);
        if unanswered || now >= link.silent_at() {
            return self.abandon(now, Ended::Lost);
        }
        link.requests_checked_at = oldest_request.map(|sent_at| sent_at + Self::REQUEST_TIMEOUT);
        let acks_due = link.acks.take_due(now);
        if now >= link.beat_at() {
            link.last_beat = now;
            self.transmit(now, None, ClientFrame::Heartbeat);
        }
        for chat_id in acks_due {
            self.ack(now, chat_id);
        }
        self.pump(now);
    }

    fn connect(&mut self, now: Instant) {
        self.closing = None;
        self.state = ClientSessionState::Connecting { deadline: now + Self::CONNECT_TIMEOUT };
        self.outputs.push_back(Output::Connect);
    }

    /// Abandons a connection that does not work, or no longer works.
    fn abandon(&mut self, now: Instant, ended: Ended) {
        self.outputs.push_back(Output::Disconnect);
        self.lose(now, ended);
    }

    fn lose(&mut self, now: Instant, ended: Ended) {
        self.forget_connection();
        if let (ClientSessionState::Connecting { .. } | ClientSessionState::Greeting { .. }, Ended::Lost) =
            (&self.state, &ended)
        {
            self.abandoned_at = Some(now);
        }
        let may_be_own_handshake = self.abandoned_at.is_some_and(|at| now < at + Self::ABANDONED_HANDSHAKE_MAX);
        let announced = self.closing.take();
        let delay = announced.as_ref().map_or(Duration::ZERO, |c| Duration::from_millis(c.reconnect_delay_ms));
        let reason = match &ended {
            Ended::Closed { code, reason } => CloseReason::from_close_frame(*code, reason),
            Ended::Lost | Ended::Refused { .. } => None,
        };
        let reason = reason.or_else(|| CloseReason::from_text(&announced?.reason));
        match (reason, ended) {
            (Some(CloseReason::SessionRevoked), _) => self.stop(StopReason::SignedOut),
            (Some(CloseReason::DuplicateConnection), _) if may_be_own_handshake => self.wait(now, delay),
            (Some(CloseReason::DuplicateConnection), _) => self.stop(StopReason::DuplicateConnection),
            (Some(CloseReason::TokenExpired), _) | (_, Ended::Refused { status: 401, .. }) => self.refresh(),
            (_, Ended::Refused { retry_after, .. }) => self.wait(now, retry_after.unwrap_or_default()),
            (_, Ended::Lost | Ended::Closed { .. }) => self.wait(now, delay),
        }
    }

    /// Resets the state of requests that were in flight on the connection.
    fn forget_connection(&mut self) {
        self.sends.disconnected();
        self.syncs.disconnected();
        for chat in self.chats.values_mut() {
            chat.acks.forget_unconfirmed();
        }
    }

    fn refresh(&mut self) {
        if std::mem::replace(&mut self.refreshed, true) {
            // The server refused a fresh token, so the session itself is revoked.
            return self.stop(StopReason::SignedOut);
        }
        self.state = ClientSessionState::Refreshing;
        self.outputs.push_back(Output::RefreshToken);
    }

    /// Waits before the next connection: the backoff of the failures so far, and at least the delay that the server
    /// requested.
    fn wait(&mut self, now: Instant, asked: Duration) {
        self.failures = self.failures.saturating_add(1);
        let spread = 1.0 + 0.25 * self.random.unit();
        let asked = asked.min(SERVER_DELAY_MAX).mul_f64(spread);
        let retry_in = pause_from(self.reconnect_pause, self.failures, &mut self.random).max(asked);
        self.state = ClientSessionState::PendingChange { until: now + retry_in };
        self.outputs.push_back(Output::Event(ClientEvent::Disconnected { retry_in }));
    }

    fn stop(&mut self, reason: StopReason) {
        self.state = ClientSessionState::Stopped;
        self.emit(ClientEvent::Stopped(reason));
    }
}

/// Frames of the server.
impl ClientSession {
    /// Takes a text frame of the server. An unreadable frame is ignored, like one of a later version.
    pub fn handle_text(&mut self, now: Instant, text: &str) {
        if let Ok(outbound) = Outbound::parse(text) {
            self.handle_frame(now, outbound);
        }
    }

    /// Takes a parsed frame of the server.
    pub fn handle_frame(&mut self, now: Instant, Outbound { request_id, frame }: Outbound) {
        match (&mut self.state, frame) {
            (ClientSessionState::Greeting { .. }, ServerFrame::ConnectionEstablished(established)) => {
                self.establish(now, established);
            }
            (ClientSessionState::Greeting { .. }, ServerFrame::ConnectionClosing(closing)) => {
                self.closing = Some(closing)
            }
            (ClientSessionState::Established(link), frame) => {
                link.last_heard = now;
                self.handle_established(now, request_id, frame);
                self.pump(now);
            }
            _ => {}
        }
    }

    fn establish(&mut self, now: Instant, established: ConnectionEstablished) {
        let ConnectionEstablished { connection_id, user_id, heartbeat_interval_ms, .. } = established;
        self.user_id = Some(user_id);
        self.failures = 0;
        self.refreshed = false;
        let (shortest, longest) = Self::HEARTBEAT_INTERVALS.into_inner();
        let mut acks = AckSchedule::default();
        for (chat_id, _) in self.chats.iter().filter(|(_, chat)| chat.ack_due().is_some()) {
            acks.repeat(now, *chat_id);
        }
        self.state = ClientSessionState::Established(ConnectionTimers {
            heartbeat_interval: Duration::from_millis(heartbeat_interval_ms).clamp(shortest, longest),
            last_heard: now,
            last_sent: now,
            last_beat: now,
            requests_checked_at: None,
            acks,
        });
        self.outputs.push_back(Output::Event(ClientEvent::Connected { connection_id, user_id }));
        self.outputs.push_back(Output::ListChats);
        for (chat_id, sequence) in self.reads.clone() {
            self.transmit(now, None, ClientFrame::MarkRead { chat_id, sequence });
        }
        self.subscribe(now, &self.watched.iter().copied().collect::<Vec<_>>());
        self.want_every_chat();
        self.pump(now);
    }

    fn handle_established(&mut self, now: Instant, request_id: Option<RequestId>, frame: ServerFrame) {
        match frame {
            ServerFrame::SendMessageAck(ack) => self.handle_ack(request_id, ack),
            ServerFrame::Message(message) => self.handle_entry(FeedEntry::Message(message)),
            ServerFrame::MessageUpdated(updated) => self.handle_entry(FeedEntry::Update(updated)),
            ServerFrame::SyncResponse(page) => self.handle_page(now, request_id, page),
            ServerFrame::Error(error) => self.handle_error(now, request_id, error),
            ServerFrame::ChatUpdated(updated) => self.handle_chat_updated(updated),
            ServerFrame::Resync(_) => {
                self.outputs.push_back(Output::ListChats);
                self.want_every_chat();
            }
            ServerFrame::ConnectionClosing(closing) => self.closing = Some(closing),
            ServerFrame::Receipt(receipt) => self.emit(ClientEvent::Receipt(receipt)),
            ServerFrame::MessageExpired(expired) => self.emit(ClientEvent::Expired(expired)),
            ServerFrame::TypingIndicator(typing) => self.emit(ClientEvent::Typing(typing)),
            ServerFrame::PresenceChanged(presence) => self.emit(ClientEvent::Presence(vec![presence])),
            ServerFrame::PresenceSnapshot(snapshot) => self.emit(ClientEvent::Presence(snapshot.presences)),
            ServerFrame::ConnectionEstablished(_)
            | ServerFrame::HeartbeatAck(_)
            | ServerFrame::ReauthAck(_)
            | ServerFrame::Unknown => {}
        }
    }

    /// The connection that sent a message gets no push of it (G8). Its ack and the queued content stand in for the
    /// push.
    fn handle_ack(&mut self, request_id: Option<RequestId>, ack: SendMessageAck) {
        let Some(RequestNumber::Send(order)) = request(request_id) else { return };
        let (Some(entry), Some(sender_id)) = (self.sends.acked(order), self.user_id) else { return };
        // An update is pushed to its own connection too, with the new state of the message.
        let message = match entry {
            OutgoingEntry::Message(send) => Some(MessageBody::acknowledged(send, &ack, sender_id)),
            OutgoingEntry::Update(_) => None,
        };
        self.emit(ClientEvent::Sent(ack));
        if let Some(message) = message {
            self.handle_entry(FeedEntry::Message(message));
        }
    }

    fn handle_entry(&mut self, entry: FeedEntry) {
        let chat_id = entry.chat_id();
        let Some(chat) = self.chats.get_mut(&chat_id) else { return self.discover(chat_id, entry.sequence()) };
        if let Some(entry) = chat.feed.offer(entry) {
            hand_out(&mut self.outputs, chat, entry);
            hand_out_early(&mut self.outputs, chat);
        }
        if chat.feed.has_hole() {
            self.syncs.want(chat_id);
        }
    }

    fn handle_page(&mut self, now: Instant, request_id: Option<RequestId>, page: SyncResponse<'static>) {
        let Some(RequestNumber::Sync(id)) = request(request_id) else { return };
        let Some(Question { chat_id, after, .. }) = self.syncs.answered(id) else { return };
        let Some(chat) = self.chats.get_mut(&chat_id) else { return };
        debug_assert!(after <= chat.feed.watermark(), "a watermark never decreases while a sync is in flight");
        let (has_more, next_sequence, head_sequence) = (page.has_more, page.next_sequence, page.head_sequence);
        let mut last_sent = after;
        for entry in FeedEntry::of_page(page) {
            last_sent = last_sent.max(entry.sequence());
            if let Some(entry) = chat.feed.offer_from_page(entry) {
                hand_out(&mut self.outputs, chat, entry);
            }
        }
        let examined = match (has_more, next_sequence) {
            (false, _) => head_sequence,
            (true, Some(next)) => Sequence(next.0.saturating_sub(1)),
            (true, None) => last_sent,
        };
        chat.feed.prove_empty(examined);
        hand_out_early(&mut self.outputs, chat);
        let outcome = match (has_more || chat.feed.has_hole(), chat.feed.watermark() > after) {
            (false, _) => SyncOutcome::Complete,
            (true, true) => SyncOutcome::More,
            (true, false) => SyncOutcome::Stuck,
        };
        self.syncs.finish(now, chat_id, outcome, &mut self.random);
        // A range proven empty is acknowledged too, although the application stores nothing for it.
        if chat.ack_due().is_some()
            && let ClientSessionState::Established(link) = &mut self.state
        {
            link.acks.proven(now, chat_id);
        }
    }

    fn handle_error(&mut self, now: Instant, request_id: Option<RequestId>, error: ErrorBody) {
        if request_id.as_ref().is_some_and(|request_id| request_id.as_str() == REAUTH) {
            return;
        }
        match request(request_id) {
            Some(RequestNumber::Send(order)) => match self.sends.refused(now, order, &error, &mut self.random) {
                SendRefused::Held | SendRefused::Unknown => {}
                SendRefused::NeedsRefresh => self.abandon(now, TOKEN_REFUSED),
                SendRefused::NeedsReconnect => self.abandon(now, Ended::Lost),
                SendRefused::Failed(entry) => {
                    let (client_message_id, chat_id) = (entry.client_message_id(), entry.chat_id());
                    self.emit(ClientEvent::SendFailed { client_message_id, chat_id, error });
                }
            },
            Some(RequestNumber::Sync(id)) => {
                if let Some(Question { chat_id, .. }) = self.syncs.answered(id) {
                    self.handle_sync_refused(now, chat_id, error);
                }
            }
            // A slow-consumer warning needs no reaction except to keep reading.
            None if error.code == ErrorCode::SlowConsumer => {}
            None => self.emit(ClientEvent::Refused(error)),
        }
    }

    fn handle_sync_refused(&mut self, now: Instant, chat_id: ChatId, error: ErrorBody) {
        let refused = self.syncs.refused(now, chat_id, &error, &mut self.random);
        match (refused, error.code, head_sequence(&error)) {
            (SyncRefused::Paused, ..) => {}
            (SyncRefused::NeedsRefresh, ..) => self.abandon(now, TOKEN_REFUSED),
            (SyncRefused::NeedsReconnect, ..) => self.abandon(now, Ended::Lost),
            (SyncRefused::GivenUp, ErrorCode::InvalidSequence, Some(head_sequence)) => {
                self.chats.insert(chat_id, TrackedChat::at(head_sequence));
                self.reads.remove(&chat_id);
                self.emit(ClientEvent::WatermarkReset { chat_id, head_sequence });
            }
            (SyncRefused::GivenUp, ErrorCode::NotAMember | ErrorCode::NotFound, _) => self.drop_chat(chat_id),
            (SyncRefused::GivenUp, ..) => self.emit(ClientEvent::Refused(error)),
        }
    }

    fn handle_chat_updated(&mut self, updated: ChatUpdated) {
        let ChatUpdated { chat_id, change, user_id } = updated;
        self.emit(ClientEvent::ChatUpdated(updated));
        if change == ChatChangeKind::MemberRemoved && user_id == self.user_id {
            self.drop_chat(chat_id);
        } else {
            // The server announces changes of a chat only to its members, so an unknown chat is one of the user's.
            self.discover(chat_id, Sequence(u64::MAX));
        }
    }

    fn drop_chat(&mut self, chat_id: ChatId) {
        self.look_ups.end(chat_id);
        self.syncs.forget(chat_id);
        self.reads.remove(&chat_id);
        if self.chats.remove(&chat_id).is_some() {
            self.emit(ClientEvent::ChatGone { chat_id });
        }
    }
}

/// Outgoing frames and events.
impl ClientSession {
    /// Sends queued syncs and messages up to the in-flight bounds.
    fn pump(&mut self, now: Instant) {
        let ClientSessionState::Established(link) = &mut self.state else { return };
        let chats = &self.chats;
        let watermark = |chat_id| chats.get(&chat_id).map(|chat| chat.feed.watermark());
        while let Some(text) = self.syncs.next(now, watermark).or_else(|| self.sends.next(now)) {
            link.last_sent = now;
            link.requests_checked_at.get_or_insert(now + Self::REQUEST_TIMEOUT);
            self.outputs.push_back(Output::Transmit(text));
        }
    }

    fn want_every_chat(&mut self) {
        for chat_id in self.chats.keys() {
            self.syncs.want_again(*chat_id);
        }
    }

    fn flush_acks(&mut self, now: Instant) {
        let due: Vec<ChatId> =
            self.chats.iter().filter(|(_, chat)| chat.ack_due().is_some()).map(|(chat_id, _)| *chat_id).collect();
        for chat_id in due {
            self.ack(now, chat_id);
        }
    }

    fn ack(&mut self, now: Instant, chat_id: ChatId) {
        let ClientSessionState::Established(link) = &mut self.state else { return };
        link.acks.remove(chat_id);
        let Some(chat) = self.chats.get_mut(&chat_id) else { return };
        if let Some(sequence) = chat.ack_due() {
            chat.acks.ack(sequence);
            self.transmit(now, None, ClientFrame::Ack { chat_id, sequence });
        }
    }

    /// The reply is reported like any other presence event, so no request is kept for it.
    fn subscribe(&mut self, now: Instant, user_ids: &[UserId]) {
        for user_ids in user_ids.chunks(PRESENCE_USERS_MAX) {
            let frame = ClientFrame::PresenceSubscribe { user_ids: user_ids.to_vec() };
            self.transmit(now, RequestId::new("p"), frame);
        }
    }

    /// Writes a frame for which no reply is awaited, if there is a connection.
    fn transmit(&mut self, now: Instant, request_id: Option<RequestId>, frame: ClientFrame) {
        if let ClientSessionState::Established(link) = &mut self.state {
            link.last_sent = now;
            self.outputs.push_back(Output::Transmit(Inbound { request_id, frame }.encode()));
        }
    }

    fn emit(&mut self, event: ClientEvent) {
        self.outputs.push_back(Output::Event(event));
    }
}

impl ConnectionTimers {
    /// When a heartbeat is due: after one interval without a sent frame, or without both a received frame and a sent
    /// heartbeat.
    fn beat_at(&self) -> Instant {
        self.last_sent.min(self.last_heard.max(self.last_beat)) + self.heartbeat_interval
    }

    fn silent_at(&self) -> Instant {
        self.last_heard + self.heartbeat_interval * ClientSession::SILENT_INTERVALS_MAX
    }

    fn deadlines(&self) -> impl Iterator<Item = Instant> {
        let always = [self.beat_at(), self.silent_at()].into_iter();
        always.chain([self.requests_checked_at, self.acks.next_due()].into_iter().flatten())
    }
}

/// A token that is refused during a connection is handled like one refused in the handshake.
const TOKEN_REFUSED: Ended = Ended::Refused { status: 401, retry_after: None };

/// The request id of a renewed authentication.
const REAUTH: &str = "reauth";

/// A request, parsed from its request id.
enum RequestNumber {
    Send(u64),
    Sync(u64),
}

fn request(request_id: Option<RequestId>) -> Option<RequestNumber> {
    let request_id = request_id?;
    let (kind, number) = request_id.as_str().split_at_checked(1)?;
    let number = number.parse().ok()?;
    match kind {
        "s" => Some(RequestNumber::Send(number)),
        "y" => Some(RequestNumber::Sync(number)),
        _ => None,
    }
}

fn head_sequence(error: &ErrorBody) -> Option<Sequence> {
    error.details.as_ref()?.get("head_sequence")?.as_u64().map(Sequence)
}

fn hand_out(outputs: &mut VecDeque<Output>, chat: &mut TrackedChat, entry: FeedEntry) {
    chat.acks.hand_out(entry.sequence());
    outputs.push_back(Output::Event(match entry {
        FeedEntry::Message(message) => ClientEvent::Message(message),
        FeedEntry::Update(updated) => ClientEvent::Updated(Box::new(updated)),
    }));
}

fn hand_out_early(outputs: &mut VecDeque<Output>, chat: &mut TrackedChat) {
    while let Some(entry) = chat.feed.next_early() {
        hand_out(outputs, chat, entry);
    }
}
