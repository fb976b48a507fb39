use std::future::Future;
use std::time::Duration;

use domain::{
    Body, ChatChange, ChatCommand, ChatId, ChatName, ChatRefusal, ClientMessageId, ContentType, DirectPair, Message,
    MessageId, Sequence, Timestamp, Ttl, UserId,
};
use futures_util::future::join_all;
use ulid::Ulid;
use uuid::Uuid;

use super::ContractStores;
use ports::{
    AppendOutcome, Clock, Head, Ids, NewDirectChat, NewGroup, NewMessage, Page, PageBounds, RandomIds, Receipt,
    StoreError, SystemClock,
};

/// The reason of every `expect` on a port: contract tests run on a healthy engine.
pub(super) const WORKS: &str = "the engine is healthy";

/// Bounds that no page of a contract test reaches.
pub(super) const UNBOUNDED: PageBounds = PageBounds { count: 10_000, bytes: usize::MAX };

/// The real time, because a store may purge expired rows by its own clock.
pub(super) fn now() -> Timestamp {
    SystemClock.now()
}

/// A new unique id.
pub(super) fn fresh<T: From<Ulid>>() -> T {
    RandomIds.ulid().into()
}

/// A new unique client message id.
pub(super) fn fresh_client_message_id() -> ClientMessageId {
    Uuid::new_v4().into()
}

/// A new send of plain text.
pub(super) fn new_message(chat_id: ChatId, sender_id: UserId, text: &str) -> NewMessage {
    NewMessage {
        chat_id,
        sender_id,
        client_message_id: fresh_client_message_id(),
        message_id: fresh::<MessageId>(),
        body: body(text, ContentType::Text),
        ttl: None,
        ttl_max: None,
        created_at: now(),
        origin_connection_id: None,
    }
}

/// The text as content of another type.
pub(super) fn body(text: &str, content_type: ContentType) -> Body {
    Body::new(text.to_owned().try_into().expect("contracts send valid content"), content_type)
}

/// The body with a JSON object as its metadata.
pub(super) fn with_metadata(body: Body, object: &str) -> Body {
    body.with_metadata(Some(object.to_owned().try_into().expect("contracts send valid metadata")))
}

/// The same send with an expiry one minute in the past. A store may purge its message at any moment.
pub(super) fn expired(message: NewMessage) -> NewMessage {
    NewMessage { ttl: Ttl::from_secs(60), created_at: now().minus(Duration::from_secs(120)), ..message }
}

/// A retry of the send as a gateway makes it: later, with a new message id.
pub(super) fn retry_of(message: &NewMessage) -> NewMessage {
    NewMessage { message_id: fresh(), created_at: message.created_at + Duration::from_secs(1), ..message.clone() }
}

/// A request for a new group.
pub(super) fn new_group(owner: UserId, members: &[UserId]) -> NewGroup {
    let members = members.to_vec();
    NewGroup { chat_id: fresh(), name: chat_name("group"), created_by: owner, members, created_at: now() }
}

/// A request for the direct chat of a pair, by one of them.
pub(super) fn direct_chat(created_by: UserId, other: UserId) -> NewDirectChat {
    let pair = DirectPair::new(created_by, other).expect("the two are different");
    NewDirectChat { chat_id: fresh(), pair, created_by, created_at: now() }
}

/// A name of a chat.
pub(super) fn chat_name(text: &str) -> ChatName {
    text.to_owned().try_into().expect("contracts give valid names")
}

/// Runs all futures concurrently on all threads of the runtime, and returns their results in order.
pub(super) async fn at_once<T: Send + 'static>(
    futures: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    join_all(futures.into_iter().map(tokio::spawn))
        .await
        .into_iter()
        .map(|outcome| outcome.expect("a contract's task runs to its end"))
        .collect()
}

impl ContractStores {
    /// Creates a group of `owner` and others.
    pub(super) async fn group(&self, owner: UserId, members: &[UserId]) -> ChatId {
        let group = new_group(owner, members);
        self.chat_writer.create_group(group).await.expect(WORKS).chat().chat_id
    }

    /// Applies a command of a member to a chat.
    pub(super) async fn apply(
        &self,
        chat_id: ChatId,
        actor: UserId,
        command: ChatCommand,
    ) -> Result<ChatChange, ChatRefusal> {
        self.chat_writer.apply(chat_id, actor, command, now()).await.expect(WORKS)
    }

    /// Creates a group of one user; returns both ids.
    pub(super) async fn chat_of_one(&self) -> (ChatId, UserId) {
        let owner = fresh();
        (self.group(owner, &[]).await, owner)
    }

    /// Creates a group of one user with `len` messages.
    pub(super) async fn chat_with_head(&self, len: u64) -> (ChatId, UserId) {
        let (chat_id, sender_id) = self.chat_of_one().await;
        self.fill(chat_id, sender_id, len).await;
        (chat_id, sender_id)
    }

    /// Sends `len` messages to a chat.
    pub(super) async fn fill(&self, chat_id: ChatId, sender_id: UserId, len: u64) {
        let batch = (0..len).map(|_| new_message(chat_id, sender_id, "earlier")).collect();
        for appended in self.message_writer.append(batch).await.expect(WORKS) {
            appended.expect_new();
        }
    }

    /// Commits one send.
    pub(super) async fn send(&self, message: NewMessage) -> AppendOutcome {
        let outcomes = self.message_writer.append(vec![message]).await.expect(WORKS);
        <[AppendOutcome; 1]>::try_from(outcomes).expect("one send has one outcome")[0]
    }

    /// Commits sends to a chat to which others write at the same time, and retries after every lost race.
    pub(super) async fn append_racing(&self, batch: Vec<NewMessage>) -> Vec<Receipt> {
        let outcomes = loop {
            match self.message_writer.append(batch.clone()).await {
                Err(StoreError::Unavailable(_)) => {}
                outcomes => break outcomes.expect(WORKS),
            }
        };
        let receipt = |outcome| match outcome {
            AppendOutcome::New(receipt) | AppendOutcome::Duplicate(receipt) => receipt,
            refused @ AppendOutcome::Refused(_) => panic!("{refused:?}"),
        };
        outcomes.into_iter().map(receipt).collect()
    }

    /// The head of a chat.
    pub(super) async fn head(&self, chat_id: ChatId) -> Head {
        self.message_reader.head(chat_id).await.expect(WORKS).expect("the chat has a head row")
    }

    /// The head sequence of a chat.
    pub(super) async fn head_sequence(&self, chat_id: ChatId) -> Sequence {
        self.head(chat_id).await.sequence
    }

    /// All messages of a chat above a sequence.
    pub(super) async fn after(&self, chat_id: ChatId, after: u64) -> Page {
        self.message_reader.after(chat_id, Sequence(after), UNBOUNDED, now()).await.expect(WORKS)
    }

    /// All messages of a chat.
    pub(super) async fn messages(&self, chat_id: ChatId) -> Vec<Message> {
        self.after(chat_id, 0).await.messages
    }
}

pub(super) trait ExpectNew {
    /// The receipt of a send that must be new.
    fn expect_new(self) -> Receipt;
}

impl ExpectNew for AppendOutcome {
    #[track_caller]
    fn expect_new(self) -> Receipt {
        match self {
            Self::New(receipt) => receipt,
            other => panic!("expected a new message, got {other:?}"),
        }
    }
}

/// The sequences of messages, in order.
pub(super) fn sequences(messages: &[Message]) -> Vec<u64> {
    messages.iter().map(|message| message.sequence.0).collect()
}
