use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use domain::{ChatId, Timestamp, UserId, WatermarkKind};

use crate::advances::{Advances, Move};
use crate::frame::{ClientFrame, FrameError, HeartbeatAck, Inbound, RequestId, Resync, SendMessage, ServerFrame, Sync};
use crate::window::Window;
use crate::{CloseReason, ErrorBody, ErrorCode, Pressure};

/// One client connection, seen from the gateway. Does no I/O and reads no clock.
///
/// ```text
///            frame, reply, push                    Output::Close
///   Open ───────────────────────► Open ──────────► Closed
///     │  violation, silence, slow reader, expiry,    ▲
///     └─ a call of `close` ──────────────────────────┘
/// ```
///
/// The driver feeds it what happens (`handle_*`, [`close`](Self::close)), and does what
/// [`poll_output`](Self::poll_output) says until it says nothing more. Once closed it takes no input and gives no output, except for the
/// answers to commands that were under way: [`drained`](Self::drained) tells when the socket may be closed. The last call
/// is [`handle_end`](Self::handle_end).
#[derive(Debug)]
pub struct Connection {
    timing: Timing,
    state: State,
    last_heard: Instant,
    expires_at: Instant,
    /// When the client was told that it is slow, while it is.
    slow_since: Option<Instant>,
    violations: Window,
    refusals: Window,
    commands_in_flight: usize,
    typing: Vec<(ChatId, Instant)>,
    advances: Advances,
    outputs: VecDeque<Output>,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Open,
    Closed,
}

/// How long a connection waits for what.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Without any inbound frame for this long, the connection is closed.
    pub idle_timeout: Duration,
    /// How long a slow reader has to catch up after being told.
    pub slow_grace: Duration,
    /// Typing stops by itself after this.
    pub typing_timeout: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            idle_timeout: Duration::from_secs(15),
            slow_grace: Duration::from_secs(5),
            typing_timeout: Duration::from_secs(10),
        }
    }
}

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Write this frame.
    Send(Bytes),
    /// Do this, and hand the outcome back: each command ends in one [`Connection::handle_done`],
    /// [`Connection::handle_failure`] or [`Connection::handle_advanced`].
    Command(Command),
    /// Write what is left, then the close frame.
    Close(CloseReason),
}

/// What a client has asked for, to be done by the planes behind the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields have the names and meanings of the frames they come from")]
pub enum Command {
    /// Send a message.
    Send { request_id: RequestId, message: SendMessage },
    /// Read what was missed.
    Sync { request_id: RequestId, sync: Sync },
    /// Move a watermark. It is answered only if it fails, without a request id, and ends in
    /// [`Connection::handle_advanced`].
    Advance(Move),
    /// Tell the others who types.
    Typing { chat_id: ChatId, is_typing: bool },
    /// Tell the presence of these users, now and when it changes.
    PresenceSubscribe { request_id: RequestId, user_ids: Vec<UserId> },
    /// No longer tell.
    PresenceUnsubscribe { user_ids: Vec<UserId> },
    /// A frame type that this version does not know.
    CountUnknown,
}

impl Connection {
    /// Commands that may be under way; while there are so many, no frame is read.
    pub const COMMANDS_IN_FLIGHT_MAX: usize = 64;
    /// Frames answered `INVALID_MESSAGE` within a minute that end the connection.
    const VIOLATIONS_MAX: usize = 10;
    /// Frames answered `RATE_LIMITED` within a minute that end the connection.
    const REFUSALS_MAX: usize = 300;
    /// Chats in which one connection can be typing.
    const TYPING_MAX: usize = 8;

    /// A connection that was opened at `now` with a token that is good until `expires_at`.
    pub fn new(timing: Timing, now: Instant, expires_at: Instant) -> Self {
        let minute = Duration::from_secs(60);
        Self {
            timing,
            state: State::Open,
            last_heard: now,
            expires_at,
            slow_since: None,
            violations: Window::new(Self::VIOLATIONS_MAX, minute),
            refusals: Window::new(Self::REFUSALS_MAX, minute),
            commands_in_flight: 0,
            typing: Vec::new(),
            advances: Advances::default(),
            outputs: VecDeque::new(),
        }
    }

    /// Takes a text frame of the client. `server_time` is for the answer to a heartbeat.
    pub fn handle_text(&mut self, now: Instant, server_time: Timestamp, text: &str) {
        if self.state == State::Closed {
            return;
        }
        self.last_heard = now;
        match Inbound::parse(text) {
            Ok(inbound) => self.handle_frame(now, server_time, inbound),
            Err(error) => self.refuse(now, error),
        }
    }

    /// Takes a binary frame, which nobody may send.
    pub fn handle_binary(&mut self, now: Instant) {
        if self.state == State::Closed {
            return;
        }
        self.last_heard = now;
        let error = ErrorBody::new(ErrorCode::InvalidMessage, "binary frames are not taken; send JSON as text");
        self.refuse(now, FrameError { request_id: None, error });
    }

    /// Takes note of a sign of life below the protocol: a WebSocket ping or pong.
    pub fn handle_alive(&mut self, now: Instant) {
        self.last_heard = now;
    }

    fn handle_frame(&mut self, now: Instant, server_time: Timestamp, inbound: Inbound) {
        let Inbound { request_id, frame } = inbound;
        let command = match (frame, request_id) {
            (ClientFrame::SendMessage(message), Some(request_id)) => {
                // Whoever sends has stopped typing; the recipients see that by the message.
                self.typing.retain(|(chat_id, _)| *chat_id != message.chat_id);
                Command::Send { request_id, message }
            }
            (ClientFrame::SyncRequest(sync), Some(request_id)) => Command::Sync { request_id, sync },
            (ClientFrame::PresenceSubscribe { user_ids }, Some(request_id)) => {
                Command::PresenceSubscribe { request_id, user_ids }
            }
            (ClientFrame::PresenceUnsubscribe { user_ids }, _) => Command::PresenceUnsubscribe { user_ids },
            (ClientFrame::Ack { chat_id, sequence }, _) => {
                return self.advance(now, Move { chat_id, kind: WatermarkKind::Delivered, sequence });
            }
            (ClientFrame::MarkRead { chat_id, sequence }, _) => {
                return self.advance(now, Move { chat_id, kind: WatermarkKind::Read, sequence });
            }
            (ClientFrame::Typing { chat_id, is_typing }, _) => {
                self.note_typing(now, chat_id, is_typing);
                Command::Typing { chat_id, is_typing }
            }
            (ClientFrame::Heartbeat, request_id) => {
                let ack = ServerFrame::HeartbeatAck(HeartbeatAck { server_time });
                self.outputs.push_back(Output::Send(ack.encode(request_id.as_ref())));
                return;
            }
            (ClientFrame::Unknown, _) => Command::CountUnknown,
            (
                ClientFrame::SendMessage(_) | ClientFrame::SyncRequest(_) | ClientFrame::PresenceSubscribe { .. },
                None,
            ) => unreachable!("the parser requires their request_id"),
        };
        self.command(command);
    }

    fn command(&mut self, command: Command) {
        self.commands_in_flight += 1;
        self.outputs.push_back(Output::Command(command));
    }

    fn advance(&mut self, now: Instant, moved: Move) {
        if let Some(moved) = self.advances.take(now, moved) {
            self.command(Command::Advance(moved));
        }
    }

    fn advance_those_due(&mut self, now: Instant) {
        while let Some(moved) = self.advances.poll(now) {
            self.command(Command::Advance(moved));
        }
    }

    fn note_typing(&mut self, now: Instant, chat_id: ChatId, is_typing: bool) {
        self.typing.retain(|(typing_in, _)| *typing_in != chat_id);
        if is_typing && self.typing.len() < Self::TYPING_MAX {
            self.typing.push((chat_id, now + self.timing.typing_timeout));
        }
    }

    fn refuse(&mut self, now: Instant, FrameError { request_id, error }: FrameError) {
        let violation = error.code == ErrorCode::InvalidMessage;
        self.outputs.push_back(Output::Send(ServerFrame::Error(error).encode(request_id.as_ref())));
        if violation && self.violations.hit(now) {
            self.close(CloseReason::ProtocolError);
        }
    }

    /// Takes the outcome of a command: the answer, encoded with its request id, or nothing for one without.
    pub fn handle_done(&mut self, answer: Option<Bytes>) {
        self.commands_in_flight -= 1;
        self.outputs.extend(answer.map(Output::Send));
    }

    /// Takes the failure of a command, which is its outcome.
    pub fn handle_failure(&mut self, now: Instant, request_id: Option<&RequestId>, error: ErrorBody) {
        self.commands_in_flight -= 1;
        let refused = error.code == ErrorCode::RateLimited;
        self.outputs.push_back(Output::Send(ServerFrame::Error(error).encode(request_id)));
        if refused && self.refusals.hit(now) {
            self.close(CloseReason::RateLimited);
        }
    }

    /// Takes the outcome of moving a watermark.
    pub fn handle_advanced(&mut self, now: Instant, moved: &Move, outcome: Result<(), ErrorBody>) {
        self.advances.handle_outcome(now, moved, outcome.is_ok());
        match outcome {
            Ok(()) => self.handle_done(None),
            Err(error) => self.handle_failure(now, None, error),
        }
        self.advance_those_due(now);
    }

    /// Takes note of how full the outbox is. Near its bound, the client is told once and has some time (G9).
    pub fn handle_pressure(&mut self, now: Instant, pressure: Pressure) {
        match (pressure, self.slow_since) {
            (Pressure::Easy, _) => self.slow_since = None,
            (Pressure::Near, Some(_)) => {}
            (Pressure::Near, None) if self.state == State::Open => {
                self.slow_since = Some(now);
                let error = ErrorBody::new(
                    ErrorCode::SlowConsumer,
                    "pushes are waiting to be read; the connection closes in 5 s unless they are",
                );
                self.outputs.push_back(Output::Send(ServerFrame::Error(error).encode(None)));
            }
            (Pressure::Near, None) => {}
        }
    }

    /// Tells the client that pushes were dropped and every chat is to be synced.
    pub fn handle_missed(&mut self) {
        if self.state == State::Open {
            let resync = ServerFrame::Resync(Resync { reason: "slow_consumer".to_owned() });
            self.outputs.push_back(Output::Send(resync.encode(None)));
        }
    }

    /// Takes note that the time of [`poll_timeout`](Self::poll_timeout) has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.state == State::Closed {
            return;
        }
        if now >= self.expires_at {
            self.close(CloseReason::TokenExpired);
        } else if now >= self.last_heard + self.timing.idle_timeout {
            self.close(CloseReason::IdleTimeout);
        } else if self.slow_since.is_some_and(|since| now >= since + self.timing.slow_grace) {
            self.close(CloseReason::SlowConsumer);
        }
        let ended: Vec<_> = self.typing.extract_if(.., |(_, until)| now >= *until).collect();
        for (chat_id, _) in ended {
            self.command(Command::Typing { chat_id, is_typing: false });
        }
        self.advance_those_due(now);
    }

    /// Ends the connection. What is under way is still answered.
    pub fn close(&mut self, reason: CloseReason) {
        if self.state == State::Open {
            self.state = State::Closed;
            let closing = ServerFrame::ConnectionClosing(reason.closing_frame());
            self.outputs.push_back(Output::Send(closing.encode(None)));
            self.outputs.push_back(Output::Close(reason));
        }
    }

    /// Takes note that nothing more will come of the connection, whether it was closed or its socket is gone: whoever was
    /// typing on it has stopped, and watermarks are where it moved them last.
    pub fn handle_end(&mut self) {
        self.state = State::Closed;
        for (chat_id, _) in std::mem::take(&mut self.typing) {
            self.command(Command::Typing { chat_id, is_typing: false });
        }
        for moved in self.advances.finish() {
            self.command(Command::Advance(moved));
        }
    }

    /// The next thing to do, in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called, if nothing happens before.
    pub fn poll_timeout(&self) -> Instant {
        let idle = self.last_heard + self.timing.idle_timeout;
        let slow = self.slow_since.map(|since| since + self.timing.slow_grace);
        let typing = self.typing.iter().map(|(_, until)| *until).min();
        [Some(self.expires_at), slow, typing, self.advances.poll_timeout()]
            .into_iter()
            .flatten()
            .fold(idle, Instant::min)
    }

    /// Whether it has not been closed.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// The pressure it has last been told of.
    pub fn pressure(&self) -> Pressure {
        if self.slow_since.is_some() { Pressure::Near } else { Pressure::Easy }
    }

    /// Whether the next frame may be read from the socket.
    pub fn wants_frame(&self) -> bool {
        self.state == State::Open && self.commands_in_flight < Self::COMMANDS_IN_FLIGHT_MAX && !self.advances.is_full()
    }

    /// Whether every command under way has come to its end.
    pub fn drained(&self) -> bool {
        self.commands_in_flight == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frame::Outbound;

    const SYNC: &str = r#"{"type":"sync_request","request_id":"r1","payload":{"chat_id":"chat_01ARZ3NDEKTSV4RRFFQ69G5FAV","last_acked_sequence":0}}"#;
    const TYPING: &str = r#"{"type":"typing_start","payload":{"chat_id":"chat_01ARZ3NDEKTSV4RRFFQ69G5FAV"}}"#;

    struct Driver {
        connection: Connection,
        start: Instant,
    }

    impl Driver {
        fn new() -> Self {
            let start = Instant::now();
            Self { connection: Connection::new(Timing::default(), start, start + Duration::from_secs(3600)), start }
        }

        fn at(&self, seconds: u64) -> Instant {
            self.start + Duration::from_secs(seconds)
        }

        fn text(&mut self, seconds: u64, text: &str) -> Vec<String> {
            self.connection.handle_text(self.at(seconds), Timestamp::default(), text);
            self.outputs()
        }

        fn timeout(&mut self, seconds: u64) -> Vec<String> {
            self.connection.handle_timeout(self.at(seconds));
            self.outputs()
        }

        /// What came out, in short: frame types and error codes, commands, closes.
        fn outputs(&mut self) -> Vec<String> {
            std::iter::from_fn(|| self.connection.poll_output())
                .map(|output| match output {
                    Output::Send(bytes) => match Outbound::parse(std::str::from_utf8(&bytes).unwrap()).unwrap().frame {
                        ServerFrame::Error(error) => error.code.to_string(),
                        ServerFrame::ConnectionClosing(closing) => format!("closing {}", closing.reason),
                        ServerFrame::HeartbeatAck(_) => "heartbeat_ack".to_owned(),
                        ServerFrame::Resync(_) => "resync".to_owned(),
                        other => format!("{other:?}"),
                    },
                    Output::Command(Command::Sync { .. }) => "sync".to_owned(),
                    Output::Command(Command::Typing { is_typing, .. }) => format!("typing {is_typing}"),
                    Output::Command(command) => format!("{command:?}"),
                    Output::Close(reason) => format!("close {}", reason.code()),
                })
                .collect()
        }
    }

    #[test]
    fn silence_for_fifteen_seconds_closes_with_4008_and_any_frame_counts_as_life() {
        let mut driver = Driver::new();
        assert_eq!(driver.text(10, r#"{"type":"heartbeat"}"#), ["heartbeat_ack"]);
        assert_eq!(driver.timeout(24), [""; 0]);
        assert_eq!(driver.connection.poll_timeout(), driver.at(25));
        assert_eq!(driver.timeout(25), ["closing idle_timeout", "close 4008"]);
        assert_eq!(driver.text(25, SYNC), [""; 0], "a closed connection takes nothing");
    }

    #[test]
    fn ten_invalid_frames_within_a_minute_close_with_1002() {
        let mut driver = Driver::new();
        for n in 0..9 {
            assert_eq!(driver.text(n, "{"), ["INVALID_MESSAGE"]);
        }
        assert_eq!(driver.text(9, "{"), ["INVALID_MESSAGE", "closing protocol_error", "close 1002"]);
    }

    #[test]
    fn nine_invalid_frames_a_minute_are_borne_for_ever() {
        let mut driver = Driver::new();
        for n in 0..100 {
            assert_eq!(driver.text(n * 7, "{"), ["INVALID_MESSAGE"], "frame {n}");
        }
    }

    #[test]
    fn a_binary_frame_is_an_invalid_message() {
        let mut driver = Driver::new();
        driver.connection.handle_binary(driver.start);
        assert_eq!(driver.outputs(), ["INVALID_MESSAGE"]);
    }

    #[test]
    fn g9_a_slow_reader_is_told_once_then_cut_after_five_seconds() {
        let mut driver = Driver::new();
        let told = driver.at(1);
        driver.connection.handle_pressure(told, Pressure::Near);
        driver.connection.handle_pressure(told, Pressure::Near);
        assert_eq!(driver.outputs(), ["SLOW_CONSUMER"]);
        assert_eq!(driver.connection.poll_timeout(), driver.at(6));
        assert_eq!(driver.timeout(6), ["closing slow_consumer", "close 4029"]);
    }

    #[test]
    fn g9_a_reader_that_catches_up_stays() {
        let mut driver = Driver::new();
        driver.connection.handle_pressure(driver.start, Pressure::Near);
        driver.connection.handle_pressure(driver.at(4), Pressure::Easy);
        driver.connection.handle_missed();
        assert_eq!(driver.outputs(), ["SLOW_CONSUMER", "resync"]);
        assert_eq!(driver.timeout(6), [""; 0]);
    }

    #[test]
    fn an_expired_token_closes_with_4001() {
        let mut driver = Driver::new();
        driver.connection.handle_alive(driver.at(3599));
        assert_eq!(driver.timeout(3600), ["closing token_expired", "close 4001"]);
    }

    #[test]
    fn typing_stops_by_itself_after_ten_seconds() {
        let mut driver = Driver::new();
        assert_eq!(driver.text(0, TYPING), ["typing true"]);
        assert_eq!(driver.connection.poll_timeout(), driver.at(10));
        assert_eq!(driver.timeout(10), ["typing false"]);
        assert_eq!(driver.connection.poll_timeout(), driver.at(15), "once");
    }

    #[test]
    fn typing_stops_with_the_connection_and_once() {
        let mut driver = Driver::new();
        assert_eq!(driver.text(0, TYPING), ["typing true"]);
        driver.connection.handle_end();
        assert_eq!(driver.outputs(), ["typing false"]);
        driver.connection.handle_end();
        assert_eq!((driver.outputs(), driver.timeout(10)), (vec![], vec![]));
    }

    #[test]
    fn acks_that_come_one_upon_another_move_the_watermark_once_more_and_every_refusal_is_told() {
        let mut driver = Driver::new();
        let ack = |n: u64| {
            format!(
                r#"{{"type":"ack","payload":{{"chat_id":"chat_01ARZ3NDEKTSV4RRFFQ69G5FAV","last_acked_sequence":{n}}}}}"#
            )
        };
        let made = |outputs: Vec<Output>| -> Vec<Move> {
            let made = |output| match output {
                Output::Command(Command::Advance(moved)) => moved,
                other => panic!("{other:?}"),
            };
            outputs.into_iter().map(made).collect()
        };
        let take = |driver: &mut Driver| std::iter::from_fn(|| driver.connection.poll_output()).collect::<Vec<_>>();
        for n in [1, 2, 3, 99] {
            driver.connection.handle_text(driver.start, Timestamp::default(), &ack(n));
        }
        let [first] = made(take(&mut driver))[..] else { panic!("one is made at once") };
        assert_eq!(first.sequence.0, 1);
        driver.connection.handle_advanced(driver.start, &first, Ok(()));
        let due = driver.connection.poll_timeout();
        assert!(due > driver.start && due < driver.at(1), "the next is due in a moment");
        driver.connection.handle_timeout(due);
        let [highest] = made(take(&mut driver))[..] else { panic!("one for all that waited") };
        assert_eq!(highest.sequence.0, 99);
        let refused = ErrorBody::new(ErrorCode::InvalidSequence, "above the head");
        driver.connection.handle_advanced(due, &highest, Err(refused));
        let mut outputs = take(&mut driver);
        assert!(matches!(outputs.remove(0), Output::Send(_)), "the refusal");
        let [next] = made(outputs)[..] else { panic!("those below it are made") };
        assert_eq!(next.sequence.0, 3);
        driver.connection.handle_text(due, Timestamp::default(), &ack(4));
        driver.connection.handle_end();
        let waited = made(take(&mut driver));
        assert_eq!(waited.iter().map(|moved| moved.sequence.0).collect::<Vec<_>>(), [2, 4], "none is lost at the end");
        for moved in [next].iter().chain(&waited) {
            assert!(!driver.connection.drained());
            driver.connection.handle_advanced(due, moved, Ok(()));
        }
        assert!(driver.connection.drained());
    }

    #[test]
    fn no_frame_is_read_while_sixty_four_commands_are_under_way() {
        let mut driver = Driver::new();
        for _ in 0..Connection::COMMANDS_IN_FLIGHT_MAX {
            assert!(driver.connection.wants_frame());
            driver.text(0, SYNC);
        }
        assert!(!driver.connection.wants_frame());
        driver.connection.handle_failure(
            driver.start,
            RequestId::new("r1").as_ref(),
            ErrorBody::new(ErrorCode::ServerBusy, "later"),
        );
        assert!(driver.connection.wants_frame());
    }

    #[test]
    fn g5_what_is_under_way_is_answered_after_the_close() {
        let mut driver = Driver::new();
        driver.text(0, SYNC);
        driver.connection.close(CloseReason::ServerShutdown);
        assert_eq!(driver.outputs(), ["closing server_shutdown", "close 1001"]);
        assert!(!driver.connection.drained());
        driver.connection.handle_done(Some(ServerFrame::Resync(Resync { reason: String::new() }).encode(None)));
        assert_eq!(driver.outputs(), ["resync"]);
        assert!(driver.connection.drained());
    }

    #[test]
    fn a_client_that_goes_on_after_three_hundred_refusals_is_cut() {
        let mut driver = Driver::new();
        let error = ErrorBody::new(ErrorCode::RateLimited, "slow down");
        for _ in 0..300 {
            driver.text(0, TYPING);
            driver.connection.handle_failure(driver.start, None, error.clone());
        }
        assert_eq!(driver.outputs().split_off(1), ["closing rate_limited", "close 4029"]);
    }

    proptest! {
        #[test]
        fn any_sequence_of_texts_ends_in_answers_or_a_close(texts in proptest::collection::vec(".{0,80}", 0..30)) {
            let mut driver = Driver::new();
            for text in texts {
                driver.text(0, &text);
            }
        }
    }
}
