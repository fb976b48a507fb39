use std::cmp::Reverse;

use axum::extract::State;
use domain::limits::HISTORY_PAGE_MAX;
use domain::{ChatId, Member, Timestamp};
use futures_util::{StreamExt, TryStreamExt, stream};
use protocol::rest::{self, Paged, Pagination};
use serde::Deserialize;
use utoipa::IntoParams;

use super::App;
use crate::Api;
use crate::http::{ApiError, Caller, Cursor, Json, List, Query, page_limit};
use crate::views::{ChatRows, summaries};

/// Chats whose earlier place is looked for at a time.
const SEARCHES_MAX: usize = 16;
/// Pages of messages that the search for a chat's earlier place goes back, at the most.
const SEARCH_PAGES_MAX: usize = 10;

#[derive(Deserialize, IntoParams)]
pub(crate) struct InboxQuery {
    /// Chats in the page: 20 unless given, 100 at the most.
    #[param(minimum = 1)]
    limit: Option<i64>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// The caller's chats, newest activity first.
///
/// A chat is at its last message's place, or at its creation's while it is empty. The pages behind a cursor keep the
/// places of the first page: a message that arrives meanwhile neither repeats nor hides a chat, and shows in it.
#[utoipa::path(get, path = "/chats", tag = "chats", params(InboxQuery), responses((status = 200, body = Paged<rest::Inbox>)))]
pub(crate) async fn inbox(
    State(api): App,
    Caller(caller): Caller,
    Query(query): Query<InboxQuery>,
) -> Result<Json<Paged<rest::Inbox>>, ApiError> {
    let limit = page_limit(query.limit)?;
    let list = List::Inbox(caller.user_id);
    let cursor = query.cursor.as_deref().map(|cursor| Cursor::decode(&api, list, cursor)).transpose()?;
    let rows = with_heads(&api, api.chats.memberships(caller.user_id).await?).await?;
    let mut placed: Vec<(Place, ChatRows)> = match cursor {
        None => rows.into_iter().map(|rows| (Place::now(&rows), rows)).collect(),
        Some(Cursor::Inbox { newest, activity, chat_id }) => {
            let last = Place { activity: Reverse(activity), chat_id };
            let places = stream::iter(rows).map(|rows| async {
                let place = place_then(&api, &rows, newest).await?;
                Ok::<_, ApiError>(place.map(|place| (place, rows)))
            });
            let placed: Vec<_> = places.buffered(SEARCHES_MAX).try_collect().await?;
            placed.into_iter().flatten().filter(|(place, _)| *place > last).collect()
        }
        Some(_) => return Err(Cursor::unknown()),
    };
    placed.sort_unstable_by_key(|(place, _)| *place);

    let newest = match cursor {
        Some(Cursor::Inbox { newest, .. }) => Some(newest),
        _ => placed.first().map(|(place, _)| place.activity.0),
    };
    let has_more = placed.len() > limit;
    placed.truncate(limit);
    let last = placed.last().filter(|_| has_more).map(|(place, _)| *place);
    let next = newest.zip(last).map(|(newest, Place { activity: Reverse(activity), chat_id })| {
        Cursor::Inbox { newest, activity, chat_id }.encode(&api, list)
    });
    let chats = summaries(&api, placed.into_iter().map(|(_, rows)| rows).collect()).await?;
    Ok(Json(Paged { data: rest::Inbox { chats }, pagination: Pagination::new(next) }))
}

/// The rows that decide a chat's place, for all chats in one round.
async fn with_heads(api: &Api, memberships: Vec<(ChatId, Member)>) -> Result<Vec<ChatRows>, ApiError> {
    let chat_ids: Vec<_> = memberships.iter().map(|(chat_id, _)| *chat_id).collect();
    let (chats, heads) = tokio::try_join!(api.chats.chats(&chat_ids), api.messages.heads(&chat_ids))?;
    let rows = memberships.into_iter().zip(chats).zip(heads);
    let rows =
        rows.filter_map(|(((_, me), chat), head)| Some(ChatRows { chat: chat?, head: head.unwrap_or_default(), me }));
    Ok(rows.collect())
}

/// Where a chat stands in the inbox: by last activity, newest first, then by id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    activity: Reverse<Timestamp>,
    chat_id: ChatId,
}

impl Place {
    fn now(ChatRows { chat, head, .. }: &ChatRows) -> Self {
        let activity = head.last_message.as_ref().map_or(chat.created_at, |last| last.created_at);
        Self { activity: Reverse(activity), chat_id: chat.chat_id }
    }
}

/// Where a chat stood when the newest activity of all was at `newest`; `None` for a chat that is newer than that.
///
/// Only chats that have moved since cost a read, and what moved them lies right below their head. One that got more
/// messages meanwhile than the search goes back through is left out.
async fn place_then(api: &Api, rows: &ChatRows, newest: Timestamp) -> Result<Option<Place>, ApiError> {
    let now = Place::now(rows);
    if now.activity.0 <= newest {
        return Ok(Some(now));
    }
    let place = |activity| Some(Place { activity: Reverse(activity), chat_id: now.chat_id });
    let mut below = rows.head.sequence;
    for _ in 0..SEARCH_PAGES_MAX {
        let page = api.messages.before(now.chat_id, below, HISTORY_PAGE_MAX, api.now()).await?;
        if let Some(message) = page.iter().find(|message| message.created_at <= newest) {
            return Ok(place(message.created_at));
        }
        match page.last() {
            Some(oldest) => below = oldest.sequence,
            None => return Ok(place(rows.chat.created_at).filter(|place| place.activity.0 <= newest)),
        }
    }
    Ok(None)
}
