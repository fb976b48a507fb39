//! The commit of updates, and the reads of reactions.

use domain::{ChatId, Event, EventNumber, Member, Message, MessageUpdate, Reaction, Sequence, Timestamp, UserId};
use domain::{UpdateRefusal, apply_update};
use ports::{AppendOutcome, Head, MemberReactions, MessageKey, NewUpdate, Receipt, SendRefusal, StoreError};

use crate::error::unreadable;
use crate::keys::{self, Expiring};
use crate::records::{
    Fingerprint, MessageLocation, SendKey, decode_message, decode_update, encode_message, encode_update,
};
use crate::tables::{Table, Tables, View};
use crate::tx::Tx;

/// Appends an update whose author may write to the chat, and rewrites its message.
pub(crate) fn append(
    tx: &mut Tx<'_>,
    new: &NewUpdate,
    send_key: &[u8],
    fingerprint: Fingerprint,
) -> Result<AppendOutcome, StoreError> {
    let NewUpdate { chat_id, user_id, target, .. } = *new;
    let refused = |refusal| Ok(AppendOutcome::Refused(SendRefusal::Update(refusal)));
    let head_key = keys::chat(chat_id);
    let Some(head) = tx.get::<Head>(Table::Heads, &head_key)? else {
        return Ok(AppendOutcome::Refused(SendRefusal::CounterMissing));
    };
    let location = MessageLocation { chat_id, sequence: target };
    let message_key = keys::message(location);
    let Some(found) = tx.find(Table::Messages, &message_key)? else {
        return refused(UpdateRefusal::MessageNotFound);
    };
    let mut message = decode_message(location, &found.row).map_err(|error| unreadable(Table::Messages, error))?;
    let member: Option<Member> = tx.get(Table::Members, &keys::member(chat_id, user_id))?;
    let Some(Member { role, .. }) = member else { return Ok(AppendOutcome::Refused(SendRefusal::NotAMember)) };
    let own_key = keys::reactions(location, user_id);
    let before: Vec<Reaction> = tx.get(Table::Reactions, &own_key)?.unwrap_or_default();
    let mut own = before.clone();
    let sequence = head.sequence.next();
    let replaces_content = new.action.replaces_content();
    if let Err(refusal) = apply_update(&mut message, &mut own, new.action.clone(), new.updater(role, sequence)) {
        return refused(refusal);
    }

    let update = new.at(sequence, &message);
    let receipt = Receipt { message_id: update.update_id, sequence, created_at: update.created_at };
    let event_number = EventNumber::at(sequence, head.changes);
    tx.put_new(Table::Updates, &keys::message(MessageLocation { chat_id, sequence }), encode_update(&update));
    if let Some(expires_at) = update.expires_at {
        tx.expire(expires_at, Expiring::Update(MessageLocation { chat_id, sequence }));
    }
    if message.is_expired(new.created_at) {
        tx.expire(new.created_at, Expiring::Message(location));
    }
    tx.replace(Table::Messages, &message_key, &found, encode_message(&message));
    if replaces_content {
        // Earlier versions of these rows have the content or its preview, which no reader finds any more.
        tx.erase(Table::Messages);
        tx.erase(Table::Heads);
    }
    if own != before {
        if own.is_empty() {
            tx.delete(Table::Reactions, &own_key);
        } else {
            tx.put(Table::Reactions, &own_key, &own);
        }
    }
    tx.put(Table::SendKeys, send_key, &SendKey { receipt, fingerprint });
    tx.put(Table::Heads, &head_key, &head.updated(sequence, &message));
    let alive = (!message.is_expired(new.created_at)).then_some(message);
    tx.log_event(Event::message_updated(update, alive).numbered(Some(event_number)));
    Ok(AppendOutcome::New(receipt))
}

/// The updates of a range of sequences, ascending.
pub(crate) fn updates(
    view: &View<'_>,
    chat_id: ChatId,
    first: Sequence,
    last: Sequence,
) -> impl DoubleEndedIterator<Item = Result<MessageUpdate, StoreError>> {
    let key = |sequence| keys::message(MessageLocation { chat_id, sequence });
    view.range(Table::Updates, key(first)..=key(last)).map(|row| {
        let (key, row) = row?;
        let update = keys::parse_message(&key).and_then(|location| decode_update(location, &row));
        update.map_err(|error| unreadable(Table::Updates, error))
    })
}

/// The message of an update, unless it was purged or has expired.
pub(crate) fn message_of(
    view: &View<'_>,
    update: &MessageUpdate,
    now: Timestamp,
) -> Result<Option<Message>, StoreError> {
    let location = MessageLocation { chat_id: update.chat_id, sequence: update.target };
    let Some(row) = view.get_bytes(Table::Messages, &keys::message(location))? else { return Ok(None) };
    let message = decode_message(location, &row).map_err(|error| unreadable(Table::Messages, error))?;
    Ok((!message.is_expired(now)).then_some(message))
}

/// The reactions of a user on each of these messages.
pub(crate) fn own(tables: &Tables, messages: &[MessageKey], user_id: UserId) -> Result<Vec<Vec<Reaction>>, StoreError> {
    let view = tables.view();
    let own = |message: &MessageKey| {
        let key = keys::reactions(location(message), user_id);
        Ok(view.get(Table::Reactions, &key)?.unwrap_or_default())
    };
    messages.iter().map(own).collect()
}

/// The members with reactions on a message, in the order of their ids.
pub(crate) fn reactions(
    tables: &Tables,
    message: &MessageKey,
    after: Option<UserId>,
    count: usize,
) -> Result<Vec<MemberReactions>, StoreError> {
    let view = tables.view();
    let rows = view.prefix(Table::Reactions, &keys::message(location(message)));
    let mut members = vec![];
    for row in rows {
        let (key, row) = row?;
        let unreadable = |error| unreadable(Table::Reactions, error);
        let (_, user_id) = keys::parse_reactions(&key).map_err(unreadable)?;
        if Some(user_id) <= after {
            continue;
        }
        if members.len() == count {
            break;
        }
        let reactions = crate::records::Stored::decode(&row).map_err(unreadable)?;
        members.push(MemberReactions { user_id, reactions });
    }
    Ok(members)
}

fn location(message: &MessageKey) -> MessageLocation {
    MessageLocation { chat_id: message.chat_id, sequence: message.sequence }
}
