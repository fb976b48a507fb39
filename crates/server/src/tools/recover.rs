//! ADR-004's counter recovery, with a look before it.

use anyhow::{Context, bail, ensure};
use domain::{ChatId, Sequence};
use dynamodb::DynamoStore;
pub use dynamodb::{Recovery, RecoveryAudit};
use ports::{ChatReader, Clock, MessageReader, StoreError, SystemClock, WatermarkStore};

use super::opened::dynamo_store;
use crate::config::{Config, Engine};

/// What a look at the counter of a chat shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    pub state: CounterState,
    /// The highest sequence among messages and watermarks. The recovery also asks the keys of recent sends, and may
    /// find a higher one.
    pub highest: Sequence,
}

/// How the counter of a chat is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterState {
    /// There is no row: sends to the chat are refused.
    Missing,
    /// There is a row, and nobody can read it.
    Unreadable,
    /// The row says this, and more was given out.
    Behind(Sequence),
    /// The row says this, and nothing speaks against it.
    Well(Sequence),
}

/// Looks at the counter of a chat and changes nothing.
pub async fn look(config: &Config, chat_id: ChatId) -> anyhow::Result<Counter> {
    let store = open(config).await?;
    let chat = store.chat(chat_id).await.context("DynamoDB did not answer")?;
    ensure!(chat.is_some(), "there is no chat `{chat_id}`; a counter is only restored for one that exists");
    let last = store.before(chat_id, Sequence(u64::MAX), 1, SystemClock.now()).await?;
    let members = store.members(chat_id).await?;
    let places: Vec<_> = members.iter().map(|member| (member.user_id, chat_id)).collect();
    let seen = store.watermarks(&places).await?.into_iter().map(|watermarks| watermarks.delivered);
    let highest = seen.chain(last.first().map(|message| message.sequence)).max().unwrap_or(Sequence::ZERO);
    let state = match store.head(chat_id).await {
        Ok(None) => CounterState::Missing,
        Ok(Some(head)) if head.sequence < highest => CounterState::Behind(head.sequence),
        Ok(Some(head)) => CounterState::Well(head.sequence),
        Err(StoreError::Corrupt { .. }) => CounterState::Unreadable,
        Err(failure) => return Err(failure).context("DynamoDB did not answer"),
    };
    Ok(Counter { state, highest })
}

/// Restores the counter of a chat, under the conditions and with the audit fields of ADR-004.
pub async fn recover(config: &Config, chat_id: ChatId, audit: &RecoveryAudit) -> anyhow::Result<Recovery> {
    let store = open(config).await?;
    store.recover_counter(chat_id, audit).await.with_context(|| format!("the counter of `{chat_id}` is as it was"))
}

async fn open(config: &Config) -> anyhow::Result<DynamoStore> {
    match config.store.engine {
        Engine::Dynamodb => Ok(dynamo_store(config).await),
        Engine::Embedded => bail!(
            "on one machine a counter cannot get lost beside its messages; this is for `store.engine` = \"dynamodb\""
        ),
    }
}
