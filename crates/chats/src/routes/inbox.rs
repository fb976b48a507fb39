use std::cmp::Reverse;

use axum::extract::State;
use domain::{Chat, ChatId, Member, Timestamp};
use ports::Head;
use protocol::rest::{self, Paged, Pagination};
use serde::Deserialize;
use utoipa::IntoParams;

use super::App;
use crate::Api;
use crate::http::{ApiError, Caller, Cursor, Json, Query, page_limit};
use crate::views::{load_chats, users_by_id};

#[derive(Deserialize, IntoParams)]
pub(crate) struct InboxQuery {
    /// Chats in the page: 20 unless given, 100 at the most.
    limit: Option<i64>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// The caller's chats, newest activity first.
///
/// A chat is at its last message's place, or at its creation's while it is empty. Pages follow that place and not a
/// count, so what arrives meanwhile moves a chat to the front and neither repeats nor hides another.
#[utoipa::path(get, path = "/chats", tag = "chats", params(InboxQuery), responses((status = 200, body = Paged<rest::Inbox>)))]
pub(crate) async fn inbox(
    State(api): App,
    Caller(caller): Caller,
    Query(query): Query<InboxQuery>,
) -> Result<Json<Paged<rest::Inbox>>, ApiError> {
    let limit = page_limit(query.limit)?;
    let after = match query.cursor.as_deref().map(Cursor::decode).transpose()? {
        None => None,
        Some(Cursor::Inbox { activity, chat_id }) => Some(Place { activity: Reverse(activity), chat_id }),
        Some(_) => return Err(Cursor::unknown()),
    };
    let memberships = api.chats.memberships(caller.user_id).await?;
    let mut chats: Vec<_> = with_heads(&api, memberships)
        .await?
        .into_iter()
        .map(|row| (Place::of(&row.0, &row.1), row))
        .filter(|(place, _)| after.is_none_or(|after| *place > after))
        .collect();
    chats.sort_unstable_by_key(|(place, _)| *place);

    let has_more = chats.len() > limit;
    chats.truncate(limit);
    let last = chats.last().filter(|_| has_more).map(|(place, _)| place.cursor().encode());
    let views = load_chats(&api, chats.into_iter().map(|(_, row)| row).collect()).await?;
    let named: Vec<_> = views.iter().flat_map(|view| view.other_participants()).collect();
    let users = users_by_id(&api, &named).await?;
    let now = api.now();
    let mut chats = Vec::with_capacity(views.len());
    for view in &views {
        chats.push(view.summary(&api, &users, now).await?);
    }
    Ok(Json(Paged { data: rest::Inbox { chats }, pagination: Pagination::new(last) }))
}

/// The rows that decide a chat's place, for all chats in one round each.
async fn with_heads(api: &Api, memberships: Vec<(ChatId, Member)>) -> Result<Vec<(Chat, Head, Member)>, ApiError> {
    let chat_ids: Vec<_> = memberships.iter().map(|(chat_id, _)| *chat_id).collect();
    let chats = api.chats.chats(&chat_ids).await?;
    let heads = api.messages.heads(&chat_ids).await?;
    let rows = memberships.into_iter().zip(chats).zip(heads);
    Ok(rows.filter_map(|(((_, me), chat), head)| Some((chat?, head.unwrap_or_default(), me))).collect())
}

/// Where a chat stands in the inbox: by last activity, newest first, then by id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    activity: Reverse<Timestamp>,
    chat_id: ChatId,
}

impl Place {
    fn of(chat: &Chat, head: &Head) -> Self {
        let activity = head.last_message.as_ref().map_or(chat.created_at, |last| last.created_at);
        Self { activity: Reverse(activity), chat_id: chat.chat_id }
    }

    fn cursor(self) -> Cursor {
        Cursor::Inbox { activity: self.activity.0, chat_id: self.chat_id }
    }
}
