use std::time::Duration;

use domain::{ChatId, Sequence, Timestamp, Ttl, UserId};
use protocol::frame::SendMessage;
use protocol::rest::{ChatDetails, ChatSummary, History, MemberWatermarks};

/// What the edge is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Keep this message where it survives a restart, then send it.
    Send {
        message: SendMessage,
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
    /// Ask to be told when these come and go.
    Watch(Vec<UserId>),
    Ask(Request),
    /// Draw attention.
    Ring,
}

/// A question to the server, which is followed by an [`Answer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Inbox,
    /// A chat with its members and how far they have come.
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

/// What became of a [`Request`].
#[derive(Debug)]
pub(crate) enum Answer {
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
    /// A chat that was asked for by name, to be opened.
    Made(Box<ChatDetails>),
    /// Something is done; the chat is as it is now.
    Done {
        details: Box<ChatDetails>,
        said: String,
    },
    Left(ChatId),
    Failed {
        request: Request,
        why: String,
    },
}

/// How the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Connecting,
    Connected,
    /// Gone, until the next try.
    Lost {
        retry_at: Timestamp,
    },
}

/// A sentence for the person, for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) text: String,
    pub(crate) until: Timestamp,
}

/// What the last drawing has shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Rows of messages that fit.
    pub(crate) rows: usize,
    /// How far up it was scrolled; less than was asked for where there is no more.
    pub(crate) scroll: usize,
    /// Whether the oldest message that is here was in sight.
    pub(crate) top: bool,
    /// The newest message in sight.
    pub(crate) newest: Option<Sequence>,
}

/// Why it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Quit,
    SignedOut,
    /// The same device has connected from elsewhere.
    TakenOver,
}
