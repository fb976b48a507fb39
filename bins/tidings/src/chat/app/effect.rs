use std::time::Duration;

use domain::{ChatId, Sequence, Timestamp, Ttl, UserId};
use protocol::frame::{SendMessage, UpdateMessage};
use protocol::rest::{ChatDetails, ChatSummary, History, MemberWatermarks};

/// An action that the I/O layer performs for the app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Persist this message, then send it.
    Send {
        message: SendMessage,
        written_at: Timestamp,
    },
    /// Persist this update, then send it.
    Update {
        update: UpdateMessage,
        written_at: Timestamp,
    },
    MarkRead {
        chat_id: ChatId,
        sequence: Sequence,
    },
    Typing {
        chat_id: ChatId,
        is_typing: bool,
    },
    /// Subscribe to the presence of these users.
    Watch(Vec<UserId>),
    Ask(ApiRequest),
    /// Ring the terminal bell.
    Ring,
}

/// A request to the server, which results in an [`ApiResult`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ApiRequest {
    Inbox,
    /// A chat with its members and their watermarks.
    Chat(ChatId),
    /// Messages of a chat: the newest, or those below a sequence.
    Page {
        chat_id: ChatId,
        before: Option<Sequence>,
    },
    New {
        phone_number: String,
    },
    Group {
        name: String,
        phone_numbers: Vec<String>,
    },
    Add {
        chat_id: ChatId,
        phone_number: String,
    },
    Leave(ChatId),
    Mute {
        chat_id: ChatId,
        duration: Option<Duration>,
    },
    Unmute(ChatId),
    SetTtl {
        chat_id: ChatId,
        ttl: Option<Ttl>,
    },
    AddContact {
        chat_id: ChatId,
        user_id: UserId,
    },
}

/// The result of a [`ApiRequest`].
#[derive(Debug)]
pub(crate) enum ApiResult {
    Inbox(Vec<ChatSummary>),
    Chat {
        details: Box<ChatDetails>,
        watermarks: Vec<MemberWatermarks>,
    },
    Page {
        chat_id: ChatId,
        before: Option<Sequence>,
        page: History<'static>,
    },
    /// A new or existing chat that the user asked for; the app opens it.
    Made(Box<ChatDetails>),
    /// A command succeeded; carries the new state of the chat.
    Done {
        details: Box<ChatDetails>,
        said: String,
    },
    Left(ChatId),
    Failed {
        request: ApiRequest,
        why: String,
    },
}

/// State of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    Connecting,
    Connected,
    /// Disconnected, until the next attempt.
    Lost {
        retry_at: Timestamp,
    },
}

/// A temporary message to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StatusNotice {
    pub(crate) text: String,
    pub(crate) until: Timestamp,
}

/// The visible part of the messages after the last draw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VisibleMessages {
    /// Rows available for messages.
    pub(crate) rows: usize,
    /// Rows scrolled up; less than requested at the top of the history.
    pub(crate) scroll: usize,
    /// Whether the oldest loaded message is visible.
    pub(crate) top: bool,
    /// The newest visible message.
    pub(crate) newest: Option<Sequence>,
}

/// Why the client ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitReason {
    Quit,
    SignedOut,
    /// The same device has connected elsewhere.
    TakenOver,
}
