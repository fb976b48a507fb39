use std::time::Duration;

use domain::{Backoff, ChatId, Sequence};
use futures_util::future::BoxFuture;
use protocol::client::{LookUpFailure, RefreshFailure};
use protocol::rest::ChatSummary;
use tokio::time::sleep;

use crate::{Api, ApiError};

/// Delays between attempts to list the chats.
const LISTING_BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(30) };

/// A REST call that a session needs.
pub(crate) enum Errand {
    /// Renew the tokens if they are due.
    RenewEarly,
    /// Replace an access token that was refused.
    Renew { stale: String },
    /// List every chat of the user, with retries until it succeeds.
    ListChats,
    /// Read the user's delivered watermark of a chat.
    LookUp(ChatId),
}

/// The result of an errand.
pub(crate) enum ErrandResult {
    Renewed(Result<(), RefreshFailure>),
    Chats(Vec<ChatSummary>),
    Watermark(ChatId, Result<Sequence, LookUpFailure>),
}

impl Errand {
    pub(crate) fn run(self, api: Api) -> BoxFuture<'static, ErrandResult> {
        Box::pin(async move {
            match self {
                Self::RenewEarly => ErrandResult::Renewed(renewed(api.access_token().await)),
                Self::Renew { stale } => ErrandResult::Renewed(renewed(api.renew(&stale).await)),
                Self::ListChats => ErrandResult::Chats(list_chats(&api).await),
                Self::LookUp(chat_id) => ErrandResult::Watermark(chat_id, look_up(&api, chat_id).await),
            }
        })
    }
}

fn renewed(outcome: Result<String, ApiError>) -> Result<(), RefreshFailure> {
    outcome.map(drop).map_err(|error| {
        tracing::debug!(%error, "token renewal failed");
        if is_final(&error) { RefreshFailure::Refused } else { RefreshFailure::Unreachable }
    })
}

async fn look_up(api: &Api, chat_id: ChatId) -> Result<Sequence, LookUpFailure> {
    match api.chat(chat_id).await {
        Ok(chat) => Ok(chat.summary.my_delivered_sequence),
        Err(error) => {
            tracing::debug!(%chat_id, %error, "chat look-up failed");
            Err(if is_final(&error) { LookUpFailure::Gone } else { LookUpFailure::Unreachable })
        }
    }
}

/// Retries until it succeeds: without the list, chats that are new since the last connection stay unknown. Returns an
/// empty list once the session is revoked.
async fn list_chats(api: &Api) -> Vec<ChatSummary> {
    let mut failures = 0;
    loop {
        match try_list_chats(api).await {
            Ok(chats) => return chats,
            Err(error) if is_final(&error) => return Vec::new(),
            Err(error) => tracing::debug!(%error, "listing chats failed; retrying"),
        }
        failures += 1;
        sleep(LISTING_BACKOFF.delay(failures)).await;
    }
}

async fn try_list_chats(api: &Api) -> Result<Vec<ChatSummary>, ApiError> {
    let mut chats = Vec::new();
    let mut cursor = None;
    loop {
        let page = api.chats(cursor.as_deref()).await?;
        chats.extend(page.data.chats);
        cursor = page.pagination.next_cursor;
        if cursor.is_none() {
            return Ok(chats);
        }
    }
}

/// Whether a retry would fail in the same way.
fn is_final(error: &ApiError) -> bool {
    match error {
        ApiError::NotSignedIn => true,
        ApiError::Refused { status, .. } => (400..500).contains(status) && *status != 429,
        ApiError::Transport(_) | ApiError::Unreadable { .. } | ApiError::TooLong(_) => false,
    }
}
