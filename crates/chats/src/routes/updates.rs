use axum::extract::State;
use domain::{ChatId, ClientMessageId, Message, Reaction, Sequence, UpdateAction, UserId};
use ports::{MessageKey, PageBounds, SendContent, SendRequest};
use protocol::frame::SendMessageAck;
use protocol::rest::{self, Data, Paged, Pagination};
use protocol::{ErrorCode, schema};
use serde::Deserialize;
use utoipa::IntoParams;

use super::RouteState;
use super::messages::ack_body;
use super::quotas::take_send;
use crate::Api;
use crate::http::{Caller, Cursor, Json, Limited, PagedList, Path, Query, RestError, page_limit};

type Acknowledged = Limited<Json<Data<SendMessageAck>>>;

#[derive(Deserialize, IntoParams)]
pub(crate) struct UpdatePath {
    /// The chat.
    #[param(value_type = schema::ChatId)]
    chat_id: ChatId,
    /// The sequence of the message.
    #[param(value_type = u64)]
    sequence: Sequence,
}

#[derive(Deserialize, IntoParams)]
pub(crate) struct ReactionPath {
    /// The chat.
    #[param(value_type = schema::ChatId)]
    chat_id: ChatId,
    /// The sequence of the message.
    #[param(value_type = u64)]
    sequence: Sequence,
    /// The reaction, percent-encoded: an emoji or a short code of 1 to 64 bytes in Unicode's composed form (NFC), without
    /// spaces, and without invisible or misleading characters.
    reaction: String,
}

impl ReactionPath {
    fn reaction(&self) -> Result<Reaction, RestError> {
        self.reaction.parse().map_err(|error| RestError::field("reaction", error))
    }
}

#[derive(Deserialize, IntoParams)]
pub(crate) struct UpdateQuery {
    /// The caller's id for the update, the same on every retry. Without one, the server generates one, and a retry is
    /// another update.
    #[param(value_type = Option<String>, format = "uuid")]
    client_message_id: Option<ClientMessageId>,
}

#[derive(Deserialize, IntoParams)]
pub(crate) struct ReactionsQuery {
    /// Members in the page: 20 unless given, at most 100.
    #[param(minimum = 1)]
    limit: Option<i64>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// Edits a message of the caller, as the `update_message` frame does.
///
/// The new content, content type and metadata replace the old ones, which are not kept. Authors edit their messages up
/// to `messages.update_window_seconds` after the send. The `sequence` of the answer is that of the update.
#[utoipa::path(
    patch,
    path = "/chats/{chat_id}/messages/{sequence}",
    tag = "messages", params(UpdatePath),
    responses((status = 200, description = "The edit is durable", body = Data<SendMessageAck>))
)]
pub(crate) async fn edit_message(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(UpdatePath { chat_id, sequence }): Path<UpdatePath>,
    Json(body): Json<rest::EditMessage>,
) -> Result<Acknowledged, RestError> {
    let client_message_id = body.client_message_id;
    let action = UpdateAction::Edit(body.into_body()?);
    update(&api, caller.user_id, chat_id, sequence, client_message_id, action).await
}

/// Deletes a message for everyone, as the `update_message` frame does.
///
/// Authors delete their messages up to `messages.update_window_seconds` after the send. The owner and the admins of a
/// group delete any message at any time. The content is erased like that of an expired message.
#[utoipa::path(
    delete,
    path = "/chats/{chat_id}/messages/{sequence}",
    tag = "messages", params(UpdatePath, UpdateQuery),
    responses((status = 200, description = "The deletion is durable", body = Data<SendMessageAck>))
)]
pub(crate) async fn delete_message(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(UpdatePath { chat_id, sequence }): Path<UpdatePath>,
    Query(query): Query<UpdateQuery>,
) -> Result<Acknowledged, RestError> {
    let client_message_id = query.id(&api);
    update(&api, caller.user_id, chat_id, sequence, client_message_id, UpdateAction::Delete).await
}

/// Adds a reaction of the caller to a message, as the `update_message` frame does.
///
/// A member has at most 10 reactions on a message, and a message at most 20 different ones. A second request for the
/// same reaction with another `client_message_id` is `CONFLICT`.
#[utoipa::path(
    put,
    path = "/chats/{chat_id}/messages/{sequence}/reactions/{reaction}",
    tag = "messages", params(ReactionPath, UpdateQuery),
    responses((status = 200, description = "The reaction is durable", body = Data<SendMessageAck>))
)]
pub(crate) async fn add_reaction(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(path): Path<ReactionPath>,
    Query(query): Query<UpdateQuery>,
) -> Result<Acknowledged, RestError> {
    let action = UpdateAction::React(path.reaction()?);
    update(&api, caller.user_id, path.chat_id, path.sequence, query.id(&api), action).await
}

/// Removes a reaction of the caller from a message, as the `update_message` frame does.
///
/// A reaction that the caller does not have is `NOT_FOUND`.
#[utoipa::path(
    delete,
    path = "/chats/{chat_id}/messages/{sequence}/reactions/{reaction}",
    tag = "messages", params(ReactionPath, UpdateQuery),
    responses((status = 200, description = "The removal is durable", body = Data<SendMessageAck>))
)]
pub(crate) async fn remove_reaction(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(path): Path<ReactionPath>,
    Query(query): Query<UpdateQuery>,
) -> Result<Acknowledged, RestError> {
    let action = UpdateAction::Unreact(path.reaction()?);
    update(&api, caller.user_id, path.chat_id, path.sequence, query.id(&api), action).await
}

/// The members who reacted to a message, with their reactions, by id.
///
/// Members who have left the chat since are included. Messages have the counts in `state.reactions`.
#[utoipa::path(
    get,
    path = "/chats/{chat_id}/messages/{sequence}/reactions",
    tag = "messages", params(UpdatePath, ReactionsQuery),
    responses((status = 200, body = Paged<rest::Reactions>))
)]
pub(crate) async fn reactions(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(UpdatePath { chat_id, sequence }): Path<UpdatePath>,
    Query(query): Query<ReactionsQuery>,
) -> Result<Json<Paged<rest::Reactions>>, RestError> {
    let limit = page_limit(query.limit)?;
    api.membership(chat_id, caller.user_id).await?;
    let list = PagedList::Reactions(chat_id, sequence);
    let after = match query.cursor.as_deref().map(|cursor| Cursor::decode(&api, list, cursor)).transpose()? {
        None => None,
        Some(Cursor::Reactions { after }) => Some(after),
        Some(_) => return Err(Cursor::unknown()),
    };
    let message = message_at(&api, chat_id, sequence).await?;
    let mut members = api.messages.reactions(MessageKey::from(&message), after, limit + 1).await?;
    let has_more = members.len() > limit;
    members.truncate(limit);
    let last = members.last().filter(|_| has_more);
    let next = last.map(|last| Cursor::Reactions { after: last.user_id }.encode(&api, list));
    let members =
        members.into_iter().map(|of| rest::Reactor { user_id: of.user_id, reactions: of.reactions }).collect();
    Ok(Json(Paged { data: rest::Reactions { chat_id, sequence, members }, pagination: Pagination::new(next) }))
}

impl UpdateQuery {
    fn id(&self, api: &Api) -> ClientMessageId {
        self.client_message_id.unwrap_or_else(|| ClientMessageId::from_bytes(api.ids.ulid().to_bytes()))
    }
}

async fn update(
    api: &Api,
    user_id: UserId,
    chat_id: ChatId,
    target: Sequence,
    client_message_id: ClientMessageId,
    action: UpdateAction,
) -> Result<Acknowledged, RestError> {
    let content = SendContent::Update { target, action };
    let decision = take_send(api, user_id, chat_id, &content).await?;
    let request = SendRequest {
        chat_id,
        sender_id: user_id,
        client_message_id,
        content,
        origin_connection_id: None,
        assertion: None,
    };
    let sent = api.ingest.send(request).await?;
    Ok(Limited(decision, Json(Data { data: ack_body(chat_id, client_message_id, sent) })))
}

/// The message with a sequence, unless it has expired or was deleted.
pub(super) async fn message_at(api: &Api, chat_id: ChatId, sequence: Sequence) -> Result<Message, RestError> {
    let one = PageBounds { count: 1, bytes: usize::MAX };
    let page = api.messages.after(chat_id, Sequence(sequence.0.saturating_sub(1)), one, api.now()).await?;
    let message = page.messages.into_iter().find(|message| message.sequence == sequence);
    message.ok_or_else(|| RestError::new(ErrorCode::NotFound, "no message has this sequence"))
}
