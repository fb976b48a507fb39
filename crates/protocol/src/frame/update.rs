//! Updates of messages on the wire: the frame that requests one, the push that announces it, and the state that they
//! leave in a message.

use bytes::Bytes;
use domain::{
    ChatId, ClientMessageId, Edited, Message, MessageState, MessageUpdate, Reaction, ReactionCount, Sequence,
    Timestamp, UpdateAction, UpdateKind, UserId,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::from_client::{InvalidField, invalid, read_body};
use super::from_server::{MessageBody, encode};
use crate::integer::integer;
use crate::schema;

/// An update of a message to be requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateMessage {
    /// The sender's id for the update, the same on every retry.
    pub client_message_id: ClientMessageId,
    /// The chat.
    pub chat_id: ChatId,
    /// The sequence of the message.
    pub target: Sequence,
    /// The action on the message.
    pub action: UpdateAction,
}

/// The action of an update on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ActionName {
    /// Replaces content, content type and metadata.
    Edit,
    /// Deletes the message for everyone.
    Delete,
    /// Adds a reaction.
    React,
    /// Removes a reaction.
    Unreact,
}

/// Payload of `update_message`.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = UpdateMessage)]
pub(crate) struct UpdatePayload {
    /// The sender's id for the update, the same on every retry.
    #[schema(value_type = String, format = "uuid")]
    pub(crate) client_message_id: ClientMessageId,
    #[schema(value_type = schema::ChatId)]
    pub(crate) chat_id: ChatId,
    /// The sequence of the message.
    #[serde(deserialize_with = "integer")]
    #[schema(value_type = u64)]
    pub(crate) sequence: Sequence,
    pub(crate) action: ActionName,
    /// Of `edit`: 1 to 4096 bytes of UTF-8 without NUL.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub(crate) content: Option<String>,
    /// Of `edit`; defaults to `text/plain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::ContentType>)]
    pub(crate) content_type: Option<String>,
    /// Of `edit`: a JSON object of at most 1024 bytes. It replaces the one of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<Map<String, Value>>,
    /// Of `react` and `unreact`: an emoji or a short code of 1 to 64 bytes in Unicode's composed form (NFC), without
    /// spaces, and without invisible or misleading characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, min_length = 1)]
    pub(crate) reaction: Option<String>,
}

impl UpdatePayload {
    pub(crate) fn validate(self) -> Result<UpdateMessage, InvalidField> {
        let Self { client_message_id, chat_id, sequence, action, content, content_type, metadata, reaction } = self;
        let reaction = || {
            let text = reaction.ok_or_else(|| InvalidField::missing("reaction"))?;
            text.parse::<Reaction>()
                .map_err(|error| InvalidField { field: "reaction", error: invalid(error.to_string()) })
        };
        let action = match action {
            ActionName::Edit => {
                let content = content.ok_or_else(|| InvalidField::missing("content"))?;
                UpdateAction::Edit(read_body(content, content_type, metadata)?)
            }
            ActionName::Delete => UpdateAction::Delete,
            ActionName::React => UpdateAction::React(reaction()?),
            ActionName::Unreact => UpdateAction::Unreact(reaction()?),
        };
        Ok(UpdateMessage { client_message_id, chat_id, target: sequence, action })
    }
}

impl From<&UpdateMessage> for UpdatePayload {
    fn from(update: &UpdateMessage) -> Self {
        let UpdateMessage { client_message_id, chat_id, target, action } = update;
        let (name, body, reaction) = match action {
            UpdateAction::Edit(body) => (ActionName::Edit, Some(body), None),
            UpdateAction::Delete => (ActionName::Delete, None, None),
            UpdateAction::React(reaction) => (ActionName::React, None, Some(reaction)),
            UpdateAction::Unreact(reaction) => (ActionName::Unreact, None, Some(reaction)),
        };
        Self {
            client_message_id: *client_message_id,
            chat_id: *chat_id,
            sequence: *target,
            action: name,
            content: body.map(|body| body.content.as_str().to_owned()),
            content_type: body.map(|body| body.content_type.as_str().to_owned()),
            metadata: body.and_then(|body| body.metadata.as_ref()).map(domain::Metadata::to_object),
            reaction: reaction.map(|reaction| reaction.as_str().to_owned()),
        }
    }
}

/// What an update did to its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub enum UpdateName {
    Edited,
    Deleted,
    Reacted,
    Unreacted,
    /// A kind that a later version introduced.
    #[serde(other)]
    Unknown,
}

impl UpdateName {
    /// Every kind that the server announces.
    pub(crate) const ANNOUNCED: [Self; 4] = [Self::Edited, Self::Deleted, Self::Reacted, Self::Unreacted];
}

impl From<&UpdateKind> for UpdateName {
    fn from(kind: &UpdateKind) -> Self {
        match kind {
            UpdateKind::Edited => Self::Edited,
            UpdateKind::Deleted => Self::Deleted,
            UpdateKind::Reacted(_) => Self::Reacted,
            UpdateKind::Unreacted(_) => Self::Unreacted,
        }
    }
}

/// An update of a message, with a sequence of its own among the messages of the chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct UpdateBody {
    #[schema(value_type = schema::ChatId)]
    pub chat_id: ChatId,
    #[schema(value_type = u64)]
    pub sequence: Sequence,
    /// The sequence of the message.
    #[schema(value_type = u64)]
    pub target_sequence: Sequence,
    #[schema(value_type = schema::UserId)]
    pub user_id: UserId,
    #[schema(value_type = schema::UpdateKind)]
    pub kind: UpdateName,
    /// The reaction that was added or removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub reaction: Option<Reaction>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Present only on the own devices of the user who made the update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = "uuid", required = false)]
    pub client_message_id: Option<ClientMessageId>,
}

impl UpdateBody {
    /// The update as `reader` sees it: its author also sees its `client_message_id`.
    pub fn new(update: &MessageUpdate, reader: Option<UserId>) -> Self {
        Self {
            chat_id: update.chat_id,
            sequence: update.sequence,
            target_sequence: update.target,
            user_id: update.user_id,
            kind: (&update.kind).into(),
            reaction: update.kind.reaction().cloned(),
            created_at: update.created_at,
            client_message_id: (reader == Some(update.user_id)).then_some(update.client_message_id),
        }
    }
}

/// Payload of `message_updated`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct MessageUpdated<'a> {
    pub update: UpdateBody,
    /// The message in its new state, or a later one; absent if it was deleted or has expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<MessageBody<'static>>, required = false)]
    pub message: Option<MessageBody<'a>>,
}

/// The `message_updated` push of an update, encoded for `reader` without copying the message.
pub fn update_body(update: &MessageUpdate, message: Option<&Message>, reader: Option<UserId>) -> Bytes {
    let message = message.map(|message| MessageBody::new(message, reader));
    encode("message_updated", None, &MessageUpdated { update: UpdateBody::new(update, reader), message })
}

/// What updates have changed in a message, besides its content. Of two copies of a message, the one with the higher
/// `revision` is newer; a message without a state has revision 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StateBody {
    /// The sequence of the last update.
    #[schema(value_type = u64)]
    pub revision: Sequence,
    /// The time of the last edit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub edited_at: Option<Timestamp>,
    /// The number of edits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edit_count: Option<u32>,
    /// The reactions, in the order of their first use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub reactions: Vec<ReactionBody>,
}

/// A reaction to a message, with the number of members who have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct ReactionBody {
    #[schema(value_type = String)]
    pub reaction: Reaction,
    pub count: u32,
    /// Whether the reader has it. Absent in pushes and in a sync: there the updates say who reacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mine: Option<bool>,
}

impl StateBody {
    /// The state of a message; `None` if nothing has updated it.
    pub fn of(state: &MessageState) -> Option<Self> {
        let MessageState { revision, edited, reactions } = state;
        if *revision == Sequence::ZERO {
            return None;
        }
        let body = |ReactionCount { reaction, count }: &ReactionCount| ReactionBody {
            reaction: reaction.clone(),
            count: *count,
            mine: None,
        };
        Some(Self {
            revision: *revision,
            edited_at: edited.map(|edited| edited.at),
            edit_count: edited.map(|edited| edited.count),
            reactions: reactions.iter().map(body).collect(),
        })
    }

    /// The same, with `mine` for a reader who has these reactions.
    #[must_use]
    pub fn with_own(mut self, own: &[Reaction]) -> Self {
        for known in &mut self.reactions {
            known.mine = Some(own.contains(&known.reaction));
        }
        self
    }
}

impl From<StateBody> for MessageState {
    fn from(body: StateBody) -> Self {
        let StateBody { revision, edited_at, edit_count, reactions } = body;
        let edited = edited_at.map(|at| Edited { at, count: edit_count.unwrap_or(1) });
        let count = |ReactionBody { reaction, count, .. }| ReactionCount { reaction, count };
        Self { revision, edited, reactions: reactions.into_iter().map(count).collect() }
    }
}
