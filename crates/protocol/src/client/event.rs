use std::time::Duration;

use domain::{ChatId, ClientMessageId, ConnectionId, Sequence, UserId};

use crate::ErrorBody;
use crate::frame::{
    ChatUpdated, MessageBody, MessageExpired, MessageUpdated, Presence, ReceiptBody, SendMessageAck, TypingIndicator,
};

/// An instruction to the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Open a WebSocket, then call `handle_connected` or `handle_disconnected`.
    Connect,
    /// Write this text frame.
    Transmit(String),
    /// Deliver this event to the application.
    Event(ClientEvent),
    /// Get a new access token, then call `handle_token_refreshed` or `handle_refresh_failed`.
    RefreshToken,
    /// List the user's chats and pass each to [`list`](super::ClientSession::list): some may be new since the last
    /// connection.
    ListChats,
    /// Read the user's delivered watermark of a chat, then call `track` or `handle_look_up_failed`.
    LookUp(ChatId),
    /// Close the socket after writing the pending frames.
    Disconnect,
}

/// An event for the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// The connection is established; missed messages follow.
    Connected {
        /// The connection.
        connection_id: ConnectionId,
        /// The signed-in user.
        user_id: UserId,
    },
    /// The connection is lost; the session reconnects automatically.
    Disconnected {
        /// Delay before the next attempt.
        retry_in: Duration,
    },
    /// The next message of a chat: each exactly once and in order, including the user's own.
    Message(MessageBody<'static>),
    /// The next update of a message of a chat, in one order with its messages. The message is in its new state or a
    /// later one: of two copies, the one with the higher `revision` is newer. It is absent if it was deleted or has
    /// expired.
    Updated(Box<MessageUpdated<'static>>),
    /// A send or an update is durable.
    Sent(SendMessageAck),
    /// A send or an update was refused permanently.
    SendFailed {
        /// The send.
        client_message_id: ClientMessageId,
        /// Its chat.
        chat_id: ChatId,
        /// The reason.
        error: ErrorBody,
    },
    /// A member's watermarks have moved.
    Receipt(ReceiptBody),
    /// Messages have expired.
    Expired(MessageExpired),
    /// A chat or its members have changed.
    ChatUpdated(ChatUpdated),
    /// A member is typing, or has stopped.
    Typing(TypingIndicator),
    /// The presence of users has changed.
    Presence(Vec<Presence>),
    /// The head of a chat is below this client's watermark, for example after a restore from a backup. Messages
    /// continue after `head_sequence`.
    WatermarkReset {
        /// The chat.
        chat_id: ChatId,
        /// The head sequence, which is also the new watermark.
        head_sequence: Sequence,
    },
    /// The user is no longer a member of the chat; no more messages follow.
    ChatGone {
        /// The chat.
        chat_id: ChatId,
    },
    /// The server refused a request that has no reply of its own: an ack, a read mark, a sync.
    Refused(ErrorBody),
    /// The session has ended and does not reconnect.
    Stopped(StopReason),
}

/// Why a session does not reconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The application closed it.
    Closed,
    /// The user has to sign in again: the session was revoked, or its token cannot be refreshed.
    SignedOut,
    /// The same device opened a newer connection, which replaces this one.
    DuplicateConnection,
}

/// How a connection ended, or why it could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The connection broke, or the server did not respond.
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
        /// The `Retry-After` of the response.
        retry_after: Option<Duration>,
    },
}

/// Why there is no new access token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefreshFailure {
    /// The server refused the refresh token.
    Refused,
    /// The server could not be reached.
    Unreachable,
}

/// Why a chat could not be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookUpFailure {
    /// The chat does not exist, or the user is not a member.
    Gone,
    /// The server could not be reached.
    Unreachable,
}
