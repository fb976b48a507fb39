use std::collections::HashMap;
use std::panic;

use async_trait::async_trait;
use domain::ChatId;
use ports::{AppendOutcome, MessageWriter, NewEntry, SendRefusal, StoreError, error_chain};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::error;

use crate::DynamoStore;
use crate::config::CALL_DEADLINE;

/// Each chat of a batch commits on its own, as a task, and all of them at once. A caller that stops waiting ends the
/// tasks: a transaction that was sent may still succeed, but none follows.
#[async_trait]
impl MessageWriter for DynamoStore {
    async fn commit(&self, batch: Vec<NewEntry>) -> Result<Vec<AppendOutcome>, StoreError> {
        let mut outcomes = vec![None; batch.len()];
        let mut chats: HashMap<ChatId, (Vec<usize>, Vec<NewEntry>)> = HashMap::new();
        for (index, entry) in batch.into_iter().enumerate() {
            let (indexes, entries) = chats.entry(entry.chat_id()).or_default();
            indexes.push(index);
            entries.push(entry);
        }
        let mut commits = JoinSet::new();
        for (chat_id, (indexes, entries)) in chats {
            let store = self.clone();
            commits.spawn(async move { (indexes, store.append_to(chat_id, &entries).await) });
        }
        while let Some(ended) = commits.join_next().await {
            let (indexes, decided) = ended.unwrap_or_else(|error| panic::resume_unwind(error.into_panic()));
            for (index, outcome) in indexes.into_iter().zip(decided?) {
                outcomes[index] = Some(outcome);
            }
        }
        Ok(outcomes.into_iter().map(|outcome| outcome.expect("every entry belongs to one chat")).collect())
    }
}

impl DynamoStore {
    /// Commits entries of one chat.
    async fn append_to(&self, chat_id: ChatId, entries: &[NewEntry]) -> Result<Vec<AppendOutcome>, StoreError> {
        let mut outcomes = vec![None; entries.len()];
        let committing = timeout(CALL_DEADLINE, self.commit_entries(chat_id, entries, &mut outcomes));
        let late = || StoreError::unavailable(format!("no commit within {CALL_DEADLINE:?}"));
        if let Err(failure) = committing.await.unwrap_or_else(|_| Err(late())) {
            self.counters().remove(&chat_id);
            let StoreError::Corrupt { .. } = &failure else { return Err(failure) };
            let error = error_chain(&failure);
            error!(%chat_id, %error, "refusing messages for a chat with an unreadable record");
        }
        let unreadable = AppendOutcome::Refused(SendRefusal::Unreadable);
        Ok(outcomes.into_iter().map(|outcome| outcome.unwrap_or(unreadable)).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use domain::{ChatCommand, ChatUpdate, Sequence, Timestamp, UserId, WatermarkKind};
    use engines::{Fault, When};
    use futures_util::future::join_all;
    use ports::{
        ChatReader, ChatWriter, Clock, EngineHealth, Ids, MessageReader, NewGroup, NewMessage, Outbox, PageBounds,
        RandomIds, Receipt, SystemClock, WatermarkStore,
    };

    use super::*;
    use crate::item::{ItemKey, item, number, text};
    use crate::messages::{CHANGES, message_item, message_key};
    use crate::schema::Table;
    use crate::testing::{DynamoServer, chat, message};
    use crate::write::{AttributeChange, Write};

    async fn sequences(store: &DynamoStore, chat_id: ChatId) -> Vec<u64> {
        let bounds = PageBounds { count: 1000, bytes: usize::MAX };
        let page = store.after(chat_id, Sequence::ZERO, bounds, SystemClock.now()).await.unwrap();
        page.messages.iter().map(|message| message.sequence.0).collect()
    }

    fn new(outcome: &AppendOutcome) -> Receipt {
        let AppendOutcome::New(receipt) = outcome else { panic!("{outcome:?}") };
        *receipt
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn processes_that_write_to_one_chat_give_each_send_its_own_sequence() {
        const SENDS: u64 = 15;
        let server = DynamoServer::with_tables().await;
        let (chat_id, sender_id) = chat(&server.store()).await;
        let process = |store: DynamoStore| async move {
            let mut given = vec![];
            for _ in 0..SENDS {
                let send = message(chat_id, sender_id);
                // After losing the race too often, `append` returns an error, and the test retries the same send.
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
        let server = DynamoServer::with_tables().await;
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
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        assert_eq!(store.health(), EngineHealth::Ok);
        server.proxy.fail(Fault::Cut, When::Before, usize::MAX);
        store.append(vec![message(chat_id, sender_id)]).await.unwrap_err();
        assert!(matches!(store.health(), EngineHealth::Failing { .. }));
        server.proxy.heal();
        store.append(vec![message(chat_id, sender_id)]).await.unwrap();
        assert_eq!(store.health(), EngineHealth::Ok);
    }

    #[tokio::test]
    async fn a_send_that_was_given_up_is_found_by_its_retry() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        let send = message(chat_id, sender_id);
        server.proxy.fail(Fault::Cut, When::After, usize::MAX);
        assert!(matches!(store.append(vec![send.clone()]).await, Err(StoreError::Unavailable(_))));
        server.proxy.heal();
        // The counter was read first, so nothing was written. With the counter cached, the commit is next.
        let first = new(&store.append(vec![send.clone()]).await.unwrap()[0]);
        let second = message(chat_id, sender_id);
        server.proxy.fail(Fault::Cut, When::After, usize::MAX);
        assert!(matches!(store.append(vec![second.clone()]).await, Err(StoreError::Unavailable(_))));
        server.proxy.heal();
        let receipt = Receipt { message_id: second.message_id, sequence: Sequence(2), created_at: second.created_at };
        let retry = NewMessage { message_id: RandomIds.ulid().into(), ..second };
        assert_eq!(store.append(vec![retry, send]).await.unwrap(), [receipt, first].map(AppendOutcome::Duplicate));
        assert_eq!(sequences(&store, chat_id).await, [1, 2]);
    }

    #[tokio::test]
    async fn a_damaged_chat_refuses_sends_and_no_other_chat_does() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (behind, sender_id) = chat(&store).await;
        store.append(vec![message(behind, sender_id), message(behind, sender_id)]).await.unwrap();
        let counter = item([("sequence_counter", Some(number(1))), ("created_at", Some(text(Timestamp::default())))]);
        server.put(ItemKey::one(Table::ChatCounters, behind), counter).await;
        let (unreadable, other) = chat(&store).await;
        let counter = item([("sequence_counter", Some(text("one")))]);
        server.put(ItemKey::one(Table::ChatCounters, unreadable), counter).await;
        let (well, third) = chat(&store).await;

        let batch = vec![message(behind, sender_id), message(unreadable, other), message(well, third)];
        let outcomes = store.append(batch).await.unwrap();
        assert_eq!(outcomes[..2], [AppendOutcome::Refused(SendRefusal::Unreadable); 2]);
        assert_eq!(new(&outcomes[2]).sequence, Sequence(1));
    }

    #[tokio::test]
    async fn sends_committed_before_a_failure_count_as_new() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let members: Vec<UserId> = (0..40).map(|_| RandomIds.ulid().into()).collect();
        let (chat_id, name) = (RandomIds.ulid().into(), "group".to_owned().try_into().unwrap());
        let (created_by, others) = (members[0], members[1..].to_vec());
        let group = NewGroup { chat_id, name, created_by, members: others, created_at: SystemClock.now() };
        store.create_group(group).await.unwrap();
        let sends: Vec<_> = members.iter().map(|user_id| message(chat_id, *user_id)).collect();
        // The last send was committed before, and its idempotency key is damaged. With so many senders it is not in the
        // first transaction.
        let key = format!("{}#{}", sends[39].sender_id, sends[39].client_message_id);
        server.put(ItemKey::of(Table::IdempotencyKeys, chat_id, key), item([])).await;

        let outcomes = store.append(sends).await.unwrap();
        let committed: Vec<u64> = outcomes[..24].iter().map(|outcome| new(outcome).sequence.0).collect();
        assert_eq!(committed, (1..=24).collect::<Vec<_>>());
        assert_eq!(outcomes[24..], [AppendOutcome::Refused(SendRefusal::Unreadable); 16]);
        assert_eq!(sequences(&store, chat_id).await, committed);
    }

    #[tokio::test]
    async fn counters_and_delivery_state_have_the_time_of_their_last_change() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, owner) = chat(&store).await;
        let counter = ItemKey::one(Table::ChatCounters, chat_id);
        let state = ItemKey::of(Table::DeliveryState, owner, chat_id);
        let updated_at = async |key: &ItemKey| store.db().get(key).await.unwrap().unwrap()["updated_at"].clone();
        let created_at = store.chat(chat_id).await.unwrap().unwrap().created_at;
        assert_eq!((updated_at(&counter).await, updated_at(&state).await), (text(created_at), text(created_at)));
        let later = Timestamp::from_millis(created_at.as_millis() + 5);
        store.append(vec![NewMessage { created_at: later, ..message(chat_id, owner) }]).await.unwrap();
        assert_eq!(updated_at(&counter).await, text(later));
        store.advance(owner, chat_id, WatermarkKind::Read, Sequence(1), later).await.unwrap();
        assert_eq!(updated_at(&state).await, text(later));
    }

    #[tokio::test]
    async fn a_send_is_numbered_after_a_change_by_another_process() {
        let server = DynamoServer::with_tables().await;
        let (ingest, api) = (server.store(), server.store());
        let (chat_id, owner) = chat(&api).await;
        let mut numbers = vec![];
        for name in ["one", "two"] {
            // `ingest` has cached the counter of before the change.
            ingest.append(vec![message(chat_id, owner)]).await.unwrap();
            let rename = ChatCommand::Update(ChatUpdate::name(name.to_owned().try_into().unwrap()));
            api.apply(chat_id, owner, rename, SystemClock.now()).await.unwrap().unwrap();
            ingest.append(vec![message(chat_id, owner)]).await.unwrap();
        }
        numbers.extend(ingest.unpublished(chat_id).await.unwrap().iter().map(|event| event.event_number.unwrap().0));
        let changes = ingest.pending_changes(chat_id).await.unwrap();
        numbers.extend(changes.iter().map(|pending| pending.event.event_number.unwrap().0));
        assert_eq!(numbers, [2, 4, 5, 7, 1, 3, 6]);
        let handed = ingest.committed().await.into_iter().flat_map(|commit| commit.messages);
        assert_eq!(handed.map(|event| event.event_number.unwrap().0).collect::<Vec<_>>(), [2, 4, 5, 7]);
    }

    #[tokio::test]
    async fn an_event_of_an_earlier_version_has_no_number() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, owner) = chat(&store).await;
        // A process of version 0.2 writes no numbers, and leaves the number of changes as it is.
        let counter = ItemKey::one(Table::ChatCounters, chat_id);
        let uncount = || vec![Write::update(counter.clone(), vec![AttributeChange::Set(CHANGES, None)])];
        store.db().transact(uncount).await.unwrap();
        let row = message_item(&message(chat_id, owner).at(Sequence(1), None), None, None);
        store.db().transact(|| vec![Write::put(message_key(chat_id, Sequence(1)), row.clone())]).await.unwrap();
        let moved =
            || vec![Write::update(counter.clone(), vec![AttributeChange::Set("sequence_counter", Some(number(1)))])];
        store.db().transact(moved).await.unwrap();

        store.append(vec![message(chat_id, owner)]).await.unwrap();
        let rename = ChatCommand::Update(ChatUpdate::name("new".to_owned().try_into().unwrap()));
        store.apply(chat_id, owner, rename, SystemClock.now()).await.unwrap().unwrap();
        store.append(vec![message(chat_id, owner)]).await.unwrap();
        let events = store.unpublished(chat_id).await.unwrap();
        let numbers: Vec<_> = events.iter().map(|event| event.event_number.map(|number| number.0)).collect();
        assert_eq!(numbers, [None, Some(2), Some(4)]);
    }

    #[tokio::test]
    async fn a_commit_leaves_its_mark_for_the_relay() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        let key = ItemKey::one(Table::ChatCounters, chat_id);
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
