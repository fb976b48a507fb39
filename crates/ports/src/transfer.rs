use async_trait::async_trait;
use domain::limits::RETENTION;
use domain::{
    Chat, ChatId, ClientMessageId, DirectPair, Member, Message, PushDevice, Session, Timestamp, User, UserId,
    Watermarks,
};

use crate::{Bookmark, Head, Receipt, StoreError, UserKey};

/// A sort of rows that move from one store to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MovedKind {
    /// Users.
    User,
    /// What makes each of them the same person at every sign-in.
    UserKey,
    /// Whom they have listed.
    Contact,
    /// Their logins.
    Session,
    /// Their devices that are told of messages.
    PushDevice,
    /// Chats, with their heads.
    Chat,
    /// The pairs that have a direct chat.
    Pair,
    /// Members, with how far they have come.
    Member,
    /// Messages.
    Message,
    /// Sends that a retry may still repeat.
    Send,
    /// Whom they have blocked.
    Block,
}

impl MovedKind {
    /// All of them, in the order in which they move: what others speak of comes first.
    pub const ALL: [Self; 11] = [
        Self::User,
        Self::UserKey,
        Self::Contact,
        Self::Session,
        Self::PushDevice,
        Self::Chat,
        Self::Pair,
        Self::Member,
        Self::Message,
        Self::Send,
        Self::Block,
    ];

    /// Its name in files and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::UserKey => "user_key",
            Self::Contact => "contact",
            Self::Session => "session",
            Self::PushDevice => "push_device",
            Self::Chat => "chat",
            Self::Pair => "pair",
            Self::Member => "member",
            Self::Message => "message",
            Self::Send => "send",
            Self::Block => "block",
        }
    }
}

/// One thing that moves from one store to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moved {
    /// A user.
    User(User),
    /// A key, and whose it is.
    UserKey {
        /// The key.
        key: UserKey,
        /// Whom it signs in.
        user_id: UserId,
    },
    /// Somebody has listed somebody.
    Contact {
        /// Whose list it is.
        user_id: UserId,
        /// Who is on it.
        contact_id: UserId,
    },
    /// A login.
    Session(Session),
    /// A device that is told of messages.
    PushDevice(PushDevice),
    /// A chat.
    Chat {
        /// The chat.
        chat: Chat,
        /// Its head.
        head: Head,
    },
    /// A pair that has a direct chat.
    Pair {
        /// The two.
        pair: DirectPair,
        /// Their chat.
        chat_id: ChatId,
    },
    /// A member of a chat.
    Member {
        /// The chat.
        chat_id: ChatId,
        /// The member.
        member: Member,
        /// How far they have come.
        watermarks: Watermarks,
    },
    /// A message.
    Message(Message),
    /// A send that a retry may still repeat.
    Send(MovedSend),
    /// Somebody has blocked somebody.
    Block {
        /// Whose block it is.
        user_id: UserId,
        /// Whom they have blocked.
        blocked_id: UserId,
    },
}

/// What is remembered of a send, so that a retry of it is answered as the first try was (G2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedSend {
    /// The chat.
    pub chat_id: ChatId,
    /// Who sent.
    pub sender_id: UserId,
    /// Their name for the send.
    pub client_message_id: ClientMessageId,
    /// What they were told.
    pub receipt: Receipt,
    /// What a retry has in common with the first try: [`NewMessage::fingerprint`](crate::NewMessage::fingerprint).
    pub fingerprint: [u8; 16],
}

impl Moved {
    /// What sort it is of.
    pub fn kind(&self) -> MovedKind {
        match self {
            Self::User(_) => MovedKind::User,
            Self::UserKey { .. } => MovedKind::UserKey,
            Self::Contact { .. } => MovedKind::Contact,
            Self::Session(_) => MovedKind::Session,
            Self::PushDevice(_) => MovedKind::PushDevice,
            Self::Chat { .. } => MovedKind::Chat,
            Self::Pair { .. } => MovedKind::Pair,
            Self::Member { .. } => MovedKind::Member,
            Self::Message(_) => MovedKind::Message,
            Self::Send(_) => MovedKind::Send,
            Self::Block { .. } => MovedKind::Block,
        }
    }

    /// What is left of it at a moment: nothing of what is over by then, and of a chat whose last message has expired no
    /// words (G11). Stores delete such rows at a time of their own, and what moves must not hang on it.
    pub fn at(mut self, moment: Timestamp) -> Option<Self> {
        let is_over = match &mut self {
            Self::Session(session) => session.expires_at <= moment,
            Self::Message(message) => message.is_expired(moment),
            Self::Send(send) => send.receipt.created_at + RETENTION <= moment,
            Self::Chat { head, .. } => {
                if let Some(last) = &mut head.last_message
                    && last.expires_at.is_some_and(|at| at <= moment)
                {
                    last.preview = None;
                }
                false
            }
            Self::User(_)
            | Self::UserKey { .. }
            | Self::Contact { .. }
            | Self::Block { .. }
            | Self::PushDevice(_)
            | Self::Pair { .. }
            | Self::Member { .. } => false,
        };
        (!is_over).then_some(self)
    }
}

/// A part of all rows of a sort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedPage {
    /// The rows, in the source's order. There may be none before the end.
    pub rows: Vec<Moved>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<Bookmark>,
}

/// Shows everything in a store that another one needs to take its place.
///
/// It changes nothing. The rows are those of one moment only while nobody writes, which is for the caller to see to. A
/// page is bounded by the number of rows that is asked for. What is passing is no part of it: routes, tickets, one-time
/// codes, limits, answers to REST requests, owed notifications, dead letters and the log.
///
/// A row that cannot be read is an error: a copy without it would not be one.
#[async_trait]
pub trait ExportSource: Send + Sync {
    /// Rows of a sort behind a place, as [`Moved::at`] leaves them; of devices, those whose login is not over.
    async fn rows(
        &self,
        kind: MovedKind,
        after: Option<&Bookmark>,
        count: usize,
        at: Timestamp,
    ) -> Result<MovedPage, StoreError>;
}

/// Tells one import from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportId(pub u64);

/// Whether an import may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportBegun {
    /// It may, and the store is marked as unfinished.
    Begun,
    /// The same import was begun before and not finished; it writes everything once more.
    Again,
    /// Another one was begun and not finished.
    Other,
    /// The store holds something.
    NotEmpty {
        /// A table in which there is something.
        table: &'static str,
    },
}

/// Takes what [`ExportSource`] shows of another store.
///
/// From `begin` to `finish` the store is marked as unfinished, durably, and nobody serves from it. Rows are written as
/// they are: nothing is published, no consumer of the log hears of them, and the next sequence of a chat follows its head.
/// Writing a row again changes nothing, so an import that was interrupted is begun again with the same id.
#[async_trait]
pub trait ImportTarget: Send + Sync {
    /// Marks an empty store as unfinished.
    async fn begin(&self, id: ImportId) -> Result<ImportBegun, StoreError>;

    /// Writes rows; they are durable before it returns `Ok`.
    async fn write(&self, rows: Vec<Moved>) -> Result<(), StoreError>;

    /// Takes the mark away.
    async fn finish(&self) -> Result<(), StoreError>;

    /// Whether the mark is there: nobody may serve from the store.
    async fn is_unfinished(&self) -> Result<bool, StoreError>;
}
