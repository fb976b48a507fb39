use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use domain::{ChatId, Quota, Timestamp, WatermarkKind};

use crate::advances::{Advances, Move};
use crate::command::Command;
use crate::frame::{ClientFrame, FrameError, HeartbeatAck, Inbound, RequestId, Resync, ServerFrame};
use crate::frame_limits::{FrameMeter, OverLimit};
use crate::typing::TypingChats;
use crate::window::SlidingWindow;
use crate::{CloseReason, ErrorBody, ErrorCode, FrameKind, Pressure};

/// One client connection, seen from the gateway. Does no I/O and reads no clock.
///
/// ```text
///            frame, reply, push                    Output::Close
///   Open ───────────────────────► Open ──────────► Closed
///     │  violation, silence, slow reader, expiry,    ▲
///     └─ a call of `close` ──────────────────────────┘
/// ```
///
/// The driver passes in what happens (`handle_*`, [`close`](Self::close)) and executes the outputs of
/// [`poll_output`](Self::poll_output) until there are none. A closed connection takes no input. It still emits the
/// replies to commands in flight; [`drained`](Self::drained) says when the socket may be closed. The last call is
/// [`handle_end`](Self::handle_end).
#[derive(Debug)]
pub struct Connection {
    timing: Timing,
    state: ConnectionPhase,
    last_heard: Instant,
    expires_at: Instant,
    /// When the client was warned about a slow read; `None` while it keeps up.
    slow_since: Option<Instant>,
    violations: SlidingWindow,
    /// Frames beyond a limit.
    refusals: SlidingWindow,
    meter: FrameMeter,
    commands_in_flight: usize,
    typing: TypingChats,
    advances: Advances,
    outputs: VecDeque<Output>,
}

/// The errors of a `typing_start` that was certainly not pushed.
const REFUSED_STARTS: [ErrorCode; 2] = [ErrorCode::RateLimited, ErrorCode::NotAMember];

#[derive(Debug, PartialEq, Eq)]
enum ConnectionPhase {
    Open,
    Closed,
}

/// The timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Longest time without an inbound frame before the connection is closed.
    pub idle_timeout: Duration,
    /// Grace period of a slow reader after the warning.
    pub slow_grace: Duration,
    /// Typing ends automatically after this time.
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

/// An instruction to the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Write this frame.
    Send(Bytes),
    /// Execute this command and report its outcome: each command ends in one [`Connection::handle_done`],
    /// [`Connection::handle_failure`], [`Connection::handle_advanced`], [`Connection::handle_typing`] or
    /// [`Connection::handle_reauthenticated`].
    Command(Command),
    /// Count a frame of this kind beyond the limit of the connection.
    CountLimited(FrameKind),
    /// Write the pending frames, then the close frame.
    Close(CloseReason),
}

impl Connection {
    /// Most commands in flight. At this bound no frame is read.
    pub const COMMANDS_IN_FLIGHT_MAX: usize = 64;
    /// Frames answered `INVALID_MESSAGE` within a minute that end the connection.
    const VIOLATIONS_MAX: usize = 10;
    /// Frames beyond a limit within a minute that end the connection.
    const REFUSALS_MAX: usize = 300;
    /// The name of the limits of a connection in `details.limit`: their setting.
    const LIMIT: &str = "frames_per_connection";

    /// A connection that was opened at `now` with a token that is valid until `expires_at`. `frames` is the limit of all
    /// its frames together; without it, the other limits of the connection are off as well.
    pub fn new(timing: Timing, frames: Option<Quota>, now: Instant, expires_at: Instant) -> Self {
        let minute = Duration::from_secs(60);
        Self {
            timing,
            state: ConnectionPhase::Open,
            last_heard: now,
            expires_at,
            slow_since: None,
            violations: SlidingWindow::new(Self::VIOLATIONS_MAX, minute),
            refusals: SlidingWindow::new(Self::REFUSALS_MAX, minute),
            meter: FrameMeter::new(frames, now),
            commands_in_flight: 0,
            typing: TypingChats::default(),
            advances: Advances::default(),
            outputs: VecDeque::new(),
        }
    }

    /// Takes a text frame of the client. `server_time` goes into the reply to a heartbeat.
    pub fn handle_text(&mut self, now: Instant, server_time: Timestamp, text: &str) {
        if self.state == ConnectionPhase::Closed {
            return;
        }
        self.record_activity(now);
        match Inbound::parse(text) {
            Ok(inbound) => self.handle_frame(now, server_time, inbound),
            Err(error) => self.refuse(now, error),
        }
    }

    /// Takes a binary frame, which the protocol does not allow.
    pub fn handle_binary(&mut self, now: Instant) {
        if self.state == ConnectionPhase::Closed {
            return;
        }
        self.record_activity(now);
        let error = ErrorBody::new(ErrorCode::InvalidMessage, "binary frames are not taken; send JSON as text");
        self.refuse(now, FrameError { request_id: None, error });
    }

    /// Takes a WebSocket ping or pong.
    pub fn handle_alive(&mut self, now: Instant) {
        if self.state == ConnectionPhase::Open {
            self.record_activity(now);
            self.is_within_limit(now, FrameKind::Ping, None);
        }
    }

    /// Every frame counts as a heartbeat, and toward the limit of all frames.
    fn record_activity(&mut self, now: Instant) {
        self.last_heard = now;
        self.meter.count(now);
    }

    /// Counts a frame toward the limit of its kind on this connection, and answers it if it is beyond.
    fn is_within_limit(&mut self, now: Instant, kind: FrameKind, request_id: Option<&RequestId>) -> bool {
        let Err(over) = self.meter.count_kind(now, kind) else { return true };
        self.outputs.push_back(Output::CountLimited(kind));
        if let OverLimit::Refuse(retry_after) = over {
            let error = ErrorBody::rate_limited(Self::LIMIT, retry_after);
            self.outputs.push_back(Output::Send(ServerFrame::Error(error).encode(request_id)));
        }
        self.count_refusal(now);
        false
    }

    fn handle_frame(&mut self, now: Instant, server_time: Timestamp, inbound: Inbound) {
        let Inbound { request_id, frame } = inbound;
        if !self.is_within_limit(now, frame.kind(), request_id.as_ref()) {
            return;
        }
        let command = match (frame, request_id) {
            (ClientFrame::SendMessage(message), Some(request_id)) => {
                // A sender has stopped typing. Recipients infer it from the message, so no indicator is needed.
                self.typing.stop(message.chat_id);
                Command::Send { request_id, message }
            }
            (ClientFrame::UpdateMessage(update), Some(request_id)) => Command::Update { request_id, update },
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
                let until = now + self.timing.typing_timeout;
                let is_due = if is_typing { self.typing.start(chat_id, until) } else { self.typing.stop(chat_id) };
                if !is_due {
                    return;
                }
                Command::Typing { chat_id, is_typing }
            }
            (ClientFrame::Heartbeat, request_id) => {
                let ack = ServerFrame::HeartbeatAck(HeartbeatAck { server_time });
                self.outputs.push_back(Output::Send(ack.encode(request_id.as_ref())));
                return;
            }
            (ClientFrame::Reauth { token }, Some(request_id)) => Command::Reauth { request_id, token },
            (ClientFrame::Unknown, _) => Command::CountUnknown,
            (
                ClientFrame::SendMessage(_)
                | ClientFrame::UpdateMessage(_)
                | ClientFrame::SyncRequest(_)
                | ClientFrame::PresenceSubscribe { .. }
                | ClientFrame::Reauth { .. },
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

    fn refuse(&mut self, now: Instant, FrameError { request_id, error }: FrameError) {
        let violation = error.code == ErrorCode::InvalidMessage;
        if !violation && !self.is_within_limit(now, FrameKind::Invalid, request_id.as_ref()) {
            return;
        }
        self.outputs.push_back(Output::Send(ServerFrame::Error(error).encode(request_id.as_ref())));
        if violation && self.violations.hit(now) {
            self.close(CloseReason::ProtocolError);
        }
    }

    /// Takes the outcome of a command: the encoded reply, or `None` for a command without one.
    pub fn handle_done(&mut self, answer: Option<Bytes>) {
        self.commands_in_flight -= 1;
        self.outputs.extend(answer.map(Output::Send));
    }

    /// Takes the outcome of a renewed authentication: the connection is open until the new token expires.
    pub fn handle_reauthenticated(&mut self, expires_at: Instant, answer: Option<Bytes>) {
        self.expires_at = expires_at;
        self.handle_done(answer);
    }

    /// Takes the failure of a command.
    pub fn handle_failure(&mut self, now: Instant, request_id: Option<&RequestId>, error: ErrorBody) {
        self.commands_in_flight -= 1;
        let refused = error.code == ErrorCode::RateLimited;
        self.outputs.push_back(Output::Send(ServerFrame::Error(error).encode(request_id)));
        if refused {
            self.count_refusal(now);
        }
    }

    /// Counts a frame beyond a limit. Too many of them end the connection.
    fn count_refusal(&mut self, now: Instant) {
        if self.refusals.hit(now) {
            self.close(CloseReason::RateLimited);
        }
    }

    /// Takes the outcome of a `typing_start`.
    pub fn handle_typing(&mut self, now: Instant, chat_id: ChatId, outcome: Result<(), ErrorBody>) {
        // After any other failure the others may see the user typing, so it has to be stopped.
        let is_refused = matches!(&outcome, Err(error) if REFUSED_STARTS.contains(&error.code));
        self.typing.handle_outcome(chat_id, !is_refused);
        match outcome {
            Ok(()) => self.handle_done(None),
            Err(error) => self.handle_failure(now, None, error),
        }
    }

    /// Takes the outcome of a watermark move.
    pub fn handle_advanced(&mut self, now: Instant, moved: &Move, outcome: Result<(), ErrorBody>) {
        self.advances.handle_outcome(now, moved, outcome.is_ok());
        match outcome {
            Ok(()) => self.handle_done(None),
            Err(error) => self.handle_failure(now, None, error),
        }
        self.advance_those_due(now);
    }

    /// Takes the pressure of the outbox. Near its bound the client gets one warning and a grace period (G9).
    pub fn handle_pressure(&mut self, now: Instant, pressure: Pressure) {
        match (pressure, self.slow_since) {
            (Pressure::Easy, _) => self.slow_since = None,
            (Pressure::Near, Some(_)) => {}
            (Pressure::Near, None) if self.state == ConnectionPhase::Open => {
                self.slow_since = Some(now);
                let grace = self.timing.slow_grace.as_secs_f64();
                let message =
                    format_args!("pushes are waiting to be read; the connection closes in {grace} s unless they are");
                let error = ErrorBody::new(ErrorCode::SlowConsumer, message);
                self.outputs.push_back(Output::Send(ServerFrame::Error(error).encode(None)));
            }
            (Pressure::Near, None) => {}
        }
    }

    /// Requests a resync of every chat after pushes were dropped.
    pub fn handle_missed(&mut self) {
        if self.state == ConnectionPhase::Open {
            let resync = ServerFrame::Resync(Resync { reason: "slow_consumer".to_owned() });
            self.outputs.push_back(Output::Send(resync.encode(None)));
        }
    }

    /// Must be called at the time of [`poll_timeout`](Self::poll_timeout).
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.state == ConnectionPhase::Closed {
            return;
        }
        if now >= self.expires_at {
            self.close(CloseReason::TokenExpired);
        } else if now >= self.last_heard + self.timing.idle_timeout {
            self.close(CloseReason::IdleTimeout);
        } else if self.slow_since.is_some_and(|since| now >= since + self.timing.slow_grace) {
            self.close(CloseReason::SlowConsumer);
        }
        while let Some(chat_id) = self.typing.poll(now) {
            self.command(Command::Typing { chat_id, is_typing: false });
        }
        self.advance_those_due(now);
        self.meter.handle_timeout(now);
    }

    /// Closes the connection. Commands in flight are still answered.
    pub fn close(&mut self, reason: CloseReason) {
        if self.state == ConnectionPhase::Open {
            self.state = ConnectionPhase::Closed;
            let closing = ServerFrame::ConnectionClosing(reason.closing_frame());
            self.outputs.push_back(Output::Send(closing.encode(None)));
            self.outputs.push_back(Output::Close(reason));
        }
    }

    /// Ends the connection after a close or the loss of its socket. Stops typing in every chat and issues the queued
    /// watermark moves.
    pub fn handle_end(&mut self) {
        self.state = ConnectionPhase::Closed;
        for chat_id in self.typing.finish() {
            self.command(Command::Typing { chat_id, is_typing: false });
        }
        for moved in self.advances.finish() {
            self.command(Command::Advance(moved));
        }
    }

    /// The next output, in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called, if nothing happens before.
    pub fn poll_timeout(&self) -> Instant {
        let idle = self.last_heard + self.timing.idle_timeout;
        let slow = self.slow_since.map(|since| since + self.timing.slow_grace);
        let due = [self.typing.poll_timeout(), self.advances.poll_timeout(), self.meter.resume_at()];
        [Some(self.expires_at), slow].into_iter().chain(due).flatten().fold(idle, Instant::min)
    }

    /// Whether the connection is open.
    pub fn is_open(&self) -> bool {
        self.state == ConnectionPhase::Open
    }

    /// The outbox pressure of the last [`handle_pressure`](Self::handle_pressure).
    pub fn pressure(&self) -> Pressure {
        if self.slow_since.is_some() { Pressure::Near } else { Pressure::Easy }
    }

    /// Whether the next frame may be read from the socket.
    pub fn wants_frame(&self) -> bool {
        self.state == ConnectionPhase::Open
            && self.commands_in_flight < Self::COMMANDS_IN_FLIGHT_MAX
            && !self.advances.is_full()
            && self.meter.resume_at().is_none()
    }

    /// Whether no command is in flight.
    pub fn drained(&self) -> bool {
        self.commands_in_flight == 0
    }
}

#[cfg(test)]
mod tests;
