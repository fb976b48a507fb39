//! The commit of messages: allocation and persistence in one transaction (C1).
//!
//! One transaction moves the counter of a chat from n to n + k under the condition that it is n, and writes k messages
//! and k idempotency keys, under the condition that none is there and every sender is a member whom no block keeps away.
//! A chat's commits follow one another in its [lane](crate::lane), so a condition fails only where another process
//! writes to the same chat, a send is a retry, or a sender is none of the members or kept away; then the items say which.

use std::collections::HashSet;
use std::sync::Arc;

use domain::limits::{CONTENT_BYTES_MAX, RETENTION};
use domain::{ChatId, ClientMessageId, Event, Invariant, Message, Sequence, Ttl, UserId};
use ports::{Appended, Committed, Head, NewMessage, Receipt, SendRefusal, StoreError};

use crate::DynamoStore;
use crate::blocks;
use crate::db::{Budget, Reason, TRANSACTION_ITEMS_MAX, Transacted};
use crate::expiry::expiration_write;
use crate::item::{Item, Key, Row, bytes, item, number, seconds, text, ttl};
use crate::messages::{counter_sequence, head_changes, message_item, message_key};
use crate::outbox::dirty_mark;
use crate::schema::{TTL, Table};
use crate::write::{Condition, Write};

/// Messages in one transaction, at the most: two items for each, one for the counter and one for a sender. Of those
/// that will expire there are fewer.
pub(crate) const ROUND_LEN_MAX: usize = (TRANSACTION_ITEMS_MAX - 2) / 2;
/// How often a commit finds that another process has moved the counter before it gives up.
const TRIES_MAX: u32 = 5;

// A transaction holds 4 MB. Messages of the longest content, with their keys, fit as many as there may be of them.
const _: () = assert!(ROUND_LEN_MAX * (CONTENT_BYTES_MAX + 2048) < 4_000_000);

/// What the commit must know of a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counter {
    sequence: Sequence,
    message_ttl: Option<Ttl>,
}

impl DynamoStore {
    /// Commits sends of one chat, judged in their order, and writes down what becomes of each. What is written down
    /// holds, whatever fails afterwards.
    pub(crate) async fn commit(
        &self,
        chat_id: ChatId,
        sends: &[NewMessage],
        outcomes: &mut [Option<Appended>],
    ) -> Result<(), StoreError> {
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
                    outcome.get_or_insert(Appended::Refused(SendRefusal::CounterMissing));
                }
                continue;
            };
            let round = Round::of(sends, outcomes, counter.message_ttl);
            let messages = round.messages(sends, counter);
            match self.db().transact(|| round.writes(chat_id, counter, &messages, sends)).await? {
                Transacted::Committed => {
                    let sequence = messages.last().map_or(counter.sequence, |last| last.sequence);
                    self.counters().insert(chat_id, Counter { sequence, ..counter });
                    let mut events = Vec::with_capacity(messages.len());
                    for (index, message) in round.sends.iter().zip(messages) {
                        outcomes[*index] = Some(Appended::New(receipt(&message)));
                        let origin = sends[*index].origin_connection_id;
                        events.push(Arc::new(Event::message_persisted(message, origin)));
                    }
                    self.queue().push(Committed { chat_id, messages: events });
                }
                Transacted::Cancelled(reasons) => match round.judge(&reasons) {
                    Verdict::Look(doubtful) => self.look(chat_id, sends, &doubtful, outcomes).await?,
                    Verdict::CounterMoved => {
                        self.counters().remove(&chat_id);
                        tries += 1;
                        if tries == TRIES_MAX {
                            let reason = format!("the counter of `{chat_id}` was moved by others {TRIES_MAX} times");
                            return Err(StoreError::unavailable(reason));
                        }
                        budget.pause("the counter was moved by others").await?;
                    }
                    Verdict::CounterBehind => {
                        let source = format!("the counter of `{chat_id}` is behind its messages");
                        ports::violated(Invariant::SequenceMonotonicity, &source);
                        let source = source.into();
                        return Err(StoreError::Corrupt { table: Table::ChatCounters.name(), source });
                    }
                },
            }
        }
    }

    /// The counter of a chat, as far as it is known here. Whoever moves it elsewhere makes the commit fail, not lie.
    async fn counter(&self, chat_id: ChatId) -> Result<Option<Counter>, StoreError> {
        if let Some(counter) = self.counters().get(&chat_id) {
            return Ok(Some(counter));
        }
        let Some(item) = self.db().get(&Key::one(Table::ChatCounters, chat_id)).await? else { return Ok(None) };
        let message_ttl = Row { table: Table::ChatCounters, item: &item }.maybe_life("message_ttl")?;
        let counter = Counter { sequence: counter_sequence(&item)?, message_ttl };
        self.counters().insert(chat_id, counter);
        Ok(Some(counter))
    }

    /// Decides sends that cannot be new from what the tables say: membership first, then the key, then blocks. One about
    /// which they say nothing any more stays undecided.
    async fn look(
        &self,
        chat_id: ChatId,
        sends: &[NewMessage],
        doubtful: &[usize],
        outcomes: &mut [Option<Appended>],
    ) -> Result<(), StoreError> {
        let mut keys = vec![Key::one(Table::Chats, chat_id)];
        for index in doubtful {
            let send = &sends[*index];
            keys.push(Key::of(Table::ChatMemberships, chat_id, send.sender_id));
            keys.push(send_key(chat_id, send));
        }
        let mut found = self.db().get_many(&keys).await?.into_iter();
        let chat_exists = found.next().flatten().is_some();
        for index in doubtful {
            let (member, key) = (found.next().flatten(), found.next().flatten());
            outcomes[*index] = match (chat_exists, member, key) {
                (false, ..) => Some(Appended::Refused(SendRefusal::ChatNotFound)),
                (true, None, _) => Some(Appended::Refused(SendRefusal::NotAMember)),
                (true, Some(_), Some(key)) => Some(retried(&key, &sends[*index])?),
                (true, Some(member), None) => blocks::kept_away(&member).map(Appended::Refused),
            };
        }
        Ok(())
    }
}

/// The sends that one transaction commits, by their place among all that were asked.
struct Round {
    sends: Vec<usize>,
    /// Who sends them, each once.
    senders: Vec<UserId>,
}

/// What a cancelled transaction means.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// These sends are not new, or not allowed.
    Look(Vec<usize>),
    /// Another process has committed, or the chat has changed how long its messages live.
    CounterMoved,
    /// There is a message where the counter says that none is.
    CounterBehind,
}

impl Round {
    /// As many undecided sends as fit, from the first. A second try of a send of the same round waits for the next,
    /// where it finds the key of the first.
    fn of(sends: &[NewMessage], outcomes: &[Option<Appended>], message_ttl: Option<Ttl>) -> Self {
        let (mut round, mut items) = (Self { sends: vec![], senders: vec![] }, 1);
        let mut seen: HashSet<(UserId, ClientMessageId)> = HashSet::new();
        for (index, send) in sends.iter().enumerate().filter(|(index, _)| outcomes[*index].is_none()) {
            if !seen.insert((send.sender_id, send.client_message_id)) {
                continue;
            }
            let new_sender = !round.senders.contains(&send.sender_id);
            let expires = send.ttl.or(message_ttl).is_some();
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

    /// What the sends become behind the counter.
    fn messages(&self, sends: &[NewMessage], counter: Counter) -> Vec<Message> {
        let mut sequence = counter.sequence;
        let place = |index: &usize| {
            sequence = sequence.next();
            sends[*index].clone().at(sequence, counter.message_ttl)
        };
        self.sends.iter().map(place).collect()
    }

    /// The counter, then key and row of each message, then the membership of each sender: [`judge`](Self::judge) reads
    /// the reasons in this order. Expirations come last, because nothing is demanded of them.
    fn writes(&self, chat_id: ChatId, counter: Counter, messages: &[Message], sends: &[NewMessage]) -> Vec<Write> {
        let mut writes = vec![move_counter(chat_id, counter, messages)];
        for (index, message) in self.sends.iter().zip(messages) {
            let send = &sends[*index];
            writes.push(Write::create(send_key(chat_id, send), key_item(&receipt(message), &send.fingerprint())));
            let row = message_item(message, send.origin_connection_id);
            writes.push(Write::create(message_key(chat_id, message.sequence), row));
        }
        let member = |user_id: &UserId| Write::check(Key::of(Table::ChatMemberships, chat_id, user_id));
        writes.extend(self.senders.iter().map(|user_id| blocks::unless_kept_away(member(user_id))));
        writes.extend(messages.iter().filter_map(expiration_write));
        writes
    }

    /// Says why a transaction was cancelled. What is known of single sends comes first: a retry must be found before
    /// its counter is blamed, and the others are tried again anyway.
    fn judge(&self, reasons: &[Reason]) -> Verdict {
        let failed = |part: usize| reasons.get(part) == Some(&Reason::Condition);
        let doubtful: Vec<usize> =
            self.sends.iter().enumerate().filter(|(n, _)| failed(1 + 2 * n)).map(|(_, index)| *index).collect();
        let senders_from = 1 + 2 * self.sends.len();
        let all_members = (0..self.senders.len()).all(|n| !failed(senders_from + n));
        let row_is_there = (0..self.sends.len()).any(|n| failed(2 + 2 * n));
        match (doubtful.is_empty(), all_members) {
            // Whose sends these are is left to the memberships: they are read together with the keys.
            (_, false) => Verdict::Look(self.sends.clone()),
            (false, true) => Verdict::Look(doubtful),
            (true, true) if row_is_there && !failed(0) => Verdict::CounterBehind,
            (true, true) => Verdict::CounterMoved,
        }
    }
}

/// Moves the counter to the last of the messages and marks the chat for the relay.
fn move_counter(chat_id: ChatId, counter: Counter, messages: &[Message]) -> Write {
    let (first, last) = messages.first().zip(messages.last()).expect("a round has a send");
    let mut changes = head_changes(&Head::at(last, counter.message_ttl));
    changes.extend(dirty_mark(chat_id, first.created_at));
    Write::update(Key::one(Table::ChatCounters, chat_id), changes)
        .when(Condition::Equals("sequence_counter", number(counter.sequence.0)))
        .when(Condition::is("message_ttl", counter.message_ttl.map(seconds)))
}

fn send_key(chat_id: ChatId, send: &NewMessage) -> Key {
    key_of_send(chat_id, send.sender_id, send.client_message_id)
}

/// Where a send is remembered.
pub(crate) fn key_of_send(chat_id: ChatId, sender_id: UserId, client_message_id: ClientMessageId) -> Key {
    Key::of(Table::IdempotencyKeys, chat_id, format_args!("{sender_id}#{client_message_id}"))
}

/// What is remembered of a send.
pub(crate) fn key_item(receipt: &Receipt, fingerprint: &[u8; 16]) -> Item {
    item([
        ("message_id", Some(text(receipt.message_id))),
        ("sequence", Some(number(receipt.sequence.0))),
        ("created_at", Some(text(receipt.created_at))),
        ("fingerprint", Some(bytes(fingerprint))),
        (TTL, Some(ttl(receipt.created_at + RETENTION))),
    ])
}

/// What the sender of a key was told.
pub(crate) fn read_receipt(key: &Item) -> Result<Receipt, StoreError> {
    let row = Row { table: Table::IdempotencyKeys, item: key };
    Ok(Receipt {
        message_id: row.parsed("message_id")?,
        sequence: Sequence(row.number("sequence")?),
        created_at: row.parsed("created_at")?,
    })
}

/// What a send gets whose key is there.
fn retried(key: &Item, send: &NewMessage) -> Result<Appended, StoreError> {
    let row = Row { table: Table::IdempotencyKeys, item: key };
    let receipt = read_receipt(key)?;
    let same = row.array("fingerprint")? == send.fingerprint();
    Ok(if same { Appended::Duplicate(receipt) } else { Appended::Refused(SendRefusal::KeyReused) })
}

fn receipt(message: &Message) -> Receipt {
    Receipt { message_id: message.message_id, sequence: message.sequence, created_at: message.created_at }
}

#[cfg(test)]
mod tests {
    use domain::{ContentType, MessageId, Timestamp};

    use super::*;

    fn send(sender: u8, client: u8) -> NewMessage {
        NewMessage {
            chat_id: ChatId::from_bytes([1; 16]),
            sender_id: UserId::from_bytes([sender; 16]),
            client_message_id: ClientMessageId::from_bytes([client; 16]),
            message_id: MessageId::from_bytes([client; 16]),
            content: "hello".to_owned().try_into().unwrap(),
            content_type: ContentType::Text,
            ttl: None,
            created_at: Timestamp::default(),
            origin_connection_id: None,
        }
    }

    /// Two sends of one sender and one of another: the counter, three times key and row, two memberships.
    fn round() -> Round {
        Round::of(&[send(1, 1), send(1, 2), send(2, 3)], &[None; 3], None)
    }

    #[track_caller]
    fn check(failed: &[usize], expected: Verdict) {
        let mut reasons = vec![Reason::None; 9];
        for part in failed {
            reasons[*part] = Reason::Condition;
        }
        assert_eq!(round().judge(&reasons), expected);
    }

    #[test]
    fn a_counter_that_was_moved_is_read_again() {
        check(&[0], Verdict::CounterMoved);
        // Whoever moved it has written the rows, too.
        check(&[0, 2, 4], Verdict::CounterMoved);
    }

    #[test]
    fn a_key_that_is_there_is_looked_at_before_the_counter() {
        check(&[3], Verdict::Look(vec![1]));
        check(&[0, 1, 2, 5], Verdict::Look(vec![0, 2]));
    }

    #[test]
    fn a_sender_who_is_no_member_has_all_sends_looked_at() {
        check(&[8], Verdict::Look(vec![0, 1, 2]));
        check(&[0, 1, 7], Verdict::Look(vec![0, 1, 2]));
    }

    #[test]
    fn a_row_above_a_counter_that_has_not_moved_is_a_damage() {
        check(&[2], Verdict::CounterBehind);
    }

    #[test]
    fn a_conflict_or_a_short_answer_blames_the_counter() {
        assert_eq!(round().judge(&[]), Verdict::CounterMoved);
        assert_eq!(round().judge(&vec![Reason::Busy; 9]), Verdict::CounterMoved);
    }

    #[test]
    fn a_round_holds_as_many_sends_as_one_transaction_may() {
        let alone: Vec<_> = (0..60).map(|n| send(1, n)).collect();
        assert_eq!(Round::of(&alone, &vec![None; 60], None).sends.len(), ROUND_LEN_MAX);
        // One item more for each that expires.
        assert_eq!(Round::of(&alone, &vec![None; 60], Ttl::from_secs(60)).sends.len(), 32);
        let crowd: Vec<_> = (0..60).map(|n| send(n, n)).collect();
        let round = Round::of(&crowd, &vec![None; 60], None);
        assert_eq!((round.sends.len(), round.senders.len()), (33, 33));
    }

    #[test]
    fn the_second_try_of_a_send_waits_for_the_next_round() {
        let sends = [send(1, 1), send(1, 1), send(2, 1)];
        assert_eq!(Round::of(&sends, &[None; 3], None).sends, [0, 2]);
        let refused = Some(Appended::Refused(SendRefusal::NotAMember));
        assert_eq!(Round::of(&sends, &[refused, None, refused], None).sends, [1]);
    }
}
