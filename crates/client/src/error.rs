use domain::ContentError;
use protocol::ErrorBody;
use protocol::client::QueueFull;

/// A base URL that is no way to a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BaseUrlError {
    /// It cannot be read.
    #[error("`{0}` is not a URL; write it as https://chat.example.com")]
    Unreadable(String),
    /// It names another protocol.
    #[error("`{0}` begins neither with http:// nor with https://")]
    Scheme(String),
    /// The HTTP client cannot be set up.
    #[error("the HTTP client cannot be set up")]
    Setup(#[source] reqwest::Error),
}

/// A REST call that has not brought what it asks for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApiError {
    /// Nobody is signed in on this device.
    #[error("nobody is signed in; call `verify_otp`, or give the builder the tokens of an earlier run")]
    NotSignedIn,
    /// The server says no, and why.
    #[error("{} ({status}): {}", error.code, error.message)]
    Refused {
        /// The HTTP status.
        status: u16,
        /// Code, words and details.
        error: ErrorBody,
    },
    /// The server could not be asked, or its answer did not arrive.
    #[error("the server did not answer")]
    Transport(#[source] reqwest::Error),
    /// The answer is not one of this API.
    #[error("the answer has status {status} and cannot be read")]
    Unreadable {
        /// The HTTP status.
        status: u16,
        /// What is wrong with its body.
        #[source]
        source: serde_json::Error,
    },
    /// The answer is longer than any of this API.
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
        /// The pause that the answer asks for.
        retry_after: Option<std::time::Duration>,
    },
    /// It cannot even be asked for: a token or address that no request can carry.
    #[error("the handshake cannot be written; the token or the address has characters that no request can carry")]
    Unwritable,
    /// Nobody answered, or not as a WebSocket.
    #[error("no connection")]
    Transport(#[source] Box<tokio_tungstenite::tungstenite::Error>),
}

/// A send that did not become a message. After [`Closed`](Self::Closed) it may have.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The text cannot be sent.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// Too many sends are waiting.
    #[error(transparent)]
    QueueFull(#[from] QueueFull),
    /// The server says no, and why.
    #[error("{}: {}", .0.code, .0.message)]
    Refused(ErrorBody),
    /// The session ended first.
    #[error(transparent)]
    Closed(#[from] Closed),
}

/// The session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session is closed; connect again")]
pub struct Closed;
