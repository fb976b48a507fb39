//! Deletes expired rows, each checked against the time of the commit that deletes it.

use std::collections::{BTreeMap, BTreeSet};

use domain::limits::{REQUEST_KEY_RETENTION, RETENTION};
use domain::{
    ChatId, ClientMessageId, EventBody, MessageState, OneTimeCode, Sequence, Session, Timestamp, User, UserId,
};
use metrics::counter;
use ports::{BoxError, DeadLetter, Head, StoreError, error_chain};
use tracing::error;

use crate::error::unreadable;
use crate::keys::{self, Expiring};
use crate::records::{Glance, IdempotentRequest, MessageLocation, SendKey, Stored, decode_message, decode_update};
use crate::sessions;
use crate::tables::Table;
use crate::tx::Tx;

/// The key in [`Table::Meta`] of the bytes purged since the message table was last compacted. It is persistent;
/// otherwise a store that restarts often would never reach the limit.
pub(crate) const PURGED: &[u8] = b"purged_bytes";

/// Outcome of processing an expiry row.
pub(super) enum ExpiryOutcome {
    /// The referenced row was purged, is gone, or has another expiry row: this one is obsolete.
    Settled,
    /// The referenced row has not expired yet at the time of this commit.
    Early,
    /// The expiry row or the referenced row is unreadable. The log reports it, and both stay for an operator to
    /// inspect.
    Unreadable,
}

/// Purges the row that an expiry row references, if it has expired.
pub(super) fn expiry(tx: &mut Tx<'_>, key: &[u8], purged: &mut Purged) -> Result<ExpiryOutcome, StoreError> {
    match keys::parse_expiry(key) {
        Ok((at, what)) => row(tx, at, what, purged),
        Err(error) => legible(Err(unreadable(Table::Expiries, error))),
    }
}

/// Purges the row that was scheduled for `at`, if it has expired. It may be gone, or have a new expiry time.
pub(super) fn row(
    tx: &mut Tx<'_>,
    at: Timestamp,
    what: Expiring,
    purged: &mut Purged,
) -> Result<ExpiryOutcome, StoreError> {
    legible(judge(tx, at, what, purged))
}

/// Maps a row that does not decode to [`ExpiryOutcome::Unreadable`], so that it does not block the others. A purge reads
/// everything before it writes, so it leaves nothing behind.
fn legible(fate: Result<ExpiryOutcome, StoreError>) -> Result<ExpiryOutcome, StoreError> {
    match fate {
        Err(failure @ StoreError::Corrupt { .. }) => {
            error!(error = %error_chain(&failure), "could not purge an expired row; keeping it");
            Ok(ExpiryOutcome::Unreadable)
        }
        fate => fate,
    }
}

fn judge(tx: &mut Tx<'_>, at: Timestamp, what: Expiring, purged: &mut Purged) -> Result<ExpiryOutcome, StoreError> {
    let (table, key) = what.row();
    let Some(row) = tx.get_bytes(table, &key)? else { return Ok(ExpiryOutcome::Settled) };
    let end = end(what, &row).map_err(|error| unreadable(table, error))?;
    match end {
        Some(end) if end <= tx.now() => purge(tx, what, purged)?,
        Some(end) if end == at => return Ok(ExpiryOutcome::Early),
        // A later send has taken the key over. It has a log record and is purged with that.
        Some(_) if matches!(what, Expiring::SendKey(_)) => {}
        Some(end) => {
            let other = keys::expiry(end, what);
            // The change of the expiry time also wrote this row. If it was lost, write it again.
            if tx.get_bytes(Table::Expiries, &other)?.is_none() {
                tx.put(Table::Expiries, &other, &());
            }
        }
        None => {}
    }
    Ok(ExpiryOutcome::Settled)
}

/// The expiry time of a row; `None` for a message without one.
pub(super) fn end(what: Expiring, row: &[u8]) -> Result<Option<Timestamp>, BoxError> {
    Ok(match what {
        Expiring::Message(_) => Glance::decode(row)?.expires_at,
        Expiring::Update(location) => decode_update(location, row)?.expires_at,
        Expiring::Session(_) => Some(Session::decode(row)?.expires_at),
        Expiring::Code(_) => Some(OneTimeCode::decode(row)?.forgettable_at()),
        Expiring::Request(_) => Some(IdempotentRequest::decode(row)?.begun_at + REQUEST_KEY_RETENTION),
        Expiring::SendKey(_) => Some(SendKey::decode(row)?.receipt.created_at + RETENTION),
        Expiring::DeadLetter(_) => Some(DeadLetter::decode(row)?.dead_at + RETENTION),
    })
}

/// Deletes an expired row and its dependent rows.
fn purge(tx: &mut Tx<'_>, what: Expiring, purged: &mut Purged) -> Result<(), StoreError> {
    match what {
        Expiring::Message(location) => purge_message(tx, location, purged)?,
        Expiring::Session(session_id) => {
            if let Some(session) = tx.get::<Session>(Table::Sessions, &session_id.to_bytes())? {
                sessions::end(tx, session.user_id, session_id)?;
            }
        }
        Expiring::Code(_) | Expiring::Request(_) | Expiring::SendKey(_) | Expiring::DeadLetter(_) => {
            let (table, key) = what.row();
            tx.delete(table, &key);
        }
        Expiring::Update(location) => {
            tx.delete(Table::Updates, &keys::message(location));
            tx.purged(location);
        }
    }
    Ok(())
}

/// Deletes a message, and the copy of its content in the head row. The head row itself stays.
fn purge_message(tx: &mut Tx<'_>, location: MessageLocation, purged: &mut Purged) -> Result<(), StoreError> {
    let key = keys::message(location);
    let Some(row) = tx.get_bytes(Table::Messages, &key)? else { return Ok(()) };
    let message = decode_message(location, &row).map_err(|error| unreadable(Table::Messages, error))?;
    let head: Option<Head> = tx.get(Table::Heads, &keys::chat(location.chat_id))?;
    let place_key = message.message_id.to_bytes();
    // A deleted account retries no send. Its send keys would keep digests of erased messages for days. An unreadable
    // user does not keep the message; its send key expires like any other.
    let sender = tx.get::<User>(Table::Users, &keys::user(message.sender_id));
    if sender.is_ok_and(|sender| sender.is_some_and(|sender| sender.deleted_at.is_some())) {
        forget_send(tx, location, message.sender_id, message.client_message_id)?;
    }
    tx.delete(Table::Messages, &key);
    tx.delete(Table::MessagePlaces, &place_key);
    if message.state != MessageState::default() {
        for key in tx.keys(Table::Reactions, &key)? {
            tx.delete(Table::Reactions, &key);
        }
    }
    // While it was the last message, the head row had a copy of its content.
    tx.erase(Table::Heads);
    tx.purged(location);
    purged.message(location, key.len() + row.len() + place_key.len() + location.encode().len());
    if let Some(mut head) = head
        && let Some(last) = head.last_message.as_mut().filter(|last| last.sequence == location.sequence)
    {
        last.preview = None;
        tx.put(Table::Heads, &keys::chat(location.chat_id), &head);
    }
    Ok(())
}

/// Deletes the key of a send, unless a later send has taken it over.
pub(super) fn forget_send(
    tx: &mut Tx<'_>,
    location: MessageLocation,
    sender_id: UserId,
    client_message_id: ClientMessageId,
) -> Result<(), StoreError> {
    let key = keys::send(location.chat_id, sender_id, client_message_id);
    let known: Option<SendKey> = tx.get(Table::SendKeys, &key)?;
    if known.is_some_and(|known| known.receipt.sequence == location.sequence) {
        tx.delete(Table::SendKeys, &key);
    }
    Ok(())
}

/// Rows purged in one step.
#[derive(Default)]
pub(super) struct Purged {
    messages: BTreeMap<ChatId, BTreeSet<Sequence>>,
    /// Size of their rows, including keys.
    bytes: u64,
}

impl Purged {
    fn message(&mut self, location: MessageLocation, bytes: usize) {
        self.messages.entry(location.chat_id).or_default().insert(location.sequence);
        self.bytes += bytes as u64;
    }

    /// Logs one event per chat for the purged messages, and adds their size to the space to be compacted.
    pub(super) fn log(&self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        for (chat_id, sequences) in &self.messages {
            let sequences = sequences.iter().copied().collect();
            tx.log(EventBody::MessagesExpired { chat_id: *chat_id, sequences })?;
        }
        if self.bytes > 0 {
            let earlier: u64 = tx.get(Table::Meta, PURGED)?.unwrap_or(0);
            tx.put(Table::Meta, PURGED, &earlier.saturating_add(self.bytes));
        }
        Ok(())
    }

    /// Updates the metrics, once the step is committed.
    pub(super) fn count(&self) {
        let messages = self.messages.values().map(|sequences| sequences.len() as u64).sum();
        counter!("tidings_store_purged_messages_total").increment(messages);
        counter!("tidings_store_purged_bytes_total").increment(self.bytes);
    }
}
