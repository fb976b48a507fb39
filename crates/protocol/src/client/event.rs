use std::time::Duration;

use domain::{ChatId, ClientMessageId, ConnectionId, Sequence, UserId};

use crate::ErrorBody;
use crate::frame::{ChatUpdated, MessageBody, MessageExpired, Presence, ReceiptBody, SendMessageAck, TypingIndicator};

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Open a WebSocket, then call `handle_connected` or `handle_disconnected`.
    Connect,
    /// Write this text frame.
    Transmit(String),
    /// Tell the application.
    Event(ClientEvent),
    /// Get a new access token, then call `handle_token_refreshed` or `handle_refresh_failed`.
    RefreshToken,
    /// Read the list of the user's chats and [`list`](super::ClientSession::list) each: some may be new since the last
    /// connection.
    ListChats,
    /// Read how far this user has come in a chat, then `track` it or call `handle_look_up_failed`.
    LookUp(ChatId),
    /// Drop the socket, after what was to be written.
    Disconnect,
}

/// What an application learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// The connection stands; what was missed follows.
    Connected {
        /// The connection.
        connection_id: ConnectionId,
        /// Who is signed in.
        user_id: UserId,
    },
    /// There is no connection; the next try comes by itself.
    Disconnected {
        /// After this long.
        retry_in: Duration,
    },
    /// The next message of a chat: each exactly once, in order, one's own among them.
    Message(MessageBody<'static>),
    /// A send is durable.
    Sent(SendMessageAck),
    /// A send was refused for good.
    SendFailed {
        /// Which send.
        client_message_id: ClientMessageId,
        /// Into which chat.
        chat_id: ChatId,
        /// Why.
        error: ErrorBody,
    },
    /// A member's watermarks have moved.
    Receipt(ReceiptBody),
    /// Messages are gone.
    Expired(MessageExpired),
    /// A chat or its members have changed.
    ChatUpdated(ChatUpdated),
    /// A member types, or no longer does.
    Typing(TypingIndicator),
    /// Users came or went.
    Presence(Vec<Presence>),
    /// The server knows less of a chat than this client did (a restored backup); messages go on after `head_sequence`.
    WatermarkReset {
        /// Where.
        chat_id: ChatId,
        /// The head, and the watermark now.
        head_sequence: Sequence,
    },
    /// The chat is no longer the user's: nothing more comes from it.
    ChatGone {
        /// Which.
        chat_id: ChatId,
    },
    /// Something was refused that has no answer of its own: an ack, a read mark, a sync.
    Refused(ErrorBody),
    /// The session is over and does not come back by itself.
    Stopped(StopReason),
}

/// Why a session does not reconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The application closed it.
    Closed,
    /// The user has to sign in again: the session was revoked, or its token cannot be refreshed.
    SignedOut,
    /// The same device has connected from elsewhere, and the newer connection wins.
    DuplicateConnection,
}

/// How a connection ended, or why it never began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It broke, or nobody answered.
    Lost,
    /// The server closed it.
    Closed {
        /// The code of the close frame.
        code: u16,
        /// Its text.
        reason: String,
    },
    /// The handshake was refused over HTTP.
    Refused {
        /// The status.
        status: u16,
        /// The pause that the answer asks for.
        retry_after: Option<Duration>,
    },
}

/// Why there is no new access token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefreshFailure {
    /// The refresh token is no good.
    Refused,
    /// The server could not be asked.
    Unreachable,
}

/// Why a chat could not be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookUpFailure {
    /// There is no such chat, or the user is not in it.
    Gone,
    /// The server could not be asked.
    Unreachable,
}
