use async_trait::async_trait;
use aws_lc_rs::digest;
use domain::{
    Body, ChatId, ChatRefusal, ClientMessageId, ConnectionId, Content, Message, MessageId, MessageState, MessageUpdate,
    Reaction, Sequence, StorageLimit, Timestamp, Ttl, UpdateRefusal, UserId,
};

use crate::{NewEntry, StoreError, UnreadCount, UnreadQuery};

/// A send to be committed, complete except for its sequence.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// The chat to send to.
    pub chat_id: ChatId,
    /// The sender; the commit checks their membership.
    pub sender_id: UserId,
    /// The client's id of the send. Together with chat and sender it is the idempotency key.
    pub client_message_id: ClientMessageId,
    /// The id of the message if the send is new.
    pub message_id: MessageId,
    /// The body of the message.
    pub body: Body,
    /// The lifetime of the message; the default of the chat if absent.
    pub ttl: Option<Ttl>,
    /// The longest lifetime of any message of the service; unlimited if absent.
    pub ttl_max: Option<Ttl>,
    /// The time of the message if the send is new.
    pub created_at: Timestamp,
    /// The connection that the send came from; fanout does not push the message to it.
    pub origin_connection_id: Option<ConnectionId>,
}

impl NewMessage {
    /// A digest of the parts that a retry must repeat, for stores to keep with the send key. It covers the requested
    /// ttl, not the resulting expiry, so a retry still matches after the chat's message ttl or `ttl_max` has changed. 16
    /// bytes of SHA-256 make a second send with the same fingerprint infeasible.
    pub fn fingerprint(&self) -> [u8; 16] {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(&self.ttl.map_or(0, |ttl| ttl.as_duration().as_secs()).to_be_bytes());
        digest_of_body(&mut context, &self.body);
        let mut fingerprint = [0; 16];
        fingerprint.copy_from_slice(&context.finish().as_ref()[..16]);
        fingerprint
    }

    /// The lifetime of the message: its ttl or else `message_ttl`, the default of the chat, and at most `ttl_max`.
    pub fn lifetime(&self, message_ttl: Option<Ttl>) -> Option<Ttl> {
        match (self.ttl.or(message_ttl), self.ttl_max) {
            (Some(ttl), Some(ttl_max)) => Some(ttl.min(ttl_max)),
            (ttl, ttl_max) => ttl.or(ttl_max),
        }
    }

    /// The message of this send at `sequence`, in a chat with the default `message_ttl`.
    pub fn at(self, sequence: Sequence, message_ttl: Option<Ttl>) -> Message {
        let expires_at = self.lifetime(message_ttl).map(|lifetime| self.created_at + lifetime.as_duration());
        Message {
            message_id: self.message_id,
            chat_id: self.chat_id,
            sequence,
            sender_id: self.sender_id,
            client_message_id: self.client_message_id,
            body: self.body,
            created_at: self.created_at,
            expires_at,
            state: MessageState::default(),
        }
    }
}

/// Adds a body to a digest. No part has a NUL, so the separator keeps them apart. A body without metadata has the digest
/// of a version that knew none.
pub(crate) fn digest_of_body(context: &mut digest::Context, body: &Body) {
    let Body { content, content_type, metadata } = body;
    context.update(content_type.as_str().as_bytes());
    context.update(&[0]);
    context.update(content.as_str().as_bytes());
    if let Some(metadata) = metadata {
        context.update(&[0]);
        context.update(metadata.as_str().as_bytes());
    }
}

/// The receipt of a committed send; every retry returns the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The message's id.
    pub message_id: MessageId,
    /// The message's sequence in its chat.
    pub sequence: Sequence,
    /// The time of the first commit.
    pub created_at: Timestamp,
}

/// The location of a message, and its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageKey {
    /// Its chat.
    pub chat_id: ChatId,
    /// Its sequence.
    pub sequence: Sequence,
    /// Its id.
    pub message_id: MessageId,
}

impl From<&Message> for MessageKey {
    fn from(message: &Message) -> Self {
        Self { chat_id: message.chat_id, sequence: message.sequence, message_id: message.message_id }
    }
}

/// The reactions of a member on one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberReactions {
    /// The member.
    pub user_id: UserId,
    /// In the order in which the member added them.
    pub reactions: Vec<Reaction>,
}

/// The outcome of one send of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOutcome {
    /// A new message, now durable.
    New(Receipt),
    /// A retry of a send that was committed before, in this batch or earlier.
    Duplicate(Receipt),
    /// The send was refused. It wrote nothing and used no sequence.
    Refused(SendRefusal),
}

/// Why the store refused a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendRefusal {
    /// The chat does not exist.
    ChatNotFound,
    /// The sender was not a member at the time of the commit (G4).
    NotAMember,
    /// The same `client_message_id` was used before with another body or ttl (G2).
    KeyReused,
    /// The chat is direct, and the other user had blocked the sender at the time of the commit.
    Blocked,
    /// The chat is direct, and the sender has blocked the other user.
    Blocking,
    /// The sender is suspended ([`RestrictionStore`](crate::RestrictionStore)).
    Suspended,
    /// The chat has no head row: a correctness incident that an operator has to repair.
    CounterMissing,
    /// The store has no space for new messages. Retries of committed sends are still answered, and reads continue.
    StorageFull(StorageLimit),
    /// A row of the chat does not decode; an operator has to inspect it. Other chats of the batch are not affected.
    Unreadable,
    /// The send is an update that its message does not permit.
    Update(UpdateRefusal),
}

impl SendRefusal {
    /// The refusal of a change of a direct chat's settings, given the block that refuses sends.
    pub fn of_settings(self) -> ChatRefusal {
        if self == Self::Blocking { ChatRefusal::Blocking } else { ChatRefusal::Blocked }
    }
}

/// Commits the entries of chats: messages, and updates of messages.
///
/// `commit` decides each entry in the order of the batch, as if the entries arrived one by one. It checks suspension
/// ([`RestrictionStore`](crate::RestrictionStore)) first, then membership, then the idempotency key
/// `(chat, sender, client_message_id)`, then blocks ([`BlockStore`](crate::BlockStore)). Then it allocates the next
/// sequence of the chat. Entry, send key, head and log event become durable in one atomic commit, before `commit`
/// returns `Ok`. A crash leaves all of them or none. Outcomes are in the order of the batch.
///
/// Sequences of a chat start at 1, grow by exactly 1, and become visible in order (G3). A refused or repeated send uses
/// no sequence. The event has the number of its sequence and the changes of the chat before it
/// ([`EventNumber`](domain::EventNumber)). The store keeps a send key for 7 days (`domain::limits::RETENTION`). An `Err`
/// may hide a successful commit, so the caller retries with the same `client_message_id`. Batches of one caller that
/// awaits each before the next commit in that order. The order of concurrent batches is undefined, and a store may
/// refuse a batch that has lost the race for its chat several times. `ingest` has one batch of a chat in progress.
///
/// An update is checked like a message, and then by [`domain::apply_update`] on the state of its message at the time of
/// the commit. The new state of the message, the member's reactions, and the preview in the head are part of the commit.
/// A deletion sets the expiry time of the message, so that it is purged, erased and announced like an expired one (G11).
#[async_trait]
pub trait MessageWriter: Send + Sync {
    /// Commits a batch of entries of any chats.
    async fn commit(&self, batch: Vec<NewEntry>) -> Result<Vec<AppendOutcome>, StoreError>;

    /// Commits a batch of messages.
    async fn append(&self, batch: Vec<NewMessage>) -> Result<Vec<AppendOutcome>, StoreError> {
        self.commit(batch.into_iter().map(NewEntry::Message).collect()).await
    }
}

/// The head row of a chat, which every commit to the chat updates: the head sequence, and the last message for the
/// inbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The sequence of the last entry, a message or an update; 0 in an empty chat.
    pub sequence: Sequence,
    /// The last message, if the chat has one.
    pub last_message: Option<LastMessage>,
    /// A copy of `Chat::message_ttl`, updated together with it, so that the commit of a send reads no other row of the
    /// chat for it.
    pub message_ttl: Option<Ttl>,
    /// The number of events of the chat so far that are changes of it or its members
    /// ([`EventBody::is_change`](domain::EventBody::is_change)). Events of an earlier version do not count.
    pub changes: u64,
}

impl Head {
    /// The head of a chat with `message` as its last message.
    pub fn at(message: &Message, message_ttl: Option<Ttl>, changes: u64) -> Self {
        let last_message = LastMessage {
            message_id: message.message_id,
            sequence: message.sequence,
            sender_id: message.sender_id,
            preview: message.body.preview(),
            created_at: message.created_at,
            expires_at: message.expires_at,
        };
        Self { sequence: message.sequence, last_message: Some(last_message), message_ttl, changes }
    }

    /// The head after an update that left `message` in this state.
    #[must_use]
    pub fn updated(self, sequence: Sequence, message: &Message) -> Self {
        let last_message = self.last_message.map(|last| {
            if last.message_id != message.message_id {
                return last;
            }
            LastMessage { preview: message.body.preview(), expires_at: message.expires_at, ..last }
        });
        Self { sequence, last_message, ..self }
    }
}

/// The last message of a chat, as the inbox shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastMessage {
    /// Its id.
    pub message_id: MessageId,
    /// Its sequence.
    pub sequence: Sequence,
    /// The sender of the message.
    pub sender_id: UserId,
    /// A prefix of the content; absent if the content is opaque.
    pub preview: Option<Content>,
    /// The time of the commit.
    pub created_at: Timestamp,
    /// The expiry time.
    pub expires_at: Option<Timestamp>,
}

/// The limits of a page. A page contains at least one row if one exists, however large.
#[derive(Clone, Copy, Debug)]
pub struct PageBounds {
    /// Maximum number of rows to examine.
    pub count: usize,
    /// Maximum number of bytes of the messages as JSON (`Message::json_size`).
    pub bytes: usize,
}

/// A page of entries, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The messages that have not expired, in their current state.
    pub messages: Vec<Message>,
    /// The updates that have not expired.
    pub updates: Vec<MessageUpdate>,
    /// The messages of these updates that are not in `messages`, in their current state and by sequence. One that has
    /// expired or was deleted is absent.
    pub updated: Vec<Message>,
    /// The last sequence that this page covers: every entry up to it is in the page, expired or purged. On the last
    /// page it is the head sequence.
    pub examined: Sequence,
    /// The head sequence of the chat at the time of the read.
    pub head: Sequence,
}

/// Reads messages with strong consistency: every read that starts after `commit` returned `Ok` sees its entries (G6).
///
/// Reads never wait for a commit. No read returns an expired message (G11). The caller checks whether the user may
/// read.
#[async_trait]
pub trait MessageReader: Send + Sync {
    /// The head of a chat; `None` if the head row is missing.
    async fn head(&self, chat_id: ChatId) -> Result<Option<Head>, StoreError>;

    /// The heads of many chats, in the order of the arguments, in one round trip.
    async fn heads(&self, chat_ids: &[ChatId]) -> Result<Vec<Option<Head>>, StoreError>;

    /// Messages and updates above `after`, ascending. The bounds count both, and the bodies of updated messages.
    async fn after(
        &self,
        chat_id: ChatId,
        after: Sequence,
        bounds: PageBounds,
        now: Timestamp,
    ) -> Result<Page, StoreError>;

    /// Up to `count` messages below `before`, newest first. Expired messages do not count, nor do updates.
    async fn before(
        &self,
        chat_id: ChatId,
        before: Sequence,
        count: usize,
        now: Timestamp,
    ) -> Result<Vec<Message>, StoreError>;

    /// The number of messages above each read watermark that the reader did not send (G10), in the order of the
    /// queries, in one round trip. The reader's own messages and expired ones lie between watermark and head, so the
    /// store counts rows. To keep an inbox cheap, the number of examined rows is bounded ([`UnreadTally`]). A count up
    /// to `UNREAD_EXACT_MAX` is exact, unless more than `UNREAD_ROWS_MAX` rows lie above the watermark. An inexact
    /// count is a lower bound.
    ///
    /// [`UnreadTally`]: crate::UnreadTally
    async fn unread(&self, of: &[UnreadQuery], now: Timestamp) -> Result<Vec<UnreadCount>, StoreError>;

    /// One message by its id, unless it has expired.
    async fn by_id(&self, message_id: MessageId, now: Timestamp) -> Result<Option<Message>, StoreError>;

    /// The reactions of one member on messages, in the order of the arguments, in one round trip.
    async fn own_reactions(&self, messages: &[MessageKey], user_id: UserId) -> Result<Vec<Vec<Reaction>>, StoreError>;

    /// Up to `count` members with reactions on a message, after `after` in the order of their ids.
    async fn reactions(
        &self,
        message: MessageKey,
        after: Option<UserId>,
        count: usize,
    ) -> Result<Vec<MemberReactions>, StoreError>;
}
