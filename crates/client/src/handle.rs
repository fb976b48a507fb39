use std::pin::Pin;
use std::task::{Context, Poll};

use domain::{Body, ChatId, ContentType, Sequence, UpdateAction, UserId};
use protocol::frame::{SendMessage, SendMessageAck, UpdateMessage};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::{SendError, SessionClosed};

/// Controls a session: sends, updates messages, marks as read, announces typing, closes. Clones control the same session.
#[derive(Clone, Debug)]
pub struct ClientHandle {
    commands: mpsc::Sender<HandleCommand>,
}

/// Resolves the [`Ack`] of a send or an update.
pub(crate) type OutcomeSender = oneshot::Sender<Result<SendMessageAck, SendError>>;

#[derive(Debug)]
pub(crate) enum HandleCommand {
    Send { message: SendMessage, outcome: OutcomeSender },
    Update { update: UpdateMessage, outcome: OutcomeSender },
    MarkRead { chat_id: ChatId, sequence: Sequence },
    Typing { chat_id: ChatId, is_typing: bool },
    Watch { user_ids: Vec<UserId> },
    Unwatch { user_ids: Vec<UserId> },
    Close { done: oneshot::Sender<()> },
}

impl ClientHandle {
    pub(crate) fn new(commands: mpsc::Sender<HandleCommand>) -> Self {
        Self { commands }
    }

    /// Sends a text and waits until it is durable. Without a connection it waits for the next one.
    pub async fn send(&self, chat_id: ChatId, text: impl Into<String>) -> Result<SendMessageAck, SendError> {
        let message = SendMessage {
            client_message_id: Uuid::new_v4().into(),
            chat_id,
            body: Body::new(text.into().try_into()?, ContentType::Text),
            ttl: None,
        };
        self.submit(message).await?.await
    }

    /// Queues a send and returns a future of its outcome. Sends of one chat keep the order of these calls.
    ///
    /// The caller chooses the `client_message_id`, and can repeat the call with the same one in a later run.
    pub async fn submit(&self, message: SendMessage) -> Result<Ack, SessionClosed> {
        let (outcome, receiver) = oneshot::channel();
        self.command(HandleCommand::Send { message, outcome }).await?;
        Ok(Ack { receiver })
    }

    /// Replaces the content of one of the user's own messages by a text, and waits until the edit is durable. Without a
    /// connection it waits for the next one.
    ///
    /// `sequence` is that of the message, and that of the acknowledgement is the one of the update. The new state of the
    /// message arrives as [`ClientEvent::Updated`](crate::ClientEvent::Updated), and
    /// [`with_queued`](crate::with_queued) shows it before. A refusal has its reason in `details.reason`.
    pub async fn edit(
        &self,
        chat_id: ChatId,
        sequence: Sequence,
        text: impl Into<String>,
    ) -> Result<SendMessageAck, SendError> {
        let body = Body::new(text.into().try_into()?, ContentType::Text);
        self.update(chat_id, sequence, UpdateAction::Edit(body)).await
    }

    /// Deletes a message for everyone: one of the user's own, or as an admin of a group any message. Waits like
    /// [`edit`](Self::edit).
    pub async fn delete(&self, chat_id: ChatId, sequence: Sequence) -> Result<SendMessageAck, SendError> {
        self.update(chat_id, sequence, UpdateAction::Delete).await
    }

    /// Adds a reaction of the user to a message: an emoji or a short code. Waits like [`edit`](Self::edit).
    pub async fn react(
        &self,
        chat_id: ChatId,
        sequence: Sequence,
        reaction: &str,
    ) -> Result<SendMessageAck, SendError> {
        self.update(chat_id, sequence, UpdateAction::React(reaction.parse()?)).await
    }

    /// Removes a reaction of the user from a message. Waits like [`edit`](Self::edit).
    pub async fn unreact(
        &self,
        chat_id: ChatId,
        sequence: Sequence,
        reaction: &str,
    ) -> Result<SendMessageAck, SendError> {
        self.update(chat_id, sequence, UpdateAction::Unreact(reaction.parse()?)).await
    }

    /// Queues an update of a message, in one order with the sends of its chat, and returns a future of its outcome.
    ///
    /// The caller chooses the `client_message_id`, and can repeat the call with the same one in a later run.
    pub async fn submit_update(&self, update: UpdateMessage) -> Result<Ack, SessionClosed> {
        let (outcome, receiver) = oneshot::channel();
        self.command(HandleCommand::Update { update, outcome }).await?;
        Ok(Ack { receiver })
    }

    async fn update(
        &self,
        chat_id: ChatId,
        target: Sequence,
        action: UpdateAction,
    ) -> Result<SendMessageAck, SendError> {
        let client_message_id = Uuid::new_v4().into();
        self.submit_update(UpdateMessage { client_message_id, chat_id, target, action }).await?.await
    }

    /// Marks all messages up to `sequence` as read.
    pub async fn mark_read(&self, chat_id: ChatId, sequence: Sequence) -> Result<(), SessionClosed> {
        self.command(HandleCommand::MarkRead { chat_id, sequence }).await
    }

    /// Announces that the user is typing, or has stopped.
    pub async fn typing(&self, chat_id: ChatId, is_typing: bool) -> Result<(), SessionClosed> {
        self.command(HandleCommand::Typing { chat_id, is_typing }).await
    }

    /// Subscribes to the presence of users, also across reconnects. The current presence and each change arrive as
    /// [`ClientEvent::Presence`](crate::ClientEvent::Presence). A connection can subscribe to 1000 users.
    pub async fn watch(&self, user_ids: Vec<UserId>) -> Result<(), SessionClosed> {
        self.command(HandleCommand::Watch { user_ids }).await
    }

    /// Ends presence subscriptions.
    pub async fn unwatch(&self, user_ids: Vec<UserId>) -> Result<(), SessionClosed> {
        self.command(HandleCommand::Unwatch { user_ids }).await
    }

    /// Acknowledges the processed messages and ends the session. Returns after these frames are written.
    pub async fn close(&self) -> Result<(), SessionClosed> {
        let (done, receiver) = oneshot::channel();
        self.command(HandleCommand::Close { done }).await?;
        receiver.await.map_err(|_| SessionClosed)
    }

    async fn command(&self, command: HandleCommand) -> Result<(), SessionClosed> {
        self.commands.send(command).await.map_err(|_| SessionClosed)
    }
}

/// The outcome of a send or an update: a future of its acknowledgement.
#[derive(Debug)]
pub struct Ack {
    receiver: oneshot::Receiver<Result<SendMessageAck, SendError>>,
}

impl Future for Ack {
    type Output = Result<SendMessageAck, SendError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.receiver).poll(cx).map(|outcome| outcome.unwrap_or(Err(SendError::Closed(SessionClosed))))
    }
}
