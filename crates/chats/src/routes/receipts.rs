use axum::extract::State;
use domain::{ChatId, Sequence, UserId, WatermarkKind};
use ports::AdvanceRequest;
use protocol::rest::{self, Data};
use serde::Deserialize;
use utoipa::IntoParams;

use super::updates::message_at;
use super::{ChatPath, RouteState};
use crate::Api;
use crate::http::{Caller, Json, Path, Query, RestError};
use crate::views::visible_delivery_states;

#[derive(Deserialize, IntoParams)]
pub(crate) struct ReceiptsQuery {
    /// The sequence of the message; the last one unless given.
    #[param(value_type = Option<u64>)]
    sequence: Option<Sequence>,
}

/// Moves the caller's delivered watermark forward; a lower sequence changes nothing.
///
/// It acknowledges messages that were received without a WebSocket, as the frame `ack` does on one. Only acknowledge a
/// sequence up to which there is no gap. The other members receive a `receipt` push.
#[utoipa::path(
    post,
    path = "/chats/{chat_id}/delivered",
    tag = "receipts", params(ChatPath),
    responses((status = 200, description = "The caller's watermarks now", body = Data<rest::MarkedRead>))
)]
pub(crate) async fn mark_delivered(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(ChatPath { chat_id }): Path<ChatPath>,
    Json(body): Json<rest::MarkDelivered>,
) -> Result<Json<Data<rest::MarkedRead>>, RestError> {
    advance(&api, caller.user_id, chat_id, WatermarkKind::Delivered, body.last_acked_sequence).await
}

/// Moves the caller's read watermark forward; a lower sequence changes nothing.
///
/// A message that is read counts as delivered too. The other members receive a `receipt` push.
#[utoipa::path(
    post,
    path = "/chats/{chat_id}/read",
    tag = "receipts", params(ChatPath),
    responses((status = 200, description = "The caller's watermarks now", body = Data<rest::MarkedRead>))
)]
pub(crate) async fn mark_read(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(ChatPath { chat_id }): Path<ChatPath>,
    Json(body): Json<rest::MarkRead>,
) -> Result<Json<Data<rest::MarkedRead>>, RestError> {
    advance(&api, caller.user_id, chat_id, WatermarkKind::Read, body.last_read_sequence).await
}

async fn advance(
    api: &Api,
    user_id: UserId,
    chat_id: ChatId,
    kind: WatermarkKind,
    to: Sequence,
) -> Result<Json<Data<rest::MarkedRead>>, RestError> {
    let now = api.ingest.advance(AdvanceRequest { user_id, chat_id, kind, to, assertion: None }).await?;
    let data = rest::MarkedRead { chat_id, delivered_sequence: now.delivered, read_sequence: now.read };
    Ok(Json(Data { data }))
}

/// The watermarks of the members of a chat, and how many members have received and read one message.
///
/// `delivered_count` and `read_count` exclude the sender; `member_count` and `members` include every member. In a direct
/// chat with a block, `members` has only the caller, and the other member counts as without receipts. `delivered_at` and
/// `read_at` are the times at which a member's watermarks last moved.
#[utoipa::path(
    get,
    path = "/chats/{chat_id}/receipts",
    tag = "receipts", params(ChatPath, ReceiptsQuery),
    responses((status = 200, body = Data<rest::Receipts>))
)]
pub(crate) async fn receipts(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(ChatPath { chat_id }): Path<ChatPath>,
    Query(query): Query<ReceiptsQuery>,
) -> Result<Json<Data<rest::Receipts>>, RestError> {
    api.membership(chat_id, caller.user_id).await?;
    let head = api.messages.head(chat_id).await?.unwrap_or_default();
    // The last entry may be an update.
    let last = head.last_message.map_or(head.sequence, |last| last.sequence);
    let sequence = query.sequence.unwrap_or(last);
    if sequence > head.sequence {
        return Err(RestError::above_head(head.sequence));
    }
    // Counts exclude the sender, so the message must exist: an expired message has no receipts (G11).
    let message = message_at(&api, chat_id, sequence).await?;

    let members = api.chats.members(chat_id).await?;
    let visible = visible_delivery_states(&api, chat_id, caller.user_id, &members).await?;
    let others = || visible.iter().filter(|(user_id, _)| *user_id != message.sender_id);
    let data = rest::Receipts {
        chat_id,
        sequence,
        member_count: members.len(),
        delivered_count: others().filter(|(_, state)| state.watermarks.delivered >= sequence).count(),
        read_count: others().filter(|(_, state)| state.watermarks.read >= sequence).count(),
        members: visible
            .iter()
            .map(|(user_id, state)| rest::MemberWatermarks {
                user_id: *user_id,
                delivered_sequence: state.watermarks.delivered,
                delivered_at: state.delivered_at,
                read_sequence: state.watermarks.read,
                read_at: state.read_at,
            })
            .collect(),
    };
    Ok(Json(Data { data }))
}
