//! The order of commits within this process: one lane for each chat that is being written to.
//!
//! While one transaction of a chat is under way, the next sends gather and are committed together. Other processes may
//! write to the same chat; the transaction itself tells.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use domain::ChatId;
use ports::{Appended, MessageWriter, NewMessage, SendRefusal, StoreError};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::error;

use crate::DynamoStore;
use crate::commit::ROUND_LEN_MAX;
use crate::config::CALL_DEADLINE;

/// Sends of one chat that may wait; more are refused. Ingest lets fewer come.
const LANE_LEN_MAX: usize = 16_384;

/// The lanes that somebody serves.
#[derive(Clone, Default)]
pub(crate) struct Lanes(Arc<Mutex<HashMap<ChatId, VecDeque<Waiting>>>>);

/// A send that waits for its commit.
struct Waiting {
    send: NewMessage,
    answer: oneshot::Sender<Answer>,
}

type Answer = Result<Appended, Arc<StoreError>>;

#[async_trait]
impl MessageWriter for DynamoStore {
    async fn append(&self, batch: Vec<NewMessage>) -> Result<Vec<Appended>, StoreError> {
        let mut answers = Vec::with_capacity(batch.len());
        let mut opened = vec![];
        {
            let mut lanes = self.lanes().lock();
            for send in batch {
                let chat_id = send.chat_id;
                let lane = lanes.entry(chat_id).or_insert_with(|| {
                    opened.push(chat_id);
                    VecDeque::new()
                });
                let (answer, answered) = oneshot::channel();
                // A full lane drops the other half, which says so below.
                if lane.len() < LANE_LEN_MAX {
                    lane.push_back(Waiting { send, answer });
                }
                answers.push(answered);
            }
        }
        for chat_id in opened {
            // Nobody waits for the task itself: it ends with its lane, and each of its commits within the deadline. A
            // caller that goes away leaves it to finish what has been handed over.
            tokio::spawn(serve(self.clone(), chat_id));
        }
        let mut outcomes = Vec::with_capacity(answers.len());
        for answered in answers {
            match answered.await {
                Ok(Ok(outcome)) => outcomes.push(outcome),
                Ok(Err(failure)) => return Err(StoreError::unavailable(failure)),
                Err(_dropped) => return Err(StoreError::unavailable("the lane of the chat is full or has ended")),
            }
        }
        Ok(outcomes)
    }
}

/// Commits what waits in a lane, round by round, until it is empty.
async fn serve(store: DynamoStore, chat_id: ChatId) {
    let mut served = Served { lanes: store.lanes().clone(), chat_id, ended: false };
    loop {
        let turn = store.commits().acquire().await.expect("nobody closes the semaphore");
        let Some(round) = served.next_round() else { return };
        let (sends, answers): (Vec<_>, Vec<_>) =
            round.into_iter().map(|waiting| (waiting.send, waiting.answer)).unzip();
        let mut outcomes = vec![None; sends.len()];
        let committing = timeout(CALL_DEADLINE, store.commit(chat_id, &sends, &mut outcomes));
        let late = || StoreError::unavailable(format!("no commit within {CALL_DEADLINE:?}"));
        let committed = committing.await.unwrap_or_else(|_| Err(late()));
        let failed: Option<Answer> = match committed {
            Ok(()) => None,
            Err(failure @ StoreError::Corrupt { .. }) => {
                error!(%chat_id, error = &failure as &dyn std::error::Error, "a chat cannot take messages");
                Some(Ok(Appended::Refused(SendRefusal::Unreadable)))
            }
            Err(failure) => Some(Err(Arc::new(failure))),
        };
        // Those behind fail with it: committed now, they would overtake the sends that are tried again. They are taken
        // before anybody is told, so that whoever tries again at once is not among them.
        let behind = if matches!(failed, Some(Err(_))) { served.empty() } else { VecDeque::new() };
        if failed.is_some() {
            store.counters().remove(&chat_id);
        }
        for (answer, outcome) in answers.into_iter().zip(outcomes) {
            let outcome = outcome.map(Ok).or_else(|| failed.clone());
            tell(answer, outcome.expect("a commit that does not fail decides every send"));
        }
        for waiting in behind {
            tell(waiting.answer, failed.clone().expect("only a failure has taken them"));
        }
        // Given back after each round, so that a busy chat takes its turns with the others.
        drop(turn);
    }
}

/// Answers a send. Whoever does not wait any more finds the outcome by trying again.
fn tell(answer: oneshot::Sender<Answer>, outcome: Answer) {
    answer.send(outcome).ok();
}

/// A lane while somebody serves it. Where that ends in a panic, the lane ends too, and the next send opens another.
struct Served {
    lanes: Lanes,
    chat_id: ChatId,
    ended: bool,
}

impl Served {
    /// The sends to commit next; `None` ends the lane.
    fn next_round(&mut self) -> Option<Vec<Waiting>> {
        let mut lanes = self.lanes.lock();
        let lane = lanes.get_mut(&self.chat_id)?;
        let round: Vec<_> = lane.drain(..lane.len().min(ROUND_LEN_MAX)).collect();
        if round.is_empty() {
            lanes.remove(&self.chat_id);
            self.ended = true;
            return None;
        }
        Some(round)
    }

    /// Takes everything that waits.
    fn empty(&self) -> VecDeque<Waiting> {
        self.lanes.lock().get_mut(&self.chat_id).map(std::mem::take).unwrap_or_default()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if !self.ended {
            self.lanes.lock().remove(&self.chat_id);
        }
    }
}

impl Lanes {
    fn lock(&self) -> MutexGuard<'_, HashMap<ChatId, VecDeque<Waiting>>> {
        self.0.lock().expect("nothing panics with the lanes in hand")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use domain::{Sequence, Timestamp, UserId};
    use engines::{Fault, When};
    use futures_util::future::join_all;
    use ports::{ChatWriter, Clock, Health, Ids, MessageReader, NewGroup, PageBounds, RandomIds, Receipt, SystemClock};

    use super::*;
    use crate::item::{Key, item, number, text};
    use crate::schema::Table;
    use crate::testing::{Server, chat, message};

    async fn sequences(store: &DynamoStore, chat_id: ChatId) -> Vec<u64> {
        let bounds = PageBounds { count: 1000, bytes: usize::MAX };
        let page = store.after(chat_id, Sequence::ZERO, bounds, SystemClock.now()).await.unwrap();
        page.messages.iter().map(|message| message.sequence.0).collect()
    }

    fn new(outcome: &Appended) -> Receipt {
        let Appended::New(receipt) = outcome else { panic!("{outcome:?}") };
        *receipt
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn processes_that_write_to_one_chat_give_each_send_its_own_sequence() {
        const SENDS: u64 = 15;
        let server = Server::with_tables().await;
        let (chat_id, sender_id) = chat(&server.store()).await;
        let process = |store: DynamoStore| async move {
            let mut given = vec![];
            for _ in 0..SENDS {
                let send = message(chat_id, sender_id);
                // Whoever loses the race too often is told so, and tries the same send again.
                let outcome = loop {
                    match store.append(vec![send.clone()]).await {
                        Ok(outcomes) => break outcomes[0],
                        Err(StoreError::Unavailable(_)) => {}
                        Err(error) => panic!("{error:?}"),
                    }
                };
                given.push(new(&outcome).sequence.0);
            }
            given
        };
        let given = join_all((0..3).map(|_| tokio::spawn(process(server.store())))).await;
        let given: Vec<u64> = given.into_iter().flat_map(Result::unwrap).collect();
        let everything: Vec<u64> = (1..=3 * SENDS).collect();
        assert_eq!(given.into_iter().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>(), everything);
        assert_eq!(sequences(&server.store(), chat_id).await, everything);
    }

    #[tokio::test]
    async fn a_send_whose_answer_was_lost_is_new_and_counts_once() {
        let server = Server::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        store.append(vec![message(chat_id, sender_id)]).await.unwrap();
        server.proxy.fail(Fault::Cut, When::After, 1);
        let outcomes = store.append(vec![message(chat_id, sender_id)]).await.unwrap();
        assert_eq!(server.proxy.faults_left(), 0);
        assert_eq!(new(&outcomes[0]).sequence, Sequence(2));
        assert_eq!(sequences(&store, chat_id).await, [1, 2]);
    }

    #[tokio::test]
    async fn a_service_that_does_not_answer_is_failing_until_it_does() {
        let server = Server::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        assert_eq!(store.health(), Health::Ok);
        server.proxy.fail(Fault::Cut, When::Before, usize::MAX);
        store.append(vec![message(chat_id, sender_id)]).await.unwrap_err();
        assert!(matches!(store.health(), Health::Failing { .. }));
        server.proxy.heal();
        store.append(vec![message(chat_id, sender_id)]).await.unwrap();
        assert_eq!(store.health(), Health::Ok);
    }

    #[tokio::test]
    async fn a_send_that_was_given_up_is_found_by_its_retry() {
        let server = Server::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        let send = message(chat_id, sender_id);
        server.proxy.fail(Fault::Cut, When::After, usize::MAX);
        assert!(matches!(store.append(vec![send.clone()]).await, Err(StoreError::Unavailable(_))));
        server.proxy.heal();
        // The counter was asked for first, so that nothing had been written; with the counter known, the commit is
        // next.
        let first = new(&store.append(vec![send.clone()]).await.unwrap()[0]);
        let second = message(chat_id, sender_id);
        server.proxy.fail(Fault::Cut, When::After, usize::MAX);
        assert!(matches!(store.append(vec![second.clone()]).await, Err(StoreError::Unavailable(_))));
        server.proxy.heal();
        let receipt = Receipt { message_id: second.message_id, sequence: Sequence(2), created_at: second.created_at };
        let retry = NewMessage { message_id: RandomIds.ulid().into(), ..second };
        assert_eq!(store.append(vec![retry, send]).await.unwrap(), [receipt, first].map(Appended::Duplicate));
        assert_eq!(sequences(&store, chat_id).await, [1, 2]);
    }

    #[tokio::test]
    async fn a_damaged_chat_refuses_sends_and_no_other_chat_does() {
        let server = Server::with_tables().await;
        let store = server.store();
        let (behind, sender_id) = chat(&store).await;
        store.append(vec![message(behind, sender_id), message(behind, sender_id)]).await.unwrap();
        let counter = item([("sequence_counter", Some(number(1))), ("created_at", Some(text(Timestamp::default())))]);
        server.put(Key::one(Table::ChatCounters, behind), counter).await;
        let (unreadable, other) = chat(&store).await;
        let counter = item([("sequence_counter", Some(text("one")))]);
        server.put(Key::one(Table::ChatCounters, unreadable), counter).await;
        let (well, third) = chat(&store).await;

        let batch = vec![message(behind, sender_id), message(unreadable, other), message(well, third)];
        let outcomes = store.append(batch).await.unwrap();
        assert_eq!(outcomes[..2], [Appended::Refused(SendRefusal::Unreadable); 2]);
        assert_eq!(new(&outcomes[2]).sequence, Sequence(1));
    }

    #[tokio::test]
    async fn what_was_committed_before_a_failure_is_new() {
        let server = Server::with_tables().await;
        let store = server.store();
        let members: Vec<UserId> = (0..40).map(|_| RandomIds.ulid().into()).collect();
        let (chat_id, name) = (RandomIds.ulid().into(), "group".to_owned().try_into().unwrap());
        let (created_by, others) = (members[0], members[1..].to_vec());
        let group = NewGroup { chat_id, name, created_by, members: others, created_at: SystemClock.now() };
        store.create_group(group).await.unwrap();
        let sends: Vec<_> = members.iter().map(|user_id| message(chat_id, *user_id)).collect();
        // The last send was committed before, and what was kept of it is damaged. With so many senders it is not in the
        // first transaction.
        let key = format!("{}#{}", sends[39].sender_id, sends[39].client_message_id);
        server.put(Key::of(Table::IdempotencyKeys, chat_id, key), item([])).await;

        let outcomes = store.append(sends).await.unwrap();
        let committed: Vec<u64> = outcomes[..33].iter().map(|outcome| new(outcome).sequence.0).collect();
        assert_eq!(committed, (1..=33).collect::<Vec<_>>());
        assert_eq!(outcomes[33..], [Appended::Refused(SendRefusal::Unreadable); 7]);
        assert_eq!(sequences(&store, chat_id).await, committed);
    }

    #[tokio::test]
    async fn a_commit_leaves_its_mark_for_the_relay() {
        let server = Server::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        let key = Key::one(Table::ChatCounters, chat_id);
        assert!(!store.db().get(&key).await.unwrap().unwrap().contains_key("dirty_shard"));
        let first = message(chat_id, sender_id);
        store.append(vec![first.clone()]).await.unwrap();
        store.append(vec![NewMessage { created_at: Timestamp::MAX, ..message(chat_id, sender_id) }]).await.unwrap();
        let counter = store.db().get(&key).await.unwrap().unwrap();
        assert_eq!(counter["dirty_since"], text(first.created_at));
        assert_eq!((&counter["sequence_counter"], &counter["published_sequence"]), (&number(2), &number(0)));
        assert!(counter.contains_key("dirty_shard"));
    }
}
