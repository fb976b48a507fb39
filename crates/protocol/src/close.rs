use std::time::Duration;

use crate::frame::ConnectionClosing;

/// Why the server ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// The process is shutting down; it or another one accepts connections again soon.
    ServerShutdown,
    /// The client sent too many invalid frames.
    ProtocolError,
    /// A defect of the service.
    Internal,
    /// More connections than the process can hold.
    Overloaded,
    /// The token of the handshake has expired.
    TokenExpired,
    /// The session was revoked.
    SessionRevoked,
    /// No frame arrived within the idle timeout.
    IdleTimeout,
    /// The same device has connected again.
    DuplicateConnection,
    /// A frame over the limit.
    FrameTooLarge,
    /// The client continued after too many rate-limit errors.
    RateLimited,
    /// The client did not read its pushes in time.
    SlowConsumer,
}

impl CloseReason {
    /// Every reason, in the order of the contract's list of codes.
    pub const ALL: [Self; 11] = [
        Self::ServerShutdown,
        Self::ProtocolError,
        Self::Internal,
        Self::Overloaded,
        Self::TokenExpired,
        Self::SessionRevoked,
        Self::IdleTimeout,
        Self::DuplicateConnection,
        Self::FrameTooLarge,
        Self::RateLimited,
        Self::SlowConsumer,
    ];

    /// The reason that a client reads in a close frame: the text decides, and the code alone where the text is unknown.
    pub fn from_close_frame(code: u16, text: &str) -> Option<Self> {
        let of_code = || Self::ALL.into_iter().find(|reason| reason.code() == code);
        Self::from_text(text).or_else(of_code)
    }

    /// The reason with this text, as `connection_closing` carries it.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }

    /// The code of the WebSocket close frame.
    pub fn code(self) -> u16 {
        match self {
            Self::ServerShutdown => 1001,
            Self::ProtocolError => 1002,
            Self::Internal => 1011,
            Self::Overloaded => 1013,
            Self::TokenExpired | Self::SessionRevoked => 4001,
            Self::IdleTimeout => 4008,
            Self::DuplicateConnection => 4009,
            Self::FrameTooLarge => 4013,
            Self::RateLimited | Self::SlowConsumer => 4029,
        }
    }

    /// The reason text of the close frame and of `connection_closing`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ServerShutdown => "server_shutdown",
            Self::ProtocolError => "protocol_error",
            Self::Internal => "internal_error",
            Self::Overloaded => "overloaded",
            Self::TokenExpired => "token_expired",
            Self::SessionRevoked => "session_revoked",
            Self::IdleTimeout => "idle_timeout",
            Self::DuplicateConnection => "duplicate_connection",
            Self::FrameTooLarge => "frame_too_large",
            Self::RateLimited => "rate_limited",
            Self::SlowConsumer => "slow_consumer",
        }
    }

    /// The `connection_closing` frame that precedes the close frame.
    pub fn closing_frame(self) -> ConnectionClosing {
        let (message, delay) = match self {
            Self::ServerShutdown => ("the server is going away; reconnect and sync", Duration::from_secs(1)),
            Self::ProtocolError => ("too many invalid frames", Duration::from_secs(5)),
            Self::Internal => ("the server has a defect; reconnect and sync", Duration::from_secs(1)),
            Self::Overloaded => ("the server holds as many connections as it can", Duration::from_secs(5)),
            Self::TokenExpired => ("the access token has expired; refresh it and reconnect", Duration::ZERO),
            Self::SessionRevoked => ("the session was revoked; sign in again", Duration::ZERO),
            Self::IdleTimeout => ("no frame arrived from the client", Duration::ZERO),
            Self::DuplicateConnection => ("this device has connected again", Duration::ZERO),
            Self::FrameTooLarge => ("a frame is over 64 KiB", Duration::from_secs(1)),
            Self::RateLimited => ("too many frames over the limits", Duration::from_secs(5)),
            Self::SlowConsumer => ("the client does not read fast enough; reconnect and sync", Duration::from_secs(1)),
        };
        ConnectionClosing {
            reason: self.as_str().to_owned(),
            message: message.to_owned(),
            reconnect_delay_ms: delay.as_millis() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_frame_is_read_back_as_its_reason() {
        for reason in CloseReason::ALL {
            assert_eq!(CloseReason::from_close_frame(reason.code(), reason.as_str()), Some(reason));
            assert_eq!(CloseReason::from_text(&reason.closing_frame().reason), Some(reason));
        }
        assert_eq!(CloseReason::from_close_frame(4009, "new words"), Some(CloseReason::DuplicateConnection));
        assert_eq!(CloseReason::from_close_frame(1000, ""), None);
    }
}
