use axum::extract::State;
use domain::{Sequence, WatermarkKind};
use ports::{AdvanceRequest, PageBounds};
use protocol::ErrorCode;
use protocol::rest::{self, Data};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{ChatPath, RouteState};
use crate::http::{Caller, Json, Path, Query, RestError};

#[derive(Deserialize, IntoParams)]
pub(crate) struct ReceiptsQuery {
    /// The sequence of the message; the last one unless given.
    #[param(value_type = Option<u64>)]
    sequence: Option<Sequence>,
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
    let advance = AdvanceRequest {
        user_id: caller.user_id,
        chat_id,
        kind: WatermarkKind::Read,
        to: body.last_read_sequence,
        assertion: None,
    };
    let now = api.ingest.advance(advance).await?;
    let data = rest::MarkedRead { chat_id, delivered_sequence: now.delivered, read_sequence: now.read };
    Ok(Json(Data { data }))
}

/// The watermarks of the members of a chat, and how many members have received and read one message.
///
/// `delivered_count` and `read_count` exclude the sender; `member_count` and `members` include every member.
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
    let head = api.messages.head(chat_id).await?.unwrap_or_default().sequence;
    let sequence = query.sequence.unwrap_or(head);
    if sequence > head {
        return Err(RestError::above_head(head));
    }
    // Counts exclude the sender, so the message must exist: an expired message has no receipts (G11).
    let one = PageBounds { count: 1, bytes: usize::MAX };
    let page = api.messages.after(chat_id, Sequence(sequence.0.saturating_sub(1)), one, api.now()).await?;
    let message = page.messages.first().filter(|message| message.sequence == sequence);
    let message = message.ok_or_else(|| RestError::new(ErrorCode::NotFound, "no message has this sequence"))?;

    let members = api.chats.members(chat_id).await?;
    let asked: Vec<_> = members.iter().map(|member| (member.user_id, chat_id)).collect();
    let watermarks = api.watermarks.watermarks(&asked).await?;
    let others = || asked.iter().zip(&watermarks).filter(|((user_id, _), _)| *user_id != message.sender_id);
    let data = rest::Receipts {
        chat_id,
        sequence,
        member_count: members.len(),
        delivered_count: others().filter(|(_, marks)| marks.delivered >= sequence).count(),
        read_count: others().filter(|(_, marks)| marks.read >= sequence).count(),
        members: asked
            .iter()
            .zip(&watermarks)
            .map(|((user_id, _), marks)| rest::MemberWatermarks {
                user_id: *user_id,
                delivered_sequence: marks.delivered,
                read_sequence: marks.read,
            })
            .collect(),
    };
    Ok(Json(Data { data }))
}
