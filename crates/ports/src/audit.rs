use async_trait::async_trait;
use domain::{
    Chat, ChatId, ChatType, ClientMessageId, ConnectionId, DirectPair, Event, EventBody, Member, Message, MessageId,
    Sequence, Timestamp, UserId, Watermarks,
};

use crate::{GatewayId, Head, Position, Receipt, Route, StoreError};

/// Members of a chat that an audit is shown, at the most: twice what a group may have.
pub const AUDIT_MEMBERS_MAX: usize = 2 * domain::limits::GROUP_MEMBERS_MAX;

/// Where a page of an audit ended. Its text is the source's own, means the same after a restart, and is fit for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bookmark(pub String);

/// A part of all rows of a sort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditPage<T> {
    /// The rows, in the source's order. There may be none before the end.
    pub rows: Vec<Audited<T>>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<Bookmark>,
}

/// A row as an audit finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audited<T> {
    /// The table it is in.
    pub table: &'static str,
    /// Its key, as an operator would look for it.
    pub key: String,
    /// What it takes of what [`AuditSource::row_bytes_max`] allows.
    pub bytes: usize,
    /// How it goes.
    pub end: End,
    /// What it says, or why it cannot be read. Never a content, a token or a phone number.
    pub row: Result<T, String>,
}

/// How a row goes one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Somebody deletes it, or nobody ever.
    Lasting,
    /// It is kept for a time and has a time at which it goes.
    Timed,
    /// It is kept for a time and nothing says when it goes.
    Missing,
}

/// Everything about a chat but its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatRows {
    /// The chat itself.
    pub chat: Audited<Chat>,
    /// Its members, by user id; [`AUDIT_MEMBERS_MAX`] at the most.
    pub members: Vec<MemberRows>,
    /// For a direct chat, the one that its two members' pair leads to.
    pub pair_leads_to: Option<ChatId>,
    /// Its head row, read behind all others.
    pub head: Option<Audited<Head>>,
    /// Since when something of the chat has waited to get into the log; `None` if nothing does, or nothing ever has to.
    pub waiting_since: Option<Timestamp>,
}

/// What is stored of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRows {
    /// Whose it is.
    pub user_id: UserId,
    /// The member, as the chat has them.
    pub member: Audited<Member>,
    /// The row by which the user finds the chat.
    pub listing: Listing,
    /// How far they have come.
    pub watermarks: Option<Audited<Watermarks>>,
}

/// The row by which a user finds a chat, beside the one by which the chat finds the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// It is not there.
    Missing,
    /// It is there, and says the same as far as it says anything.
    Same,
    /// It says something else.
    Different,
}

/// A message, and what leads to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRows {
    /// The sequence under which it is stored.
    pub sequence: Sequence,
    /// The message.
    pub message: Audited<Message>,
    /// Where its id leads.
    pub id_leads_to: Lead,
    /// What its send key says: within `domain::limits::RETENTION` there is one.
    pub send_key: Option<Receipt>,
}

/// Where the id of a message leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lead {
    /// The engine sees to it by itself, with an index of the messages.
    Indexed,
    /// Nowhere, or the row that should say it cannot be read.
    Nowhere,
    /// To this place.
    To(ChatId, Sequence),
}

/// A send key, and what it leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendKeyRows {
    /// The chat.
    pub chat_id: ChatId,
    /// Who sent.
    pub sender_id: UserId,
    /// Their name for the send.
    pub client_message_id: ClientMessageId,
    /// What the sender is told.
    pub receipt: Receipt,
    /// The message at that sequence, if there is one that can be read.
    pub message: Option<Message>,
    /// The head of the chat, read behind the others.
    pub head: Option<Sequence>,
}

/// A row by which a user finds a chat, and whether the chat has a row for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListingRows {
    /// The user.
    pub user_id: UserId,
    /// The chat.
    pub chat_id: ChatId,
    /// Whether they are a member of it.
    pub is_member: bool,
}

/// The row of a pair of users, and what it leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairRows {
    /// The two.
    pub pair: DirectPair,
    /// Their chat.
    pub chat_id: ChatId,
    /// What sort of chat that is, if it is there.
    pub chat_type: Option<ChatType>,
    /// Its members, three at the most.
    pub members: Vec<UserId>,
}

/// What is stored at a sequence of a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredMessage {
    /// The message's id; `None` if its row cannot be read.
    pub message_id: Option<MessageId>,
    /// When it is gone.
    pub expires_at: Option<Timestamp>,
}

/// Whether a chat is there, and how far it has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChatStanding {
    /// Whether it has a row.
    pub exists: bool,
    /// Its head, if that is there and can be read.
    pub head: Option<Sequence>,
}

/// Shows everything that a store holds to whoever checks it.
///
/// It reads and changes nothing, and can be asked while others write. Every page is bounded by the number of rows that
/// is asked for, so an audit of any size takes the memory of one page. Whatever is there when an audit begins and stays
/// is shown once; what comes or goes meanwhile may be shown or not.
///
/// Reads are strongly consistent. What is in one answer is as of one moment where the engine has views; otherwise it is
/// read in an order in which a write in between makes no harm where that is possible: heads behind what they bound.
/// Where it is not, rows may not go together for a moment. So nothing is believed to be wrong that is not wrong again
/// when the same is asked for once more.
///
/// A row that cannot be read is shown as such, with its table and key, and holds up nothing. `Err` means that the store
/// did not answer.
#[async_trait]
pub trait AuditSource: Send + Sync {
    /// How many rows there are, roughly: for a progress bar.
    async fn size(&self) -> Result<u64, StoreError>;

    /// The most that a row may take.
    fn row_bytes_max(&self) -> usize;

    /// All chats.
    async fn chats(&self, after: Option<&Bookmark>, count: usize) -> Result<AuditPage<ChatId>, StoreError>;

    /// One chat; `None` if it is gone.
    async fn chat(&self, chat_id: ChatId) -> Result<Option<ChatRows>, StoreError>;

    /// Messages of a chat from a sequence on, ascending; none at the end.
    async fn messages(&self, chat_id: ChatId, from: Sequence, count: usize) -> Result<Vec<MessageRows>, StoreError>;

    /// All rows by which users find their chats.
    async fn listings(&self, after: Option<&Bookmark>, count: usize) -> Result<AuditPage<ListingRows>, StoreError>;

    /// All pairs with a direct chat.
    async fn pairs(&self, after: Option<&Bookmark>, count: usize) -> Result<AuditPage<PairRows>, StoreError>;

    /// All send keys that are not void.
    async fn send_keys(&self, after: Option<&Bookmark>, count: usize) -> Result<AuditPage<SendKeyRows>, StoreError>;

    /// All rows that none of the others shows: of them only what they take and how they go is told.
    async fn others(&self, after: Option<&Bookmark>, count: usize) -> Result<AuditPage<()>, StoreError>;

    /// What is stored at each of these places, in their order.
    async fn stored(&self, places: &[(ChatId, Sequence)]) -> Result<Vec<Option<StoredMessage>>, StoreError>;

    /// How it stands with each of these chats, in their order.
    async fn standing(&self, chat_ids: &[ChatId]) -> Result<Vec<ChatStanding>, StoreError>;

    /// Sequences of a chat whose rows may be gone although the log does not say so yet; a bounded number. Where the log is
    /// part of the store there are none.
    async fn leaving(&self, chat_id: ChatId) -> Result<Vec<Sequence>, StoreError>;
}

/// A record of the log as an audit finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRow {
    /// Where it is.
    pub position: Position,
    /// When it happened.
    pub time: Timestamp,
    /// In which chat.
    pub chat_id: ChatId,
    /// What.
    pub what: Logged,
    /// Whether it got there after the audit had begun. It may explain an earlier one, and is not itself to be explained.
    pub came_since: bool,
}

impl LogRow {
    /// What an event at a place tells that was there before.
    pub fn of(position: Position, event: &Event) -> Self {
        let what = match &event.body {
            EventBody::MessagePersisted { message, .. } => Logged::Message {
                sequence: message.sequence,
                message_id: Some(message.message_id),
                expires_at: message.expires_at,
            },
            EventBody::MessagesExpired { sequences, .. } => Logged::Expired(sequences.clone()),
            EventBody::MembershipChanged { .. }
            | EventBody::ChatCreated { .. }
            | EventBody::ChatRenamed { .. }
            | EventBody::MessageTtlChanged { .. } => Logged::Change,
        };
        let (time, chat_id) = (event.event_time, event.body.chat_id());
        Self { position, time, chat_id, what, came_since: false }
    }
}

/// What a record of the log tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Logged {
    /// A message was committed.
    Message {
        /// At which sequence.
        sequence: Sequence,
        /// Its id, if the record has it.
        message_id: Option<MessageId>,
        /// When it is gone; `None` if it stays, or if the record does not say.
        expires_at: Option<Timestamp>,
    },
    /// Messages have expired and were purged.
    Expired(Vec<Sequence>),
    /// Something about the chat or its members.
    Change,
}

/// How far a group of consumers has come in a part of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerPlace {
    /// The group.
    pub group: String,
    /// The part, where there are several.
    pub part: String,
    /// The place of the next event that it has not committed.
    pub next: u64,
    /// The end of that part, read behind the place.
    pub end: u64,
}

/// Shows everything that a log holds to whoever checks it. Like [`AuditSource`] it changes nothing and can be asked while
/// others write.
#[async_trait]
pub trait AuditLog: Send + Sync {
    /// The records of all parts, each part from its beginning on, up to the end that it had when the audit began; then those
    /// that came by the time those had been read, and no others, or an audit of a busy log would have no end.
    async fn records(&self, after: Option<&Bookmark>, count: usize) -> Result<AuditPage<LogRow>, StoreError>;

    /// Whether each event is there once. Otherwise one may come again, behind later ones.
    fn has_each_once(&self) -> bool;

    /// Where the consumers are.
    async fn consumers(&self) -> Result<Vec<ConsumerPlace>, StoreError>;
}

/// A connection that a gateway's inventory names, and what else is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteRows {
    /// The connection.
    pub connection_id: ConnectionId,
    /// The gateway in whose inventory it is.
    pub gateway: GatewayId,
    /// What is known of it.
    pub route: Option<Route>,
    /// The gateways that its user's own set names for it.
    pub of_user: Vec<GatewayId>,
    /// Whether its user's set of gateways names its gateway.
    pub user_has_gateway: bool,
    /// Keys of it that are there and would stay for ever.
    pub without_expiry: Vec<String>,
}

/// Shows the routes of a fleet to whoever checks them. They may be lost at any moment, and are written all the time: what
/// does not go together is to be asked for again.
#[async_trait]
pub trait AuditRoutes: Send + Sync {
    /// The gateways that are known, live or not, by name.
    async fn gateways(&self) -> Result<Vec<GatewayId>, StoreError>;

    /// Connections of a gateway.
    async fn routes(
        &self,
        gateway: &GatewayId,
        after: Option<&Bookmark>,
        count: usize,
    ) -> Result<AuditPage<RouteRows>, StoreError>;
}
