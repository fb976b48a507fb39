use async_trait::async_trait;
use aws_lc_rs::digest;
use domain::{
    ChatId, ClientMessageId, ConnectionId, Content, ContentType, Message, MessageId, Sequence, Timestamp, Ttl, UserId,
};

use crate::StoreError;

/// A send on its way into the store, with everything decided but its sequence.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// The chat it is for.
    pub chat_id: ChatId,
    /// Who sends it; membership is checked inside the commit.
    pub sender_id: UserId,
    /// The sender's name for the send; with chat and sender it identifies it.
    pub client_message_id: ClientMessageId,
    /// The id the message gets if the send is new.
    pub message_id: MessageId,
    /// What it says.
    pub content: Content,
    /// How to read it.
    pub content_type: ContentType,
    /// How long it lives; as long as the chat says, if absent.
    pub ttl: Option<Ttl>,
    /// The time it gets if the send is new.
    pub created_at: Timestamp,
    /// The connection it came in on, which gets no push of it.
    pub origin_connection_id: Option<ConnectionId>,
}

impl NewMessage {
    /// What a retry has in common with the first try, for stores to remember: what was asked, so a retry is one even after
    /// the chat has changed how long its messages live. 16 bytes of SHA-256: nobody finds another send with the same.
    pub fn fingerprint(&self) -> [u8; 16] {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(&self.ttl.map_or(0, |ttl| ttl.as_duration().as_secs()).to_be_bytes());
        context.update(self.content_type.as_str().as_bytes());
        // No content has a NUL, so the type cannot run into it.
        context.update(&[0]);
        context.update(self.content.as_str().as_bytes());
        let mut fingerprint = [0; 16];
        fingerprint.copy_from_slice(&context.finish().as_ref()[..16]);
        fingerprint
    }

    /// The message that the send becomes at its place in a chat whose messages live for `message_ttl` unless they say
    /// otherwise.
    pub fn at(self, sequence: Sequence, message_ttl: Option<Ttl>) -> Message {
        Message {
            message_id: self.message_id,
            chat_id: self.chat_id,
            sequence,
            sender_id: self.sender_id,
            client_message_id: self.client_message_id,
            content: self.content,
            content_type: self.content_type,
            created_at: self.created_at,
            expires_at: self.ttl.or(message_ttl).map(|ttl| self.created_at + ttl.as_duration()),
        }
    }
}

/// What the sender is told about a committed send; the same for every retry of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The message's id.
    pub message_id: MessageId,
    /// The message's place in its chat.
    pub sequence: Sequence,
    /// When it was first committed.
    pub created_at: Timestamp,
}

/// What became of one send of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// A new message, durable now.
    New(Receipt),
    /// The retry of a send that was committed before, in this batch or earlier.
    Duplicate(Receipt),
    /// Nothing was written and no sequence used.
    Refused(SendRefusal),
}

/// Why a send leaves no trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendRefusal {
    /// There is no such chat.
    ChatNotFound,
    /// The sender is not a member at the moment of the commit (G4).
    NotAMember,
    /// The same send id came before with other content, content type or ttl (G2).
    KeyReused,
    /// The chat is a direct one, and the other has blocked the sender at the moment of the commit.
    Blocked,
    /// The chat is a direct one, and the sender has blocked the other.
    Blocking,
    /// The chat has no head row: a correctness incident that an operator repairs.
    CounterMissing,
    /// A row of the chat does not decode: an operator has to look. The other chats of the batch do not suffer for it.
    Unreadable,
}

/// Writes messages: the commit.
///
/// `append` judges each send of the batch in its order, as if they came one by one: membership first, then the
/// idempotency key `(chat, sender, client_message_id)`, then blocks ([`BlockStore`](crate::BlockStore)), then the next
/// sequence of the chat. Message, key, head and event of the log become durable in one atomic commit, before `append`
/// returns `Ok`; a crash leaves all of them or none.
/// Outcomes are in the order of the batch.
///
/// Sequences of a chat start at 1, grow by exactly 1, and become visible in order (G3): a refused or repeated send uses
/// none. A key is remembered for 7 days (`domain::limits::RETENTION`). An error may hide a success: the caller retries
/// with the same client id. Batches handed over by one caller, each awaited before the next, commit in that order;
/// concurrent batches commit in some order.
#[async_trait]
pub trait MessageWriter: Send + Sync {
    /// Commits a batch of sends, of any chats.
    async fn append(&self, batch: Vec<NewMessage>) -> Result<Vec<Appended>, StoreError>;
}

/// The row of a chat that the commit moves: its last sequence, and its last message for the inbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The sequence of the last message; 0 in an empty chat.
    pub sequence: Sequence,
    /// The last message, while there is one.
    pub last_message: Option<LastMessage>,
    /// A copy of `Chat::message_ttl`, written with it, so that the commit of a send needs no other row of the chat.
    pub message_ttl: Option<Ttl>,
}

impl Head {
    /// The head of a chat whose last message this is.
    pub fn at(message: &Message, message_ttl: Option<Ttl>) -> Self {
        let last_message = LastMessage {
            message_id: message.message_id,
            sender_id: message.sender_id,
            preview: message.preview(),
            created_at: message.created_at,
            expires_at: message.expires_at,
        };
        Self { sequence: message.sequence, last_message: Some(last_message), message_ttl }
    }
}

/// What an inbox shows of a chat's last message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastMessage {
    /// Its id.
    pub message_id: MessageId,
    /// Who sent it.
    pub sender_id: UserId,
    /// The start of its content; absent if the content is opaque.
    pub preview: Option<Content>,
    /// When it was committed.
    pub created_at: Timestamp,
    /// When it is gone.
    pub expires_at: Option<Timestamp>,
}

/// How much a page may hold. A page has at least one row if there is one, however long.
#[derive(Clone, Copy, Debug)]
pub struct PageBounds {
    /// Rows to examine, at the most.
    pub count: usize,
    /// Bytes of content, at the most.
    pub bytes: usize,
}

/// A run of messages, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The messages that are not expired.
    pub messages: Vec<Message>,
    /// The last sequence this page accounts for: everything up to it is in the page, expired or purged. At the end of
    /// the chat it is the head.
    pub examined: Sequence,
    /// The head of the chat at the moment of the read.
    pub head: Sequence,
}

/// A question for how much a member has not read in a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreadQuery {
    /// The chat.
    pub chat_id: ChatId,
    /// The member.
    pub reader: UserId,
    /// The member's read watermark.
    pub read: Sequence,
}

/// Reads messages, strongly consistent: what an acknowledged `append` wrote is seen by every later read (G6).
///
/// Reads never wait for a commit. An expired message is in none of them (G11). Whether the asker may read is for the
/// caller to check.
#[async_trait]
pub trait MessageReader: Send + Sync {
    /// The head of a chat; `None` if its row is missing.
    async fn head(&self, chat_id: ChatId) -> Result<Option<Head>, StoreError>;

    /// The heads of many chats, in their order, in one round.
    async fn heads(&self, chat_ids: &[ChatId]) -> Result<Vec<Option<Head>>, StoreError>;

    /// Messages above `after`, ascending.
    async fn after(
        &self,
        chat_id: ChatId,
        after: Sequence,
        bounds: PageBounds,
        now: Timestamp,
    ) -> Result<Page, StoreError>;

    /// Up to `count` messages below `before`, newest first. Expired ones do not count.
    async fn before(
        &self,
        chat_id: ChatId,
        before: Sequence,
        count: usize,
        now: Timestamp,
    ) -> Result<Vec<Message>, StoreError>;

    /// How many messages lie above each read watermark that the reader did not send (G10), in the order asked, in one
    /// round. Watermark and head alone cannot say it, because the reader's own messages and expired ones lie between
    /// them; so the rows do. To keep an inbox cheap, the first `UNREAD_EXACT_MAX` rows above a watermark are looked at,
    /// and every sequence further up counts.
    async fn unread(&self, of: &[UnreadQuery], now: Timestamp) -> Result<Vec<u64>, StoreError>;

    /// One message by its id.
    async fn by_id(&self, message_id: MessageId, now: Timestamp) -> Result<Option<Message>, StoreError>;
}
