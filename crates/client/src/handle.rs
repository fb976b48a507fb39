use std::pin::Pin;
use std::task::{Context, Poll};

use domain::{ChatId, ContentType, Sequence, UserId};
use protocol::frame::{SendMessage, SendMessageAck};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::{Closed, SendError};

/// Acts on a session: sends, marks, types, closes. Clones act on the same one.
#[derive(Clone, Debug)]
pub struct ClientHandle {
    commands: mpsc::Sender<Command>,
}

#[derive(Debug)]
pub(crate) enum Command {
    Send { message: SendMessage, outcome: oneshot::Sender<Result<SendMessageAck, SendError>> },
    MarkRead { chat_id: ChatId, sequence: Sequence },
    Typing { chat_id: ChatId, is_typing: bool },
    Watch { user_ids: Vec<UserId> },
    Unwatch { user_ids: Vec<UserId> },
    Close { done: oneshot::Sender<()> },
}

impl ClientHandle {
    pub(crate) fn new(commands: mpsc::Sender<Command>) -> Self {
        Self { commands }
    }

    /// Sends a text and waits until it is durable. Offline it waits for the next connection.
    pub async fn send(&self, chat_id: ChatId, text: impl Into<String>) -> Result<SendMessageAck, SendError> {
        let message = SendMessage {
            client_message_id: Uuid::new_v4().into(),
            chat_id,
            content: text.into().try_into()?,
            content_type: ContentType::Text,
            ttl: None,
        };
        self.submit(message).await?.await
    }

    /// Queues a send and returns what becomes of it. Sends of one chat go out in the order of these calls.
    ///
    /// The caller gives the `client_message_id`, and can repeat the call with the same one in a later run.
    pub async fn submit(&self, message: SendMessage) -> Result<Ack, Closed> {
        let (outcome, receiver) = oneshot::channel();
        self.command(Command::Send { message, outcome }).await?;
        Ok(Ack { receiver })
    }

    /// Says that everything up to `sequence` has been read.
    pub async fn mark_read(&self, chat_id: ChatId, sequence: Sequence) -> Result<(), Closed> {
        self.command(Command::MarkRead { chat_id, sequence }).await
    }

    /// Says that the user types, or no longer does.
    pub async fn typing(&self, chat_id: ChatId, is_typing: bool) -> Result<(), Closed> {
        self.command(Command::Typing { chat_id, is_typing }).await
    }

    /// Asks for the presence of users and for its changes from now on, also after a reconnection. What is known, and then each
    /// change, comes as [`ClientEvent::Presence`](crate::ClientEvent::Presence). A connection can watch 1000 users.
    pub async fn watch(&self, user_ids: Vec<UserId>) -> Result<(), Closed> {
        self.command(Command::Watch { user_ids }).await
    }

    /// Ends that.
    pub async fn unwatch(&self, user_ids: Vec<UserId>) -> Result<(), Closed> {
        self.command(Command::Unwatch { user_ids }).await
    }

    /// Acknowledges what the application has taken, and ends the session. Returns when that is written.
    pub async fn close(&self) -> Result<(), Closed> {
        let (done, receiver) = oneshot::channel();
        self.command(Command::Close { done }).await?;
        receiver.await.map_err(|_| Closed)
    }

    async fn command(&self, command: Command) -> Result<(), Closed> {
        self.commands.send(command).await.map_err(|_| Closed)
    }
}

/// What becomes of a send: a future of its acknowledgement.
#[derive(Debug)]
pub struct Ack {
    receiver: oneshot::Receiver<Result<SendMessageAck, SendError>>,
}

impl Future for Ack {
    type Output = Result<SendMessageAck, SendError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.receiver).poll(cx).map(|outcome| outcome.unwrap_or(Err(SendError::Closed(Closed))))
    }
}
