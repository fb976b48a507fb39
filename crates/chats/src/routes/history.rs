use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain::limits::SYNC_PAGE_BYTES_MAX;
use domain::{ChatId, Message, Sequence, Timestamp};
use ports::PageBounds;
use protocol::rest::{self, Data, Paged, Pagination};
use protocol::schema;
use serde::Deserialize;
use utoipa::IntoParams;

use super::{ChatPath, RouteState};
use crate::Api;
use crate::http::{Caller, Cursor, Json, PagedList, Path, Query, RestError, page_limit};
use crate::views::message_bodies;

#[derive(Deserialize, IntoParams)]
pub(crate) struct HistoryQuery {
    /// Messages in the page: 20 unless given, at most 100.
    #[param(minimum = 1)]
    limit: Option<i64>,
    /// Only messages below this sequence, newest first.
    #[param(value_type = Option<u64>, format = "uint64")]
    before: Option<Sequence>,
    /// Only messages above this sequence, oldest first.
    #[param(value_type = Option<u64>, format = "uint64")]
    after: Option<Sequence>,
    /// The `next_cursor` of the page before; excludes `before` and `after`.
    cursor: Option<String>,
}

#[derive(Deserialize, IntoParams)]
pub(crate) struct AroundPath {
    /// The chat.
    #[param(value_type = schema::ChatId)]
    chat_id: ChatId,
    /// The sequence to look around.
    #[param(value_type = u64)]
    sequence: Sequence,
}

#[derive(Deserialize, IntoParams)]
pub(crate) struct AroundQuery {
    /// Messages in the page: 20 unless given, at most 100.
    #[param(minimum = 1)]
    limit: Option<i64>,
}

/// The messages of a chat, newest first; with `after`, oldest first from there.
///
/// Pages omit expired and deleted messages, and the sequences of updates. They end before `limit` when their messages
/// reach 512 KiB. `before`, `after` and `cursor` exclude each other. Only the caller's own messages have a `status`.
#[utoipa::path(
    get,
    path = "/chats/{chat_id}/messages",
    tag = "messages", params(ChatPath, HistoryQuery),
    responses((status = 200, body = Paged<rest::History<'static>>))
)]
pub(crate) async fn history(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(ChatPath { chat_id }): Path<ChatPath>,
    Query(query): Query<HistoryQuery>,
) -> Result<Response, RestError> {
    let limit = page_limit(query.limit)?;
    api.membership(chat_id, caller.user_id).await?;
    let start = query.start(&api, chat_id)?;
    let now = api.now();
    let (messages, next) = match start {
        HistoryStart::Before(sequence) => {
            let bounds = PageBounds { count: limit, bytes: SYNC_PAGE_BYTES_MAX };
            let (messages, has_more) = below(&api, chat_id, sequence, bounds, now).await?;
            let next = messages.last().filter(|_| has_more).map(|last| Cursor::Older { before: last.sequence });
            (messages, next)
        }
        HistoryStart::After(sequence) => {
            let bounds = PageBounds { count: limit, bytes: SYNC_PAGE_BYTES_MAX };
            let page = api.messages.after(chat_id, sequence, bounds, now).await?;
            let next = (page.examined < page.head).then_some(Cursor::Newer { after: page.examined });
            (page.messages, next)
        }
    };
    // Read after the messages, so that none of them is above it.
    let head_sequence = api.messages.head(chat_id).await?.unwrap_or_default().sequence;
    let messages = message_bodies(&api, chat_id, caller.user_id, &messages).await?;
    let pagination = Pagination::new(next.map(|next| next.encode(&api, PagedList::History(chat_id))));
    Ok(Json(Paged { data: rest::History { messages, head_sequence }, pagination }).into_response())
}

/// The messages around one sequence of a chat, oldest first: half of the page lies before it.
///
/// A target that has expired, was deleted or is an update leaves a gap; a sequence above the head is `INVALID_SEQUENCE`.
#[utoipa::path(
    get,
    path = "/chats/{chat_id}/messages/around/{sequence}",
    tag = "messages", params(AroundPath, AroundQuery),
    responses((status = 200, body = Data<rest::Around<'static>>))
)]
pub(crate) async fn around(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(AroundPath { chat_id, sequence }): Path<AroundPath>,
    Query(query): Query<AroundQuery>,
) -> Result<Response, RestError> {
    let limit = page_limit(query.limit)?;
    api.membership(chat_id, caller.user_id).await?;
    let now = api.now();
    let half = PageBounds { count: limit / 2, bytes: SYNC_PAGE_BYTES_MAX / 2 };
    let (mut messages, has_more_before) = below(&api, chat_id, sequence, half, now).await?;
    messages.reverse();
    let bounds = PageBounds { count: limit - half.count, ..half };
    let page = api.messages.after(chat_id, Sequence(sequence.0.saturating_sub(1)), bounds, now).await?;
    if sequence > page.head {
        return Err(RestError::above_head(page.head));
    }
    messages.extend(page.messages);
    let around = rest::Around {
        messages: message_bodies(&api, chat_id, caller.user_id, &messages).await?,
        head_sequence: page.head,
        target_sequence: sequence,
        has_more_before,
        has_more_after: page.examined < page.head,
    };
    Ok(Json(Data { data: around }).into_response())
}

/// The start of a page, which also decides the reading direction.
enum HistoryStart {
    Before(Sequence),
    After(Sequence),
}

impl HistoryQuery {
    fn start(&self, api: &Api, chat_id: ChatId) -> Result<HistoryStart, RestError> {
        match (self.before, self.after, self.cursor.as_deref()) {
            (None, None, None) => Ok(HistoryStart::Before(Sequence(u64::MAX))),
            (Some(before), None, None) => Ok(HistoryStart::Before(before)),
            (None, Some(after), None) => Ok(HistoryStart::After(after)),
            (None, None, Some(cursor)) => match Cursor::decode(api, PagedList::History(chat_id), cursor)? {
                Cursor::Older { before } => Ok(HistoryStart::Before(before)),
                Cursor::Newer { after } => Ok(HistoryStart::After(after)),
                Cursor::Inbox { .. } | Cursor::Contacts { .. } | Cursor::Blocks { .. } | Cursor::Reactions { .. } => {
                    Err(Cursor::unknown())
                }
            },
            _ => Err(RestError::field("cursor", "only one of `before`, `after` and `cursor` can be given")),
        }
    }
}

/// The messages below a sequence within these bounds, newest first, and whether there are more.
async fn below(
    api: &Api,
    chat_id: ChatId,
    sequence: Sequence,
    bounds: PageBounds,
    now: Timestamp,
) -> Result<(Vec<Message>, bool), RestError> {
    let mut messages = api.messages.before(chat_id, sequence, bounds.count + 1, now).await?;
    let mut bytes = 0;
    let is_beyond = |(count, message): (usize, &Message)| {
        bytes += message.json_size();
        count == bounds.count || (count > 0 && bytes > bounds.bytes)
    };
    let end = messages.iter().enumerate().position(is_beyond);
    messages.truncate(end.unwrap_or(messages.len()));
    Ok((messages, end.is_some()))
}
