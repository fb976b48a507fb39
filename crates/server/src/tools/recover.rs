//! Counter recovery of ADR-004, with an inspection before it.

use anyhow::{Context, ensure};
use domain::{ChatId, Sequence};
use dynamodb::DynamoStore;
pub use dynamodb::{Recovery, RecoveryAudit};
use ports::{ChatReader, Clock, MessageReader, StoreError, SystemClock, WatermarkStore};

use super::engine::dynamo_store;
use crate::config::Config;

/// The state of the head sequence counter of a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    pub state: CounterState,
    /// The highest sequence among messages and watermarks. The recovery also checks the idempotency keys of recent
    /// sends, and may find a higher one.
    pub highest: Sequence,
}

/// The state of a chat's counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterState {
    /// There is no row: sends to the chat are refused.
    Missing,
    /// The row cannot be decoded.
    Unreadable,
    /// The row has this value, and higher sequences exist.
    Behind(Sequence),
    /// The row has this value, and no higher sequence was found.
    Well(Sequence),
}

/// Inspects the counter of a chat without changing it.
pub async fn look(config: &Config, chat_id: ChatId) -> anyhow::Result<Counter> {
    let store = open(config).await?;
    let chat = store.chat(chat_id).await.context("DynamoDB did not answer")?;
    ensure!(chat.is_some(), "there is no chat `{chat_id}`; a counter is only restored for one that exists");
    let last = store.before(chat_id, Sequence(u64::MAX), 1, SystemClock.now()).await?;
    let members = store.members(chat_id).await?;
    let states: Vec<_> = members.iter().map(|member| (member.user_id, chat_id)).collect();
    let seen = store.watermarks(&states).await?.into_iter().map(|watermarks| watermarks.delivered);
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
    store.recover_counter(chat_id, audit).await.with_context(|| format!("the counter of `{chat_id}` was not changed"))
}

async fn open(config: &Config) -> anyhow::Result<DynamoStore> {
    ensure!(
        config.store.engine.descriptor().has_dynamodb_tables(),
        "on one machine a counter cannot be lost separately from its messages; this is for `store.engine` = \"dynamodb\""
    );
    Ok(dynamo_store(config).await)
}
