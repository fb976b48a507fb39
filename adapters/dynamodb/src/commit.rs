//! The commit of messages: allocation and persistence in one transaction (C1).
//!
//! One transaction moves the counter of a chat from n to n + k and writes k messages and k idempotency keys. Its
//! conditions: the counter is n, no message or key exists yet, and every sender is a member and not blocked. A
//! caller has one commit of a chat in progress. So a condition fails only if another process writes to the same chat, a
//! send is a retry, or a sender is not a member or is blocked. The items then show which.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use domain::limits::{CONTENT_BYTES_MAX, RETENTION};
use domain::{ChatId, ClientMessageId, Event, Invariant, Message, Sequence, Ttl, UserId};
use futures_util::future::try_join_all;
use ports::{AppendOutcome, Committed, ExportedSend, Head, NewMessage, Receipt, SendRefusal, StoreError};

use crate::DynamoStore;
use crate::blocks;
use crate::db::{Budget, Reason, TRANSACTION_ITEMS_MAX, Transacted};
use crate::expiry::expiration_write;
use crate::item::{DynamoItem, ItemKey, ItemReader, bytes, item, number, seconds, text, ttl};
use crate::messages::{counter_sequence, head_changes, message_item, message_key};
use crate::outbox::dirty_mark;
use crate::schema::{TTL, Table};
use crate::write::{Condition, Write};

/// Most sends of one transaction: two items for each, one for the counter and one for a sender. Expiring messages need a
/// third item, so fewer of them fit.
pub const TRANSACTION_SENDS_MAX: usize = (TRANSACTION_ITEMS_MAX - 2) / 2;
/// How often a commit retries after another process has moved the counter.
const TRIES_MAX: u32 = 5;

// A transaction is limited to 4 MB. The maximum number of messages with the longest content fits, including their keys.
const _: () = assert!(TRANSACTION_SENDS_MAX * (CONTENT_BYTES_MAX + 2048) < 4_000_000);

/// The state of a chat that a commit needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChatCounter {
    sequence: Sequence,
    message_ttl: Option<Ttl>,
}

impl DynamoStore {
    /// Commits sends of one chat, decided in order, and records the outcome of each. A recorded outcome is final, even
    /// if a later part fails.
    pub(crate) async fn commit(
        &self,
        chat_id: ChatId,
        sends: &[NewMessage],
        outcomes: &mut [Option<AppendOutcome>],
    ) -> Result<(), StoreError> {
        self.refuse_suspended(sends, outcomes).await?;
        let mut budget = Budget::new();
        let mut tries = 0;
        loop {
            if outcomes.iter().all(Option::is_some) {
                return Ok(());
            }
            let Some(counter) = self.counter(chat_id).await? else {
                let undecided: Vec<_> = (0..sends.len()).filter(|index| outcomes[*index].is_none()).collect();
                self.look(chat_id, sends, &undecided, outcomes).await?;
                for outcome in &mut *outcomes {
                    outcome.get_or_insert(AppendOutcome::Refused(SendRefusal::CounterMissing));
                }
                continue;
            };
            let round = CommitRound::of(sends, outcomes, counter.message_ttl);
            let messages = round.messages(sends, counter);
            match self.db().transact(|| round.writes(chat_id, counter, &messages, sends)).await? {
                Transacted::Committed => {
                    let sequence = messages.last().map_or(counter.sequence, |last| last.sequence);
                    self.counters().insert(chat_id, ChatCounter { sequence, ..counter });
                    let mut events = Vec::with_capacity(messages.len());
                    for (index, message) in round.sends.iter().zip(messages) {
                        outcomes[*index] = Some(AppendOutcome::New(receipt(&message)));
                        let origin = sends[*index].origin_connection_id;
                        events.push(Arc::new(Event::message_persisted(message, origin)));
                    }
                    self.queue().push(Committed { chat_id, messages: events });
                }
                Transacted::Cancelled(reasons) => match round.judge(&reasons) {
                    Cancellation::Look(doubtful) => self.look(chat_id, sends, &doubtful, outcomes).await?,
                    Cancellation::CounterMoved => {
                        self.counters().remove(&chat_id);
                        tries += 1;
                        if tries == TRIES_MAX {
                            let reason =
                                format!("the counter of `{chat_id}` was moved by other processes {TRIES_MAX} times");
                            return Err(StoreError::unavailable(reason));
                        }
                        budget.pause("the counter was moved by other processes").await?;
                    }
                    Cancellation::CounterBehind => {
                        let source = format!("the counter of `{chat_id}` is behind its messages");
                        ports::violated(Invariant::SequenceMonotonicity, &source);
                        let source = source.into();
                        return Err(StoreError::Corrupt { table: Table::ChatCounters.name(), source });
                    }
                },
            }
        }
    }

    /// Refuses the sends of suspended users. Restrictions are cached, so that this usually takes no request.
    async fn refuse_suspended(
        &self,
        sends: &[NewMessage],
        outcomes: &mut [Option<AppendOutcome>],
    ) -> Result<(), StoreError> {
        let senders: HashSet<UserId> = sends.iter().map(|send| send.sender_id).collect();
        let lookups = senders.into_iter().map(async |sender_id| Ok((sender_id, self.is_suspended(sender_id).await?)));
        let suspended: HashMap<UserId, bool> = try_join_all(lookups).await?.into_iter().collect();
        for (send, outcome) in sends.iter().zip(outcomes) {
            if suspended[&send.sender_id] {
                *outcome = Some(AppendOutcome::Refused(SendRefusal::Suspended));
            }
        }
        Ok(())
    }

    /// The counter of a chat, possibly cached. If another process has moved it, the commit's condition fails, so a
    /// stale value is safe.
    async fn counter(&self, chat_id: ChatId) -> Result<Option<ChatCounter>, StoreError> {
        if let Some(counter) = self.counters().get(&chat_id) {
            return Ok(Some(counter));
        }
        let Some(item) = self.db().get(&ItemKey::one(Table::ChatCounters, chat_id)).await? else { return Ok(None) };
        let message_ttl = ItemReader { table: Table::ChatCounters, item: &item }.maybe_life("message_ttl")?;
        let counter = ChatCounter { sequence: counter_sequence(&item)?, message_ttl };
        self.counters().insert(chat_id, counter);
        Ok(Some(counter))
    }

    /// Decides sends that are not new or not allowed, from the tables: membership first, then the key, then blocks. A
    /// send that the tables no longer decide stays undecided.
    async fn look(
        &self,
        chat_id: ChatId,
        sends: &[NewMessage],
        doubtful: &[usize],
        outcomes: &mut [Option<AppendOutcome>],
    ) -> Result<(), StoreError> {
        let mut keys = vec![ItemKey::one(Table::Chats, chat_id)];
        for index in doubtful {
            let send = &sends[*index];
            keys.push(ItemKey::of(Table::ChatMemberships, chat_id, send.sender_id));
            keys.push(send_key(chat_id, send));
        }
        let mut found = self.db().get_many(&keys).await?.into_iter();
        let chat_exists = found.next().flatten().is_some();
        for index in doubtful {
            let (member, key) = (found.next().flatten(), found.next().flatten());
            outcomes[*index] = match (chat_exists, member, key) {
                (false, ..) => Some(AppendOutcome::Refused(SendRefusal::ChatNotFound)),
                (true, None, _) => Some(AppendOutcome::Refused(SendRefusal::NotAMember)),
                (true, Some(_), Some(key)) => Some(retried(&key, &sends[*index])?),
                (true, Some(member), None) => blocks::kept_away(&member).map(AppendOutcome::Refused),
            };
        }
        Ok(())
    }
}

/// The sends that one transaction commits, as indexes into the batch.
struct CommitRound {
    sends: Vec<usize>,
    /// The distinct senders.
    senders: Vec<UserId>,
}

/// Why a transaction was cancelled.
#[derive(Debug, PartialEq, Eq)]
enum Cancellation {
    /// These sends are not new, or not allowed.
    Look(Vec<usize>),
    /// Another process has committed, or the chat's message TTL has changed.
    CounterMoved,
    /// A message exists above the counter.
    CounterBehind,
}

impl CommitRound {
    /// As many undecided sends as fit, from the first. A repetition of a send in the same batch waits for the next
    /// round, where it finds the key of the first.
    fn of(sends: &[NewMessage], outcomes: &[Option<AppendOutcome>], message_ttl: Option<Ttl>) -> Self {
        let (mut round, mut items) = (Self { sends: vec![], senders: vec![] }, 1);
        let mut seen: HashSet<(UserId, ClientMessageId)> = HashSet::new();
        for (index, send) in sends.iter().enumerate().filter(|(index, _)| outcomes[*index].is_none()) {
            if !seen.insert((send.sender_id, send.client_message_id)) {
                continue;
            }
            let new_sender = !round.senders.contains(&send.sender_id);
            let expires = send.lifetime(message_ttl).is_some();
            items += 2 + usize::from(expires) + usize::from(new_sender);
            if items > TRANSACTION_ITEMS_MAX {
                break;
            }
            round.sends.push(index);
            if new_sender {
                round.senders.push(send.sender_id);
            }
        }
        round
    }

    /// The messages of the sends, with sequences after the counter.
    fn messages(&self, sends: &[NewMessage], counter: ChatCounter) -> Vec<Message> {
        let mut sequence = counter.sequence;
        let place = |index: &usize| {
            sequence = sequence.next();
            sends[*index].clone().at(sequence, counter.message_ttl)
        };
        self.sends.iter().map(place).collect()
    }

    /// The counter, then key and row of each message, then the membership of each sender: [`judge`](Self::judge) reads
    /// the reasons in this order. Expirations come last, because they have no conditions.
    fn writes(&self, chat_id: ChatId, counter: ChatCounter, messages: &[Message], sends: &[NewMessage]) -> Vec<Write> {
        let mut writes = vec![move_counter(chat_id, counter, messages)];
        for (index, message) in self.sends.iter().zip(messages) {
            let send = &sends[*index];
            writes.push(Write::create(send_key(chat_id, send), key_item(&receipt(message), &send.fingerprint())));
            let row = message_item(message, send.origin_connection_id);
            writes.push(Write::create(message_key(chat_id, message.sequence), row));
        }
        let member = |user_id: &UserId| Write::check(ItemKey::of(Table::ChatMemberships, chat_id, user_id));
        writes.extend(self.senders.iter().map(|user_id| blocks::unless_kept_away(member(user_id))));
        writes.extend(messages.iter().filter_map(expiration_write));
        writes
    }

    /// Derives why a transaction was cancelled. Single sends are checked first: a retry must be detected before the
    /// counter is considered, and the other sends are retried anyway.
    fn judge(&self, reasons: &[Reason]) -> Cancellation {
        let failed = |part: usize| reasons.get(part) == Some(&Reason::Condition);
        let doubtful: Vec<usize> =
            self.sends.iter().enumerate().filter(|(n, _)| failed(1 + 2 * n)).map(|(_, index)| *index).collect();
        let senders_from = 1 + 2 * self.sends.len();
        let all_members = (0..self.senders.len()).all(|n| !failed(senders_from + n));
        let row_is_there = (0..self.sends.len()).any(|n| failed(2 + 2 * n));
        match (doubtful.is_empty(), all_members) {
            // The memberships decide which sends are affected; they are read together with the keys.
            (_, false) => Cancellation::Look(self.sends.clone()),
            (false, true) => Cancellation::Look(doubtful),
            (true, true) if row_is_there && !failed(0) => Cancellation::CounterBehind,
            (true, true) => Cancellation::CounterMoved,
        }
    }
}

/// Moves the counter to the last message and marks the chat for the relay.
fn move_counter(chat_id: ChatId, counter: ChatCounter, messages: &[Message]) -> Write {
    let (first, last) = messages.first().zip(messages.last()).expect("a round has a send");
    let mut changes = head_changes(&Head::at(last, counter.message_ttl));
    changes.extend(dirty_mark(chat_id, first.created_at));
    Write::update(ItemKey::one(Table::ChatCounters, chat_id), changes)
        .when(Condition::Equals("sequence_counter", number(counter.sequence.0)))
        .when(Condition::is("message_ttl", counter.message_ttl.map(seconds)))
}

fn send_key(chat_id: ChatId, send: &NewMessage) -> ItemKey {
    key_of_send(chat_id, send.sender_id, send.client_message_id)
}

/// The idempotency key of a send.
pub(crate) fn key_of_send(chat_id: ChatId, sender_id: UserId, client_message_id: ClientMessageId) -> ItemKey {
    ItemKey::of(Table::IdempotencyKeys, chat_id, format_args!("{sender_id}#{client_message_id}"))
}

/// The stored form of a committed send.
pub(crate) fn key_item(receipt: &Receipt, fingerprint: &[u8; 16]) -> DynamoItem {
    item([
        ("message_id", Some(text(receipt.message_id))),
        ("sequence", Some(number(receipt.sequence.0))),
        ("created_at", Some(text(receipt.created_at))),
        ("fingerprint", Some(bytes(fingerprint))),
        (TTL, Some(ttl(receipt.created_at + RETENTION))),
    ])
}

/// The receipt that the sender got.
pub(crate) fn read_receipt(key: &DynamoItem) -> Result<Receipt, StoreError> {
    let row = ItemReader { table: Table::IdempotencyKeys, item: key };
    Ok(Receipt {
        message_id: row.parsed("message_id")?,
        sequence: Sequence(row.number("sequence")?),
        created_at: row.parsed("created_at")?,
    })
}

/// A committed send.
pub(crate) fn read_send(item: &DynamoItem) -> Result<ExportedSend, StoreError> {
    let row = ItemReader { table: Table::IdempotencyKeys, item };
    let (sender_id, send) = row.text("send_key")?.split_once('#').unwrap_or_default();
    let send: Option<(UserId, ClientMessageId)> = sender_id.parse().ok().zip(send.parse().ok());
    let (sender_id, client_message_id) = send.ok_or_else(|| row.unreadable("its key is not a send"))?;
    Ok(ExportedSend {
        chat_id: row.parsed("chat_id")?,
        sender_id,
        client_message_id,
        receipt: read_receipt(item)?,
        fingerprint: row.array("fingerprint")?,
    })
}

/// The outcome of a send with an existing key.
fn retried(key: &DynamoItem, send: &NewMessage) -> Result<AppendOutcome, StoreError> {
    let row = ItemReader { table: Table::IdempotencyKeys, item: key };
    let receipt = read_receipt(key)?;
    let same = row.array("fingerprint")? == send.fingerprint();
    Ok(if same { AppendOutcome::Duplicate(receipt) } else { AppendOutcome::Refused(SendRefusal::KeyReused) })
}

fn receipt(message: &Message) -> Receipt {
    Receipt { message_id: message.message_id, sequence: message.sequence, created_at: message.created_at }
}

#[cfg(test)]
mod tests {
    use domain::{Body, ContentType, MessageId, Timestamp};

    use super::*;

    fn send(sender: u8, client: u8) -> NewMessage {
        NewMessage {
            chat_id: ChatId::from_bytes([1; 16]),
            sender_id: UserId::from_bytes([sender; 16]),
            client_message_id: ClientMessageId::from_bytes([client; 16]),
            message_id: MessageId::from_bytes([client; 16]),
            body: Body::new("hello".to_owned().try_into().unwrap(), ContentType::Text),
            ttl: None,
            ttl_max: None,
            created_at: Timestamp::default(),
            origin_connection_id: None,
        }
    }

    /// Two sends of one sender and one of another: the counter, three times key and row, two memberships.
    fn round() -> CommitRound {
        CommitRound::of(&[send(1, 1), send(1, 2), send(2, 3)], &[None; 3], None)
    }

    #[track_caller]
    fn check(failed: &[usize], expected: Cancellation) {
        let mut reasons = vec![Reason::None; 9];
        for part in failed {
            reasons[*part] = Reason::Condition;
        }
        assert_eq!(round().judge(&reasons), expected);
    }

    #[test]
    fn a_counter_that_was_moved_is_read_again() {
        check(&[0], Cancellation::CounterMoved);
        // The process that moved it has also written the rows.
        check(&[0, 2, 4], Cancellation::CounterMoved);
    }

    #[test]
    fn a_key_that_is_there_is_looked_at_before_the_counter() {
        check(&[3], Cancellation::Look(vec![1]));
        check(&[0, 1, 2, 5], Cancellation::Look(vec![0, 2]));
    }

    #[test]
    fn a_sender_who_is_no_member_has_all_sends_looked_at() {
        check(&[8], Cancellation::Look(vec![0, 1, 2]));
        check(&[0, 1, 7], Cancellation::Look(vec![0, 1, 2]));
    }

    #[test]
    fn a_row_above_a_counter_that_has_not_moved_is_a_damage() {
        check(&[2], Cancellation::CounterBehind);
    }

    #[test]
    fn a_conflict_or_a_short_answer_blames_the_counter() {
        assert_eq!(round().judge(&[]), Cancellation::CounterMoved);
        assert_eq!(round().judge(&vec![Reason::Busy; 9]), Cancellation::CounterMoved);
    }

    #[test]
    fn a_round_holds_as_many_sends_as_one_transaction_may() {
        let alone: Vec<_> = (0..60).map(|n| send(1, n)).collect();
        assert_eq!(CommitRound::of(&alone, &vec![None; 60], None).sends.len(), TRANSACTION_SENDS_MAX);
        // One more item for each expiring message.
        assert_eq!(CommitRound::of(&alone, &vec![None; 60], Ttl::from_secs(60)).sends.len(), 32);
        let crowd: Vec<_> = (0..60).map(|n| send(n, n)).collect();
        let round = CommitRound::of(&crowd, &vec![None; 60], None);
        assert_eq!((round.sends.len(), round.senders.len()), (33, 33));
    }

    #[test]
    fn the_second_try_of_a_send_waits_for_the_next_round() {
        let sends = [send(1, 1), send(1, 1), send(2, 1)];
        assert_eq!(CommitRound::of(&sends, &[None; 3], None).sends, [0, 2]);
        let refused = Some(AppendOutcome::Refused(SendRefusal::NotAMember));
        assert_eq!(CommitRound::of(&sends, &[refused, None, refused], None).sends, [1]);
    }
}
