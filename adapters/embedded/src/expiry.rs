use async_trait::async_trait;
use domain::{ChatId, Sequence, Timestamp};
use ports::{AuditSource, ChatIdPage, Expiry, ExpiryProgress, Head, MessageExpirer, PageBookmark, StoreError};

use crate::EmbeddedStore;
use crate::error::unreadable;
use crate::keys::{self, Expiring};
use crate::records::{MessageLocation, decode_message, encode_message};
use crate::tables::{Table, Tables};
use crate::tx::Tx;

/// Maximum number of messages per step: sends wait for the committer while it rewrites them.
const STEP_LEN_MAX: usize = 500;

#[async_trait]
impl MessageExpirer for EmbeddedStore {
    async fn expire(
        &self,
        chat_id: ChatId,
        from: Sequence,
        which: Expiry,
        now: Timestamp,
    ) -> Result<ExpiryProgress, StoreError> {
        // The search stays off the committer thread: most messages do not match.
        let (meant, next) = self.read(move |tables| meant(tables, chat_id, from, which, now)).await?;
        if meant.is_empty() {
            return Ok(ExpiryProgress { messages: 0, next });
        }
        let messages = self.write(move |tx| {
            let mut messages = 0;
            for location in meant {
                messages += usize::from(shorten(tx, location, which, now)?);
            }
            Ok(messages)
        });
        Ok(ExpiryProgress { messages: messages.await?, next })
    }

    async fn chat_ids(&self, after: Option<&PageBookmark>, count: usize) -> Result<ChatIdPage, StoreError> {
        Ok(self.chats(after, count).await?.into())
    }
}

/// Locations of the matching messages among those that one step examines, and the start of the next step.
fn meant(
    tables: &Tables,
    chat_id: ChatId,
    from: Sequence,
    which: Expiry,
    now: Timestamp,
) -> Result<(Vec<MessageLocation>, Option<Sequence>), StoreError> {
    let view = tables.view();
    let key = |sequence| keys::message(MessageLocation { chat_id, sequence });
    let rows = view.range(Table::Messages, key(from)..=key(Sequence(u64::MAX)));
    let mut locations = vec![];
    for (looked_at, row) in rows.enumerate() {
        let (key, row) = row?;
        let location = keys::parse_message(&key).map_err(|error| unreadable(Table::Messages, error))?;
        if looked_at == STEP_LEN_MAX {
            return Ok((locations, Some(location.sequence)));
        }
        let message = decode_message(location, &row).map_err(|error| unreadable(Table::Messages, error))?;
        locations.extend(which.end_of(&message, now).map(|_| location));
    }
    Ok((locations, None))
}

/// Sets the expiry of a message, and updates the copy in the head row if it is the last one.
fn shorten(tx: &mut Tx<'_>, location: MessageLocation, which: Expiry, now: Timestamp) -> Result<bool, StoreError> {
    let key = keys::message(location);
    let Some(row) = tx.get_bytes(Table::Messages, &key)? else { return Ok(false) };
    let mut message = decode_message(location, &row).map_err(|error| unreadable(Table::Messages, error))?;
    let Some(end) = which.end_of(&message, now) else { return Ok(false) };
    // The earlier expiry row stays. When it is due, the message is gone, and the purge does nothing.
    message.expires_at = Some(end);
    tx.put_bytes(Table::Messages, &key, encode_message(&message));
    tx.expire(end, Expiring::Message(location));
    let head_key = keys::chat(location.chat_id);
    if let Some(mut head) = tx.get::<Head>(Table::Heads, &head_key)?
        && let Some(last) = head.last_message.as_mut().filter(|last| last.sequence == location.sequence)
    {
        last.expires_at = Some(end);
        tx.put(Table::Heads, &head_key, &head);
    }
    Ok(true)
}
