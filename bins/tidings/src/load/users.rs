use anyhow::Context;
use client::Client;
use domain::{ChatId, ChatType, UserId};
use futures_util::{StreamExt, TryStreamExt, stream};
use indicatif::ProgressBar;
use protocol::rest::CreateChat;

use super::peer::LoadUser;

/// Maximum number of concurrent sign-ups and other preparations.
pub(super) const PARALLEL: usize = 64;

/// Signs up users.
pub(super) async fn sign_up(base_url: &str, count: usize, progress: &ProgressBar) -> anyhow::Result<Vec<LoadUser>> {
    sign_in(base_url, &phone_numbers(count), progress).await
}

/// Unassigned numbers, `+1555…`.
pub(super) fn phone_numbers(count: usize) -> Vec<String> {
    // Another load against the same server very likely gets other users; a collision is harmless.
    let first = rand::random_range(0..10_000_000 - count.min(9_999_999));
    (first..first + count).map(|number| format!("+1555{number:07}")).collect()
}

/// Signs in on a new device for each number, with the fixed code of `--dev`.
pub(super) async fn sign_in(
    base_url: &str,
    phone_numbers: &[String],
    progress: &ProgressBar,
) -> anyhow::Result<Vec<LoadUser>> {
    let http = reqwest::Client::builder().build()?;
    progress.set_message("signing in");
    stream::iter(phone_numbers)
        .map(|phone_number| {
            let client = Client::builder(base_url).http(http.clone()).build();
            let progress = progress.clone();
            async move {
                let client = client?;
                client.api().request_otp(phone_number).await.context("cannot ask for a code")?;
                let signed_in = client.api().verify_otp(phone_number, "000000", None);
                let signed_in = signed_in.await.context("cannot sign in; is the server run with --dev?")?;
                progress.inc(1);
                Ok(LoadUser { client, user_id: signed_in.user.user.user_id })
            }
        })
        .buffered(PARALLEL)
        .try_collect()
        .await
}

/// A chat, with its head sequence before the load.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadChat {
    pub(super) chat_id: ChatId,
    pub(super) head: u64,
}

/// The direct chat of two users.
pub(super) async fn direct_chat(user: &LoadUser, other: UserId) -> anyhow::Result<LoadChat> {
    create(user, CreateChat { chat_type: ChatType::Direct, name: None, member_ids: vec![other] }).await
}

/// A group of a user and others.
pub(super) async fn group(user: &LoadUser, others: &[LoadUser]) -> anyhow::Result<LoadChat> {
    let member_ids = others.iter().map(|other| other.user_id).collect();
    create(user, CreateChat { chat_type: ChatType::Group, name: Some("load".to_owned()), member_ids }).await
}

/// A direct chat for each two consecutive users.
pub(super) async fn pair_up(users: &[LoadUser]) -> anyhow::Result<Vec<LoadChat>> {
    stream::iter(users.chunks_exact(2))
        .map(|pair| direct_chat(&pair[0], pair[1].user_id))
        .buffered(PARALLEL)
        .try_collect()
        .await
}

async fn create(user: &LoadUser, chat: CreateChat) -> anyhow::Result<LoadChat> {
    let chat = user.client.api().create_chat(&chat).await.context("cannot make a chat")?;
    Ok(LoadChat { chat_id: chat.summary.chat_id, head: chat.summary.head_sequence.0 })
}
