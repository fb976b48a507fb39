use async_trait::async_trait;
use domain::limits::RETENTION;
use domain::{
    Chat, ChatId, ClientMessageId, DeliveryState, DirectPair, Invitation, Member, Message, MessageUpdate, Passkey,
    PushDevice, Restrictions, Session, Timestamp, User, UserId,
};

use crate::{Head, MemberReactions, MessageKey, PageBookmark, Receipt, StoreError, UserKey};

/// The kinds of rows that an export contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExportKind {
    /// Users.
    User,
    /// Sign-in keys of users.
    UserKey,
    /// Contacts of users.
    Contact,
    /// Login sessions.
    Session,
    /// Devices that receive notifications.
    PushDevice,
    /// Chats, with their heads.
    Chat,
    /// Pairs that have a direct chat.
    Pair,
    /// Members, with their watermarks.
    Member,
    /// Messages.
    Message,
    /// Send keys that a retry may still use.
    Send,
    /// Blocks of users.
    Block,
    /// Restrictions of users.
    Restriction,
    /// Invitations of users to groups, pending and declined ones.
    Invitation,
    /// Passkeys of users.
    Passkey,
    /// Updates of messages.
    Update,
    /// Reactions of members on messages.
    Reactions,
}

impl ExportKind {
    /// All kinds, in export order: a kind comes after the kinds that it refers to.
    pub const ALL: [Self; 16] = [
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
        Self::Restriction,
        Self::Invitation,
        Self::Passkey,
        Self::Update,
        Self::Reactions,
    ];

    /// The name of the kind in files and reports.
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
            Self::Restriction => "restriction",
            Self::Invitation => "invitation",
            Self::Passkey => "passkey",
            Self::Update => "update",
            Self::Reactions => "reactions",
        }
    }
}

/// One row of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moved {
    /// A user.
    User(User),
    /// A sign-in key and its user.
    UserKey {
        /// The sign-in key.
        key: UserKey,
        /// The user whom the key signs in.
        user_id: UserId,
    },
    /// An entry of a contact list.
    Contact {
        /// The owner of the list.
        user_id: UserId,
        /// The listed user.
        contact_id: UserId,
    },
    /// A login session.
    Session(Session),
    /// A device that receives notifications.
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
        /// The pair of users.
        pair: DirectPair,
        /// The chat of the pair.
        chat_id: ChatId,
    },
    /// A member of a chat.
    Member {
        /// The chat.
        chat_id: ChatId,
        /// The member.
        member: Member,
        /// The member's watermarks, and when they moved.
        delivery_state: DeliveryState,
    },
    /// A message.
    Message(Message),
    /// A send key that a retry may still use.
    Send(ExportedSend),
    /// A block.
    Block {
        /// The user who has blocked.
        user_id: UserId,
        /// The blocked user.
        blocked_id: UserId,
    },
    /// The restrictions of a user.
    Restriction {
        /// The restricted user.
        user_id: UserId,
        /// Their restrictions.
        restrictions: Restrictions,
    },
    /// An invitation.
    Invitation(Invitation),
    /// A passkey.
    Passkey(Passkey),
    /// An update of a message.
    Update(MessageUpdate),
    /// The reactions of a member on a message.
    Reactions {
        /// The message.
        message: MessageKey,
        /// The member and their reactions.
        member: MemberReactions,
    },
}

/// The stored data of a send, so that a retry after the move gets the first receipt (G2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedSend {
    /// The chat.
    pub chat_id: ChatId,
    /// The sender of the message.
    pub sender_id: UserId,
    /// The client's id of the send.
    pub client_message_id: ClientMessageId,
    /// The receipt of the send.
    pub receipt: Receipt,
    /// The fingerprint that a retry must match: [`NewMessage::fingerprint`](crate::NewMessage::fingerprint).
    pub fingerprint: [u8; 16],
}

impl Moved {
    /// The kind of the row.
    pub fn kind(&self) -> ExportKind {
        match self {
            Self::User(_) => ExportKind::User,
            Self::UserKey { .. } => ExportKind::UserKey,
            Self::Contact { .. } => ExportKind::Contact,
            Self::Session(_) => ExportKind::Session,
            Self::PushDevice(_) => ExportKind::PushDevice,
            Self::Chat { .. } => ExportKind::Chat,
            Self::Pair { .. } => ExportKind::Pair,
            Self::Member { .. } => ExportKind::Member,
            Self::Message(_) => ExportKind::Message,
            Self::Send(_) => ExportKind::Send,
            Self::Block { .. } => ExportKind::Block,
            Self::Restriction { .. } => ExportKind::Restriction,
            Self::Invitation(_) => ExportKind::Invitation,
            Self::Passkey(_) => ExportKind::Passkey,
            Self::Update(_) => ExportKind::Update,
            Self::Reactions { .. } => ExportKind::Reactions,
        }
    }

    /// The row as of `moment`: `None` if it has expired by then. If the last message of a chat has expired, its preview
    /// is removed (G11). Stores purge expired rows at times of their own; this makes an export independent of those
    /// times.
    pub fn at(mut self, moment: Timestamp) -> Option<Self> {
        let is_over = match &mut self {
            Self::Session(session) => session.expires_at <= moment,
            Self::Invitation(invitation) => invitation.is_over(moment),
            Self::Message(message) => message.is_expired(moment),
            Self::Update(update) => update.is_expired(moment),
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
            | Self::Restriction { .. }
            | Self::Passkey(_)
            | Self::Reactions { .. }
            | Self::PushDevice(_)
            | Self::Pair { .. }
            | Self::Member { .. } => false,
        };
        (!is_over).then_some(self)
    }
}

/// One page of all rows of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportPage {
    /// The rows, in the source's order. A page before the last one may be empty.
    pub rows: Vec<Moved>,
    /// The start of the next page; `None` after the last page.
    pub next: Option<PageBookmark>,
}

/// Exports every row that another store needs to replace this one.
///
/// An export never writes. The pages form a consistent snapshot only while no process writes to the store; the caller
/// ensures that. The requested number of rows bounds each page. Transient data is not exported: routes, tickets,
/// one-time codes, rate limits, responses to REST requests, pending notifications, dead letters and the log.
///
/// A row that does not decode is an error, because a copy without it would be incomplete.
#[async_trait]
pub trait ExportSource: Send + Sync {
    /// Rows of a kind after a bookmark, each as [`Moved::at`] returns it. Devices with an expired session are omitted.
    async fn rows(
        &self,
        kind: ExportKind,
        after: Option<&PageBookmark>,
        count: usize,
        at: Timestamp,
    ) -> Result<ExportPage, StoreError>;
}

/// The id of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportId(pub u64);

/// Whether an import may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportAdmission {
    /// The import may begin, and the store is marked as unfinished.
    Begun,
    /// The same import was begun before and not finished; it writes all rows again.
    Again,
    /// Another import was begun and not finished.
    Other,
    /// The store is not empty.
    NotEmpty {
        /// A table with at least one row.
        table: &'static str,
    },
}

/// Imports the rows that [`ExportSource`] exports from another store.
///
/// From `begin` to `finish` the store is durably marked as unfinished, and no process may serve from it. Rows are
/// written unchanged. An import publishes no events, so consumers of the log do not see the rows. The next sequence of
/// a chat continues after its head. Writing a row twice changes nothing, so an interrupted import restarts with the
/// same id.
#[async_trait]
pub trait ImportTarget: Send + Sync {
    /// Marks an empty store as unfinished.
    async fn begin(&self, id: ImportId) -> Result<ImportAdmission, StoreError>;

    /// Writes rows; they are durable before the call returns `Ok`.
    async fn write(&self, rows: Vec<Moved>) -> Result<(), StoreError>;

    /// Removes the mark.
    async fn finish(&self) -> Result<(), StoreError>;

    /// Whether the store is marked as unfinished. If so, no process may serve from it.
    async fn is_unfinished(&self) -> Result<bool, StoreError>;
}
