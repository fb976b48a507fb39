use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use domain::{ChatId, ClientMessageId, MessageId};
use ports::{SendContent, SendRequest, Sent};
use protocol::frame::SendMessageAck;
use protocol::rest::{self, Data};
use protocol::{ErrorCode, schema};
use serde::Deserialize;
use utoipa::IntoParams;

use super::quotas::take_send;
use super::{ChatPath, RouteState};
use crate::http::{Caller, Json, Limited, Path, RestError};
use crate::views::message_bodies;

#[derive(Deserialize, IntoParams)]
pub(crate) struct MessagePath {
    /// The message.
    #[param(value_type = schema::MessageId)]
    message_id: MessageId,
}

/// Sends a message, as the `send_message` frame does.
///
/// For bots and servers. Choose the `client_message_id` before the first attempt and reuse it for every retry: the
/// message is then stored once.
#[utoipa::path(
    post,
    path = "/chats/{chat_id}/messages",
    tag = "messages", params(ChatPath),
    responses(
        (status = 201, description = "The message is durable", body = Data<SendMessageAck>),
        (status = 200, description = "An earlier attempt was accepted", body = Data<SendMessageAck>)
    )
)]
pub(crate) async fn send_message(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(ChatPath { chat_id }): Path<ChatPath>,
    Json(body): Json<rest::SendMessage>,
) -> Result<Limited<(StatusCode, Json<Data<SendMessageAck>>)>, RestError> {
    let send = body.into_send(chat_id)?;
    let user_id = caller.user_id;
    let content = SendContent::Message { body: send.body, ttl: send.ttl };
    let decision = take_send(&api, user_id, chat_id, &content).await?;
    let request = SendRequest {
        chat_id,
        sender_id: user_id,
        client_message_id: send.client_message_id,
        content,
        origin_connection_id: None,
        assertion: None,
    };
    let sent = api.ingest.send(request).await?;
    let status = if sent.deduplicated { StatusCode::OK } else { StatusCode::CREATED };
    let data = ack_body(chat_id, send.client_message_id, sent);
    Ok(Limited(decision, (status, Json(Data { data }))))
}

/// The acknowledgement of a send or an update.
pub(super) fn ack_body(chat_id: ChatId, client_message_id: ClientMessageId, sent: Sent) -> SendMessageAck {
    let Sent { receipt, deduplicated } = sent;
    SendMessageAck {
        client_message_id,
        message_id: receipt.message_id,
        chat_id,
        sequence: receipt.sequence,
        created_at: receipt.created_at,
        deduplicated,
    }
}

/// One message by its id, for members of its chat.
///
/// With the chat that it is in. A message that has expired or was deleted is not found.
#[utoipa::path(
    get,
    path = "/messages/{message_id}",
    tag = "messages", params(MessagePath),
    responses((status = 200, body = Data<rest::Message<'static>>))
)]
pub(crate) async fn message(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(MessagePath { message_id }): Path<MessagePath>,
) -> Result<Response, RestError> {
    let message = api.messages.by_id(message_id, api.now()).await?;
    let message = message.ok_or_else(|| RestError::new(ErrorCode::NotFound, "no such message"))?;
    let chat_id = message.chat_id;
    api.membership(chat_id, caller.user_id).await?;
    let mut bodies = message_bodies(&api, chat_id, caller.user_id, std::slice::from_ref(&message)).await?;
    let data = bodies.pop().expect("one message in, one body out");
    Ok(Json(Data { data }).into_response())
}
