use std::future::Future;
use std::time::Duration;

use domain::{
    ChatChange, ChatCommand, ChatId, ChatName, ChatRefusal, ClientMessageId, ContentType, DirectPair, Message,
    MessageId, Sequence, Timestamp, Ttl, UserId,
};
use futures_util::future::join_all;
use ulid::Ulid;
use uuid::Uuid;

use super::Stores;
use crate::{
    Appended, Clock, Head, Ids, NewDirectChat, NewGroup, NewMessage, Page, PageBounds, RandomIds, Receipt, SystemClock,
};

/// Why a contract expects an `Ok`: outages are for fault tests, here the engine is well.
pub(super) const WORKS: &str = "a store under contract answers";

/// Bounds that no page of a contract reaches.
pub(super) const UNBOUNDED: PageBounds = PageBounds { count: 10_000, bytes: usize::MAX };

/// The real time, because a store may sweep what is past by its own clock.
pub(super) fn now() -> Timestamp {
    SystemClock.now()
}

/// An id that nobody else has.
pub(super) fn fresh<T: From<Ulid>>() -> T {
    RandomIds.ulid().into()
}

/// A client id that nobody else has.
pub(super) fn fresh_client_message_id() -> ClientMessageId {
    Uuid::new_v4().into()
}

/// A send of plain text that nobody has tried before.
pub(super) fn new_message(chat_id: ChatId, sender_id: UserId, text: &str) -> NewMessage {
    NewMessage {
        chat_id,
        sender_id,
        client_message_id: fresh_client_message_id(),
        message_id: fresh::<MessageId>(),
        content: text.to_owned().try_into().expect("contracts send valid content"),
        content_type: ContentType::Text,
        ttl: None,
        created_at: now(),
        origin_connection_id: None,
    }
}

/// The send as it would be of somebody whose message had expired a minute ago. A store may purge it at any moment.
pub(super) fn expired(message: NewMessage) -> NewMessage {
    NewMessage { ttl: Ttl::from_secs(60), created_at: now().minus(Duration::from_secs(120)), ..message }
}

/// The same send, tried again as a gateway would: with a new message id, later.
pub(super) fn retry_of(message: &NewMessage) -> NewMessage {
    NewMessage { message_id: fresh(), created_at: message.created_at + Duration::from_secs(1), ..message.clone() }
}

/// A group that nobody has asked for before.
pub(super) fn new_group(owner: UserId, members: &[UserId]) -> NewGroup {
    let members = members.to_vec();
    NewGroup { chat_id: fresh(), name: chat_name("group"), created_by: owner, members, created_at: now() }
}

/// The direct chat of a pair, as one of them asks for it.
pub(super) fn direct_chat(created_by: UserId, other: UserId) -> NewDirectChat {
    let pair = DirectPair::new(created_by, other).expect("the two are different");
    NewDirectChat { chat_id: fresh(), pair, created_by, created_at: now() }
}

/// A name of a chat.
pub(super) fn chat_name(text: &str) -> ChatName {
    text.to_owned().try_into().expect("contracts give valid names")
}

/// Runs all futures at once, on all threads of the runtime, and returns what they say in their order.
pub(super) async fn at_once<T: Send + 'static>(
    futures: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    join_all(futures.into_iter().map(tokio::spawn))
        .await
        .into_iter()
        .map(|outcome| outcome.expect("a contract's task runs to its end"))
        .collect()
}

impl Stores {
    /// A new group of `owner` and others.
    pub(super) async fn group(&self, owner: UserId, members: &[UserId]) -> ChatId {
        let group = new_group(owner, members);
        self.chat_writer.create_group(group).await.expect(WORKS).chat().chat_id
    }

    /// Does what a member asks of a chat.
    pub(super) async fn apply(
        &self,
        chat_id: ChatId,
        actor: UserId,
        command: ChatCommand,
    ) -> Result<ChatChange, ChatRefusal> {
        self.chat_writer.apply(chat_id, actor, command, now()).await.expect(WORKS)
    }

    /// A new group of one, and that one.
    pub(super) async fn chat_of_one(&self) -> (ChatId, UserId) {
        let owner = fresh();
        (self.group(owner, &[]).await, owner)
    }

    /// A new group of one with `len` messages in it.
    pub(super) async fn chat_with_head(&self, len: u64) -> (ChatId, UserId) {
        let (chat_id, sender_id) = self.chat_of_one().await;
        self.fill(chat_id, sender_id, len).await;
        (chat_id, sender_id)
    }

    /// Sends `len` messages into a chat.
    pub(super) async fn fill(&self, chat_id: ChatId, sender_id: UserId, len: u64) {
        let batch = (0..len).map(|_| new_message(chat_id, sender_id, "earlier")).collect();
        for appended in self.message_writer.append(batch).await.expect(WORKS) {
            appended.expect_new();
        }
    }

    /// Commits one send.
    pub(super) async fn send(&self, message: NewMessage) -> Appended {
        let outcomes = self.message_writer.append(vec![message]).await.expect(WORKS);
        <[Appended; 1]>::try_from(outcomes).expect("one send has one outcome")[0]
    }

    /// The head of a chat.
    pub(super) async fn head(&self, chat_id: ChatId) -> Head {
        self.message_reader.head(chat_id).await.expect(WORKS).expect("the chat has a head row")
    }

    /// The sequence of the head of a chat.
    pub(super) async fn head_sequence(&self, chat_id: ChatId) -> Sequence {
        self.head(chat_id).await.sequence
    }

    /// Everything in a chat above a sequence.
    pub(super) async fn after(&self, chat_id: ChatId, after: u64) -> Page {
        self.message_reader.after(chat_id, Sequence(after), UNBOUNDED, now()).await.expect(WORKS)
    }

    /// Everything in a chat.
    pub(super) async fn messages(&self, chat_id: ChatId) -> Vec<Message> {
        self.after(chat_id, 0).await.messages
    }
}

impl Appended {
    /// The receipt of a send that must be new.
    #[track_caller]
    pub(super) fn expect_new(self) -> Receipt {
        match self {
            Self::New(receipt) => receipt,
            other => panic!("expected a new message, got {other:?}"),
        }
    }
}

/// The sequences of messages, in their order.
pub(super) fn sequences(messages: &[Message]) -> Vec<u64> {
    messages.iter().map(|message| message.sequence.0).collect()
}
