use async_trait::async_trait;
use domain::{ChatId, Sequence, Timestamp};
use ports::{Expiry, Head, LastMessage, MessageExpirer, Shortened, StoreError};

use crate::EmbeddedStore;
use crate::error::unreadable;
use crate::keys::{self, Expiring};
use crate::records::{Place, decode_message, encode_message};
use crate::tables::{Table, Tables};
use crate::tx::Tx;

/// Messages that one step looks at, at the most: so many are rewritten while sends wait for the committer.
const STEP_LEN_MAX: usize = 500;

#[async_trait]
impl MessageExpirer for EmbeddedStore {
    async fn expire(
        &self,
        chat_id: ChatId,
        from: Sequence,
        which: Expiry,
        now: Timestamp,
    ) -> Result<Shortened, StoreError> {
        // The search is no work for the committer: most messages are none of those that are meant.
        let (meant, next) = self.read(move |tables| meant(tables, chat_id, from, which, now)).await?;
        if meant.is_empty() {
            return Ok(Shortened { messages: 0, next });
        }
        let messages = self.write(move |tx| {
            let mut messages = 0;
            for place in meant {
                messages += usize::from(shorten(tx, place, which, now)?);
            }
            Ok(messages)
        });
        Ok(Shortened { messages: messages.await?, next })
    }
}

/// The places of messages that are meant, of those that one step looks at, and where the next step begins.
fn meant(
    tables: &Tables,
    chat_id: ChatId,
    from: Sequence,
    which: Expiry,
    now: Timestamp,
) -> Result<(Vec<Place>, Option<Sequence>), StoreError> {
    let view = tables.view();
    let key = |sequence| keys::message(Place { chat_id, sequence });
    let rows = view.range(Table::Messages, key(from)..=key(Sequence(u64::MAX)));
    let mut places = vec![];
    for (looked_at, row) in rows.enumerate() {
        let (key, row) = row?;
        let place = keys::parse_message(&key).map_err(|error| unreadable(Table::Messages, error))?;
        if looked_at == STEP_LEN_MAX {
            return Ok((places, Some(place.sequence)));
        }
        let message = decode_message(place, &row).map_err(|error| unreadable(Table::Messages, error))?;
        places.extend(which.end_of(&message, now).map(|_| place));
    }
    Ok((places, None))
}

/// Gives a message its end, and the head of its chat a copy of it if it is the last one.
fn shorten(tx: &mut Tx<'_>, place: Place, which: Expiry, now: Timestamp) -> Result<bool, StoreError> {
    let key = keys::message(place);
    let Some(row) = tx.get_bytes(Table::Messages, &key)? else { return Ok(false) };
    let mut message = decode_message(place, &row).map_err(|error| unreadable(Table::Messages, error))?;
    let Some(end) = which.end_of(&message, now) else { return Ok(false) };
    // The note of an earlier end stays. When its time comes the message is gone, and nothing is done.
    message.expires_at = Some(end);
    tx.put_bytes(Table::Messages, &key, encode_message(&message));
    tx.expire(end, Expiring::Message(place));
    let head_key = keys::chat(place.chat_id);
    if let Some(Head { sequence, last_message: Some(last), message_ttl }) = tx.get(Table::Heads, &head_key)?
        && sequence == place.sequence
    {
        let last_message = Some(LastMessage { expires_at: Some(end), ..last });
        tx.put(Table::Heads, &head_key, &Head { sequence, last_message, message_ttl });
    }
    Ok(true)
}
