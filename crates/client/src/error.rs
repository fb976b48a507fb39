use domain::{ContentError, ReactionError};
use protocol::ErrorBody;
use protocol::client::QueueFull;

/// An invalid base URL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BaseUrlError {
    /// It is not a URL.
    #[error("`{0}` is not a URL; write it as https://chat.example.com")]
    Unreadable(String),
    /// Its scheme is neither `http` nor `https`.
    #[error("`{0}` begins neither with http:// nor with https://")]
    Scheme(String),
    /// The HTTP client cannot be set up.
    #[error("the HTTP client cannot be set up")]
    Setup(#[source] reqwest::Error),
}

/// A failed REST call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApiError {
    /// This device is not signed in.
    #[error("not signed in; call `verify_otp`, or pass the tokens of an earlier run to the builder")]
    NotSignedIn,
    /// The server refused the request.
    #[error("{} ({status}): {}", error.code, error.message)]
    Refused {
        /// The HTTP status.
        status: u16,
        /// Code, text and details.
        error: ErrorBody,
    },
    /// The server could not be reached, or its response did not arrive.
    #[error("the server did not answer")]
    Transport(#[source] reqwest::Error),
    /// The response is not one of this API.
    #[error("the answer has status {status} and cannot be read")]
    Unreadable {
        /// The HTTP status.
        status: u16,
        /// The parse error of the body.
        #[source]
        source: serde_json::Error,
    },
    /// The response is longer than any of this API.
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
}

/// A WebSocket that could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The handshake was refused over HTTP.
    #[error("the handshake was refused with status {status}")]
    Refused {
        /// The status.
        status: u16,
        /// The `Retry-After` of the response.
        retry_after: Option<std::time::Duration>,
    },
    /// The request cannot be built: the token or address has characters that a request cannot carry.
    #[error("the handshake cannot be written; the token or the address has characters that no request can carry")]
    Unwritable,
    /// The server did not respond, or not as a WebSocket.
    #[error("no connection")]
    Transport(#[source] Box<tokio_tungstenite::tungstenite::Error>),
}

/// A failed send or update. After [`Closed`](Self::Closed) the outcome is unknown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The content is out of bounds.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// The text is not a reaction.
    #[error(transparent)]
    Reaction(#[from] ReactionError),
    /// The send queue is full.
    #[error(transparent)]
    QueueFull(#[from] QueueFull),
    /// The server refused the request.
    #[error("{}: {}", .0.code, .0.message)]
    Refused(ErrorBody),
    /// The session ended first.
    #[error(transparent)]
    Closed(#[from] SessionClosed),
}

/// The session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session is closed; connect again")]
pub struct SessionClosed;
