use std::collections::BTreeMap;

use async_trait::async_trait;
use domain::{
    Chat, ChatId, ChatType, ClientMessageId, ConnectionId, DirectPair, Event, EventBody, Member, Message, MessageId,
    MessageUpdate, Reaction, Sequence, Timestamp, UserId, Watermarks,
};

use crate::{GatewayId, Head, Position, Receipt, Route, StoreError};

/// Maximum number of members of a chat that an audit page contains: twice the maximum size of a group.
pub const AUDIT_MEMBERS_MAX: usize = 2 * domain::limits::GROUP_MEMBERS_MAX;

/// The position after a page of an audit. The text is defined by the source, stays valid across restarts, and can be
/// stored in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageBookmark(pub String);

/// One page of all rows of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditPage<T> {
    /// The rows, in the source's order. A page before the last one may be empty.
    pub rows: Vec<AuditedRow<T>>,
    /// The start of the next page; `None` after the last page.
    pub next: Option<PageBookmark>,
}

/// A row as the audit reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedRow<T> {
    /// The table that holds the row.
    pub table: &'static str,
    /// The row's key, in the form in which an operator looks it up.
    pub key: String,
    /// The size of the row, which [`AuditSource::row_bytes_max`] bounds.
    pub bytes: usize,
    /// Whether the row expires.
    pub end: End,
    /// The decoded row, or the reason why it does not decode. The reason never contains message content, a token or a
    /// phone number.
    pub row: Result<T, String>,
}

/// Whether a row expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The row stays until it is deleted explicitly.
    Lasting,
    /// The row has a limited lifetime and an expiry time.
    Timed,
    /// The row should have a limited lifetime, but has no expiry time.
    Missing,
}

/// All rows of a chat except its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedChatRows {
    /// The row of the chat.
    pub chat: AuditedRow<Chat>,
    /// The members, by user id; at most [`AUDIT_MEMBERS_MAX`].
    pub members: Vec<MemberRows>,
    /// For a direct chat, the chat id stored for the pair of its two members.
    pub pair_leads_to: Option<ChatId>,
    /// The head row, read after all other rows.
    pub head: Option<AuditedRow<Head>>,
    /// The time since which the oldest event of the chat has been waiting for publication. `None` if no event is
    /// pending, or if the log is part of the store.
    pub waiting_since: Option<Timestamp>,
}

/// The stored rows of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRows {
    /// The member's user id.
    pub user_id: UserId,
    /// The member row of the chat.
    pub member: AuditedRow<Member>,
    /// The state of the user's listing row for the chat.
    pub listing: ListingState,
    /// The member's watermarks.
    pub watermarks: Option<AuditedRow<Watermarks>>,
}

/// The state of a listing row. A user's list of chats is read from listing rows; a chat's members are read from member
/// rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListingState {
    /// The row is missing.
    Missing,
    /// The row exists and agrees with the member row in every field that it has.
    Same,
    /// The row disagrees with the member row.
    Different,
}

/// A message, and the index rows that refer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRows {
    /// The sequence under which the message is stored.
    pub sequence: Sequence,
    /// The message row.
    pub message: AuditedRow<Message>,
    /// The location that the index of message ids gives for its id.
    pub id_leads_to: IndexedLocation,
    /// The receipt stored under its send key. A key exists for at least `domain::limits::RETENTION` after the send.
    pub send_key: Option<Receipt>,
    /// Whether an update is stored under the same sequence.
    pub is_update: bool,
    /// The number of members with each reaction, counted from their rows. `None` if they were not counted: the message
    /// has never been updated, or it changed while they were read.
    pub reactions: Option<ReactionCounts>,
}

/// The number of members with each reaction on a message.
pub type ReactionCounts = BTreeMap<Reaction, u32>;

/// Counts the reactions of one more member.
pub fn count_reactions(counts: &mut ReactionCounts, member: Vec<Reaction>) {
    for reaction in member {
        let count = counts.entry(reaction).or_default();
        *count = count.saturating_add(1);
    }
}

/// An update of a message, the message, and the send key that refers to the update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateRows {
    /// The sequence under which the update is stored.
    pub sequence: Sequence,
    /// The update row.
    pub update: AuditedRow<MessageUpdate>,
    /// The message that it has changed, if the message exists and decodes. It is read after the update.
    pub message: Option<Message>,
    /// The receipt stored under its send key. A key exists for at least `domain::limits::RETENTION` after the update.
    pub send_key: Option<Receipt>,
}

/// The location that the index of message ids gives for an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexedLocation {
    /// The engine maintains the index itself, so it cannot disagree with the messages.
    Indexed,
    /// The index row is missing or does not decode.
    Nowhere,
    /// The index gives this chat and sequence.
    To(ChatId, Sequence),
}

/// A send key, and the entry that it refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendKeyRows {
    /// The chat of the send.
    pub chat_id: ChatId,
    /// The author of the entry.
    pub sender_id: UserId,
    /// The client's id of the entry.
    pub client_message_id: ClientMessageId,
    /// The receipt that a retry returns.
    pub receipt: Receipt,
    /// The entry at the receipt's sequence, if it exists and decodes.
    pub entry: Option<SentEntry>,
    /// The head sequence of the chat, read after the other rows.
    pub head: Option<Sequence>,
}

/// The part of a stored entry that a send key refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentEntry {
    /// The id of the entry.
    pub message_id: MessageId,
    /// The author of the entry.
    pub sender_id: UserId,
    /// The client's id of the entry.
    pub client_message_id: ClientMessageId,
}

impl From<&Message> for SentEntry {
    fn from(message: &Message) -> Self {
        let Message { message_id, sender_id, client_message_id, .. } = *message;
        Self { message_id, sender_id, client_message_id }
    }
}

impl From<&MessageUpdate> for SentEntry {
    fn from(update: &MessageUpdate) -> Self {
        let MessageUpdate { update_id, user_id, client_message_id, .. } = *update;
        Self { message_id: update_id, sender_id: user_id, client_message_id }
    }
}

/// A listing row of a user's list of chats, and whether the chat has the matching member row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListingRows {
    /// The user of the row.
    pub user_id: UserId,
    /// The chat of the row.
    pub chat_id: ChatId,
    /// Whether the chat has a member row for the user.
    pub is_member: bool,
}

/// The row of a pair of users, and the chat that it refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairRows {
    /// The pair of users.
    pub pair: DirectPair,
    /// The chat that the row names.
    pub chat_id: ChatId,
    /// The type of that chat, if the chat exists.
    pub chat_type: Option<ChatType>,
    /// The members of that chat, at most three.
    pub members: Vec<UserId>,
}

/// The entry stored at a sequence of a chat: a message, or an update of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredEntry {
    /// The entry's id; `None` if the row does not decode.
    pub message_id: Option<MessageId>,
    /// The expiry time of the entry.
    pub expires_at: Option<Timestamp>,
    /// The sequence of the message that the entry has changed, if it is an update.
    pub target: Option<Sequence>,
}

impl StoredEntry {
    /// An entry whose row does not decode.
    pub const UNREADABLE: Self = Self { message_id: None, expires_at: None, target: None };
}

impl From<&Message> for StoredEntry {
    fn from(message: &Message) -> Self {
        Self { message_id: Some(message.message_id), expires_at: message.expires_at, target: None }
    }
}

impl From<&MessageUpdate> for StoredEntry {
    fn from(update: &MessageUpdate) -> Self {
        Self { message_id: Some(update.update_id), expires_at: update.expires_at, target: Some(update.target) }
    }
}

/// Whether a chat exists, and its head sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditedChatState {
    /// Whether the chat row exists.
    pub exists: bool,
    /// The head sequence, if the head row exists and decodes.
    pub head: Option<Sequence>,
}

/// Reads every row of a store for a consistency check.
///
/// An audit never writes and may run while other processes write. The requested number of rows bounds each page, so an
/// audit of any size needs the memory of one page. A row that exists during the whole audit is returned exactly once. A
/// row that is written or deleted during the audit may or may not be returned.
///
/// Reads are strongly consistent. If the engine has snapshots, one call reads one snapshot. Otherwise the adapter reads
/// rows in an order in which a concurrent write does not look like a violation, where such an order exists: a head is
/// read after the rows that it bounds. Where no such order exists, rows may disagree for a moment. Callers therefore
/// report a violation only if a second read still shows it.
///
/// A row that does not decode is returned as such, with its table and key, and does not stop the audit. `Err` means
/// that the store is unavailable.
#[async_trait]
pub trait AuditSource: Send + Sync {
    /// The approximate number of rows, for a progress bar.
    async fn size(&self) -> Result<u64, StoreError>;

    /// The maximum size of a row.
    fn row_bytes_max(&self) -> usize;

    /// The ids of all chats.
    async fn chats(&self, after: Option<&PageBookmark>, count: usize) -> Result<AuditPage<ChatId>, StoreError>;

    /// The rows of one chat; `None` if the chat no longer exists.
    async fn chat(&self, chat_id: ChatId) -> Result<Option<AuditedChatRows>, StoreError>;

    /// Messages of a chat from a sequence on, ascending; empty after the last message.
    async fn messages(&self, chat_id: ChatId, from: Sequence, count: usize) -> Result<Vec<MessageRows>, StoreError>;

    /// Updates of messages of a chat from a sequence on, ascending; empty after the last update.
    async fn updates(&self, chat_id: ChatId, from: Sequence, count: usize) -> Result<Vec<UpdateRows>, StoreError>;

    /// All listing rows.
    async fn listings(&self, after: Option<&PageBookmark>, count: usize) -> Result<AuditPage<ListingRows>, StoreError>;

    /// All pairs that have a direct chat.
    async fn pairs(&self, after: Option<&PageBookmark>, count: usize) -> Result<AuditPage<PairRows>, StoreError>;

    /// All send keys that are still valid.
    async fn send_keys(&self, after: Option<&PageBookmark>, count: usize)
    -> Result<AuditPage<SendKeyRows>, StoreError>;

    /// All rows that no other method of this trait returns. The page has only their size and whether they expire.
    async fn others(&self, after: Option<&PageBookmark>, count: usize) -> Result<AuditPage<()>, StoreError>;

    /// The entry stored at each of these locations, in the order of the arguments. A message, if a message and an update
    /// are stored there.
    async fn stored(&self, locations: &[(ChatId, Sequence)]) -> Result<Vec<Option<StoredEntry>>, StoreError>;

    /// The state of each of these chats, in the order of the arguments.
    async fn standing(&self, chat_ids: &[ChatId]) -> Result<Vec<AuditedChatState>, StoreError>;

    /// Sequences of a chat at which the message row may already be purged while the log does not have the purge event
    /// yet; a bounded number. Empty if the log is part of the store.
    async fn leaving(&self, chat_id: ChatId) -> Result<Vec<Sequence>, StoreError>;

    /// The ranges of sequences of a chat, first and last, that a restore has excluded from use. Empty if a restore of the
    /// store cannot reuse sequences that clients know.
    async fn passed_over(&self, _chat_id: ChatId) -> Result<Vec<(Sequence, Sequence)>, StoreError> {
        Ok(vec![])
    }
}

/// A record of the log as the audit reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedRecord {
    /// The position of the record.
    pub position: Position,
    /// The event time.
    pub time: Timestamp,
    /// The chat of the event.
    pub chat_id: ChatId,
    /// The part of the event that an audit compares with the store.
    pub what: LoggedChange,
    /// Whether the record was appended after the audit began. Such a record may explain an earlier finding, and is not
    /// checked itself.
    pub came_since: bool,
}

impl AuditedRecord {
    /// The row for `event` at `position`, with `came_since` unset.
    pub fn of(position: Position, event: &Event) -> Self {
        let what = match &event.body {
            EventBody::MessagePersisted { message, .. } => LoggedChange::Message {
                sequence: message.sequence,
                message_id: Some(message.message_id),
                expires_at: message.expires_at,
            },
            EventBody::MessageUpdated { update, .. } => LoggedChange::Message {
                sequence: update.sequence,
                message_id: Some(update.update_id),
                expires_at: update.expires_at,
            },
            EventBody::MessagesExpired { sequences, .. } => LoggedChange::Expired(sequences.clone()),
            EventBody::MembershipChanged { .. }
            | EventBody::ChatCreated { .. }
            | EventBody::ChatRenamed { .. }
            | EventBody::MessageTtlChanged { .. } => LoggedChange::Change,
        };
        let (time, chat_id) = (event.event_time, event.body.chat_id());
        Self { position, time, chat_id, what, came_since: false }
    }
}

/// The part of a log record that an audit compares with the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoggedChange {
    /// An entry was committed: a message, or an update of one.
    Message {
        /// The sequence of the entry.
        sequence: Sequence,
        /// The entry's id, if the record contains it.
        message_id: Option<MessageId>,
        /// The expiry time; `None` if the entry does not expire, or if the record does not contain the time.
        expires_at: Option<Timestamp>,
    },
    /// Messages expired and were purged.
    Expired(Vec<Sequence>),
    /// A change of the chat or of its members.
    Change,
}

/// The committed position of a consumer group in a partition of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerOffset {
    /// The consumer group.
    pub group: String,
    /// The name of the partition, if the log has several.
    pub part: String,
    /// The position of the next event after the last committed one.
    pub next: u64,
    /// The end of the partition, read after `next`.
    pub end: u64,
}

/// Reads every record of a log for a consistency check. Like [`AuditSource`], it never writes and may run while other
/// processes write.
#[async_trait]
pub trait AuditLog: Send + Sync {
    /// The records of all partitions. Each partition is read from its beginning to the end that it had when the audit
    /// began. Then follow the records that were appended during that read, and no later ones; otherwise the audit of a
    /// busy log would never end.
    async fn records(&self, after: Option<&PageBookmark>, count: usize)
    -> Result<AuditPage<AuditedRecord>, StoreError>;

    /// Whether the log contains each event exactly once. If `false`, an event may be repeated after later events.
    fn has_each_once(&self) -> bool;

    /// The committed positions of all consumer groups.
    async fn consumers(&self) -> Result<Vec<ConsumerOffset>, StoreError>;
}

/// A connection in a gateway's inventory, and the other rows of that connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteRows {
    /// The connection id.
    pub connection_id: ConnectionId,
    /// The gateway with this connection in its inventory.
    pub gateway: GatewayId,
    /// The route of the connection, if it exists.
    pub route: Option<Route>,
    /// The gateways that the user's set of connections names for this connection.
    pub of_user: Vec<GatewayId>,
    /// Whether the user's set of gateways contains this gateway.
    pub user_has_gateway: bool,
    /// Keys of this connection that exist without an expiry and would therefore never be deleted.
    pub without_expiry: Vec<String>,
}

/// Reads the routes of a fleet for a consistency check. Routes may be lost at any moment and change all the time, so a
/// caller reads rows that disagree once more before it reports them.
#[async_trait]
pub trait AuditRoutes: Send + Sync {
    /// The known gateways, live or not, by name.
    async fn gateways(&self) -> Result<Vec<GatewayId>, StoreError>;

    /// The connections in a gateway's inventory.
    async fn routes(
        &self,
        gateway: &GatewayId,
        after: Option<&PageBookmark>,
        count: usize,
    ) -> Result<AuditPage<RouteRows>, StoreError>;
}
