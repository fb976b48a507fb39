use std::time::Duration;

use domain::{ChatId, Sequence};
use futures_util::future::BoxFuture;
use protocol::client::{LookUpFailure, RefreshFailure};
use protocol::rest::ChatSummary;
use tokio::time::sleep;

use crate::{Api, ApiError};

/// A REST call that a session needs.
pub(crate) enum Errand {
    /// Renew the tokens if their time has come.
    RenewEarly,
    /// Replace an access token that was refused.
    Renew { stale: String },
    /// List every chat of the user, for as long as that takes.
    ListChats,
    /// Read how far the user has come in a chat.
    LookUp(ChatId),
}

/// What an errand has brought.
pub(crate) enum Report {
    Renewed(Result<(), RefreshFailure>),
    Chats(Vec<ChatSummary>),
    Watermark(ChatId, Result<Sequence, LookUpFailure>),
}

impl Errand {
    pub(crate) fn run(self, api: Api) -> BoxFuture<'static, Report> {
        Box::pin(async move {
            match self {
                Self::RenewEarly => Report::Renewed(renewed(api.access_token().await)),
                Self::Renew { stale } => Report::Renewed(renewed(api.renew(&stale).await)),
                Self::ListChats => Report::Chats(list_chats(&api).await),
                Self::LookUp(chat_id) => Report::Watermark(chat_id, look_up(&api, chat_id).await),
            }
        })
    }
}

fn renewed(outcome: Result<String, ApiError>) -> Result<(), RefreshFailure> {
    outcome.map(drop).map_err(|error| {
        tracing::debug!(%error, "tokens were not renewed");
        if is_final(&error) { RefreshFailure::Refused } else { RefreshFailure::Unreachable }
    })
}

async fn look_up(api: &Api, chat_id: ChatId) -> Result<Sequence, LookUpFailure> {
    match api.chat(chat_id).await {
        Ok(chat) => Ok(chat.summary.my_delivered_sequence),
        Err(error) => {
            tracing::debug!(%chat_id, %error, "chat was not looked up");
            Err(if is_final(&error) { LookUpFailure::Gone } else { LookUpFailure::Unreachable })
        }
    }
}

/// Tries until it succeeds: without the list, chats that are new since the last connection stay unknown. Nobody is listed
/// for a session that is over.
async fn list_chats(api: &Api) -> Vec<ChatSummary> {
    let mut pause = Duration::from_secs(1);
    loop {
        match try_list_chats(api).await {
            Ok(chats) => return chats,
            Err(error) if is_final(&error) => return Vec::new(),
            Err(error) => tracing::debug!(%error, "chats were not listed"),
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(30));
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

/// Whether asking again would bring the same.
fn is_final(error: &ApiError) -> bool {
    match error {
        ApiError::NotSignedIn => true,
        ApiError::Refused { status, .. } => (400..500).contains(status) && *status != 429,
        ApiError::Transport(_) | ApiError::Unreadable { .. } | ApiError::TooLong(_) => false,
    }
}
