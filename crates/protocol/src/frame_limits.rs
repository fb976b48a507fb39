use std::time::{Duration, Instant};

use domain::{Quota, RateDecision, Timestamp};

use crate::frame::ClientFrame;

macro_rules! frame_kinds {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal,)*) => {
        /// The kinds of frames that arrive from a client, valid or not.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum FrameKind {
            $($(#[doc = $doc])* $variant,)*
        }

        impl FrameKind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name of the kind: its type on the wire, if it has one.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

frame_kinds! {
    /// Sends a message.
    SendMessage = "send_message",
    /// Updates a message.
    UpdateMessage = "update_message",
    /// Acknowledges messages.
    Ack = "ack",
    /// Marks messages as read.
    MarkRead = "mark_read",
    /// Requests missed messages.
    SyncRequest = "sync_request",
    /// Announces that the user is typing.
    TypingStart = "typing_start",
    /// Announces that the user has stopped typing.
    TypingStop = "typing_stop",
    /// Requests and observes the presence of users.
    PresenceSubscribe = "presence_subscribe",
    /// Ends presence subscriptions.
    PresenceUnsubscribe = "presence_unsubscribe",
    /// Renews the authentication of the connection.
    Reauth = "reauth",
    /// Proves that the client is alive.
    Heartbeat = "heartbeat",
    /// A type of a later version.
    Unknown = "unknown",
    /// A frame that cannot be accepted, a binary one among them.
    Invalid = "invalid",
    /// A ping or a pong of the WebSocket protocol.
    Ping = "ping",
}

/// The limit of a kind of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameLimit {
    /// Limits of the user over all connections, in the shared limiter. A frame beyond one is answered `RATE_LIMITED`.
    PerUser(&'static [UserLimit]),
    /// A limit of each connection: frames per second on average, and at once.
    PerConnection {
        /// Frames per second.
        rate: u32,
        /// Frames at once.
        burst: u32,
        /// The reaction to a frame beyond the limit.
        excess: Excess,
    },
    /// One frame for each accepted `typing_start`; others are ignored.
    PerTypingStart,
}

/// A limit of a user over all connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the settings")]
pub enum UserLimit {
    SendPerUser,
    SendPerChat,
    MessageMib,
    /// Of all users together.
    MessageMibTotal,
    Sync,
    TypingPerUser,
    Typing,
    RestRead,
}

/// The reaction to frames beyond the limit of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// The socket is not read for a moment, because a lost frame would do harm.
    Wait,
    /// The frame is answered `RATE_LIMITED`.
    Refuse,
    /// The frame is ignored, because it has no answer.
    Drop,
}

impl FrameKind {
    /// The limit of each kind. A kind without a limit does not compile.
    ///
    /// Beside it, each connection has a limit of all its frames together, beyond which its socket is not read.
    pub const fn limit(self) -> FrameLimit {
        use Excess::{Drop, Refuse, Wait};
        use FrameLimit::{PerConnection, PerTypingStart, PerUser};
        match self {
            Self::SendMessage | Self::UpdateMessage => PerUser(&[
                UserLimit::SendPerUser,
                UserLimit::SendPerChat,
                UserLimit::MessageMib,
                UserLimit::MessageMibTotal,
            ]),
            Self::SyncRequest => PerUser(&[UserLimit::Sync]),
            Self::TypingStart => PerUser(&[UserLimit::Typing, UserLimit::TypingPerUser]),
            Self::TypingStop => PerTypingStart,
            Self::PresenceSubscribe => PerUser(&[UserLimit::RestRead]),
            Self::Ack | Self::MarkRead => PerConnection { rate: 50, burst: 500, excess: Wait },
            Self::PresenceUnsubscribe => PerConnection { rate: 10, burst: 100, excess: Wait },
            Self::Reauth => PerConnection { rate: 1, burst: 10, excess: Refuse },
            Self::Heartbeat | Self::Invalid => PerConnection { rate: 5, burst: 50, excess: Refuse },
            Self::Unknown | Self::Ping => PerConnection { rate: 5, burst: 50, excess: Drop },
        }
    }
}

impl ClientFrame {
    /// The kind of the frame.
    pub fn kind(&self) -> FrameKind {
        match self {
            Self::SendMessage(_) => FrameKind::SendMessage,
            Self::UpdateMessage(_) => FrameKind::UpdateMessage,
            Self::Ack { .. } => FrameKind::Ack,
            Self::MarkRead { .. } => FrameKind::MarkRead,
            Self::SyncRequest(_) => FrameKind::SyncRequest,
            Self::Typing { is_typing: true, .. } => FrameKind::TypingStart,
            Self::Typing { is_typing: false, .. } => FrameKind::TypingStop,
            Self::PresenceSubscribe { .. } => FrameKind::PresenceSubscribe,
            Self::PresenceUnsubscribe { .. } => FrameKind::PresenceUnsubscribe,
            Self::Reauth { .. } => FrameKind::Reauth,
            Self::Heartbeat => FrameKind::Heartbeat,
            Self::Unknown => FrameKind::Unknown,
        }
    }
}

/// A frame beyond the limit of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OverLimit {
    /// Answer it with the delay until the next one.
    Refuse(Duration),
    Drop,
}

/// Counts the frames of one connection against its limits.
#[derive(Debug)]
pub(crate) struct FrameMeter {
    /// The quota of all frames together. Without it no frame is limited.
    all: Option<Quota>,
    start: Instant,
    /// The times at which the buckets are full again: of each kind, and last of all frames together.
    full_at: [Timestamp; FrameKind::ALL.len() + 1],
    resume_at: Option<Instant>,
}

impl FrameMeter {
    pub(crate) fn new(all: Option<Quota>, start: Instant) -> Self {
        Self { all, start, full_at: [Timestamp::default(); FrameKind::ALL.len() + 1], resume_at: None }
    }

    /// Counts a frame of any kind.
    pub(crate) fn count(&mut self, now: Instant) {
        if let Some(quota) = self.all {
            let taken = self.take(now, FrameKind::ALL.len(), quota);
            self.wait(now, taken);
        }
    }

    /// Counts a frame of this kind.
    pub(crate) fn count_kind(&mut self, now: Instant, kind: FrameKind) -> Result<(), OverLimit> {
        let FrameLimit::PerConnection { rate, burst, excess } = kind.limit() else { return Ok(()) };
        let Some(quota) = self.all.and_then(|_| Quota::with_burst(rate, Duration::from_secs(1), burst)) else {
            return Ok(());
        };
        let taken = self.take(now, kind as usize, quota);
        match excess {
            Excess::Wait => self.wait(now, taken),
            Excess::Refuse if !taken.allowed => return Err(OverLimit::Refuse(taken.retry_after)),
            Excess::Drop if !taken.allowed => return Err(OverLimit::Drop),
            Excess::Refuse | Excess::Drop => {}
        }
        Ok(())
    }

    /// Until when no frame is to be read.
    pub(crate) fn resume_at(&self) -> Option<Instant> {
        self.resume_at
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.resume_at = self.resume_at.filter(|at| now < *at);
    }

    fn take(&mut self, now: Instant, bucket: usize, quota: Quota) -> RateDecision {
        let now = Timestamp::from_millis(now.saturating_duration_since(self.start).as_millis() as u64);
        let (decision, full_at) = quota.decide(Some(self.full_at[bucket]), now);
        self.full_at[bucket] = full_at;
        decision
    }

    fn wait(&mut self, now: Instant, taken: RateDecision) {
        if !taken.retry_after.is_zero() {
            self.resume_at = self.resume_at.max(Some(now + taken.retry_after));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(start: Instant) -> FrameMeter {
        FrameMeter::new(Quota::with_burst(200, Duration::from_secs(1), 1000), start)
    }

    #[test]
    fn a_connection_that_floods_is_read_at_the_rate_of_its_limit() {
        let start = Instant::now();
        let mut meter = meter(start);
        let (mut now, mut read) = (start, 0);
        while now < start + Duration::from_secs(10) {
            meter.count(now);
            read += 1;
            if let Some(at) = meter.resume_at() {
                now = at;
                meter.handle_timeout(now);
                assert_eq!(meter.resume_at(), None);
            }
        }
        assert!((2990..=3010).contains(&read), "{read} frames in ten seconds");
    }

    #[test]
    fn every_kind_is_refused_dropped_or_delayed_beyond_its_limit() {
        for kind in FrameKind::ALL {
            let FrameLimit::PerConnection { burst, excess, .. } = kind.limit() else { continue };
            let start = Instant::now();
            let mut meter = meter(start);
            for _ in 0..burst {
                assert_eq!(meter.count_kind(start, *kind), Ok(()), "{kind:?}");
            }
            assert_eq!(meter.resume_at().is_some(), excess == Excess::Wait, "{kind:?}");
            let beyond = meter.count_kind(start, *kind);
            match excess {
                Excess::Wait => assert_eq!(beyond, Ok(())),
                Excess::Refuse => assert!(matches!(beyond, Err(OverLimit::Refuse(delay)) if !delay.is_zero())),
                Excess::Drop => assert_eq!(beyond, Err(OverLimit::Drop)),
            }
            assert_eq!(meter.count_kind(start + Duration::from_secs(60), *kind), Ok(()), "{kind:?}");
        }
    }

    #[test]
    fn without_a_quota_nothing_is_limited() {
        let start = Instant::now();
        let mut meter = FrameMeter::new(None, start);
        for _ in 0..10_000 {
            meter.count(start);
            FrameKind::ALL.iter().for_each(|kind| assert_eq!(meter.count_kind(start, *kind), Ok(())));
        }
        assert_eq!(meter.resume_at(), None);
    }
}
