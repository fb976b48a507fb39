//! Under every documented fault of the service, a commit takes effect once, and returns within the deadline.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::types::{KeysAndAttributes, PutRequest, WriteRequest};
use domain::{ChatId, Sequence, Timestamp, UserId};
use engines::{Fault, LastingFault, When};
use ports::Ids;
use ports::{
    AppendOutcome, Clock, MessageReader, MessageWriter, NewMessage, Notice, NoticeStore, Outbox, PageBounds, RandomIds,
    Receipt, StoreError, SystemClock,
};
use tokio::time::Instant;
use uuid::Uuid;

use crate::DynamoStore;
use crate::config::CALL_DEADLINE;
use crate::db::PartitionQuery;
use crate::messages::message_key;
use crate::schema::Table;
use crate::testing::{DynamoServer, chat, message};

const TRANSACTION: &str = "TransactWriteItems";
/// Tolerance for slow machines on top of a deadline.
const SLACK: Duration = Duration::from_secs(5);
/// All faults except silence, which is slow to test.
const ERRORS: [Fault; 7] = [
    Fault::Cut,
    Fault::Throttled,
    Fault::CapacityExceeded,
    Fault::Conflict,
    Fault::InProgress,
    Fault::ServerError,
    Fault::Unavailable,
];

/// A chat with one message, and a store with its counter in the cache.
async fn subject(server: &DynamoServer) -> (DynamoStore, ChatId, UserId) {
    let store = server.store();
    let (chat_id, sender_id) = chat(&store).await;
    store.append(vec![message(chat_id, sender_id)]).await.unwrap();
    (store, chat_id, sender_id)
}

/// Sends once, and checks the deadline.
async fn send(store: &DynamoStore, send: &NewMessage) -> Result<AppendOutcome, StoreError> {
    let started = Instant::now();
    let outcome = store.append(vec![send.clone()]).await.map(|outcomes| outcomes[0]);
    assert!(started.elapsed() < CALL_DEADLINE + SLACK, "{:?}", started.elapsed());
    outcome
}

async fn sequences(store: &DynamoStore, chat_id: ChatId) -> Vec<u64> {
    let bounds = PageBounds { count: 1000, bytes: usize::MAX };
    let page = store.after(chat_id, Sequence::ZERO, bounds, SystemClock.now()).await.unwrap();
    page.messages.iter().map(|message| message.sequence.0).collect()
}

/// The receipt of the second message of the chat.
fn second(send: &NewMessage) -> Receipt {
    Receipt { message_id: send.message_id, sequence: Sequence(2), created_at: send.created_at }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_fails_once_is_there_once() {
    let server = DynamoServer::with_tables().await;
    for fault in ERRORS {
        for when in [When::Before, When::After] {
            let (store, chat_id, sender_id) = subject(&server).await;
            let first = message(chat_id, sender_id);
            server.proxy.fail_operation(TRANSACTION, fault, when, 1);
            let outcome = send(&store, &first).await;
            assert_eq!(server.proxy.faults_left(), 0, "{fault:?} {when:?}");
            // A cancelled transaction is retried with a new token. If the service had committed it nevertheless,
            // against its documentation, the idempotency key reveals it.
            let expected = match (fault, when) {
                (Fault::Conflict, When::After) => AppendOutcome::Duplicate(second(&first)),
                _ => AppendOutcome::New(second(&first)),
            };
            assert_eq!(outcome.unwrap(), expected, "{fault:?} {when:?}");
            let retry = NewMessage { message_id: RandomIds.ulid().into(), ..first.clone() };
            assert_eq!(
                send(&store, &retry).await.unwrap(),
                AppendOutcome::Duplicate(second(&first)),
                "{fault:?} {when:?}"
            );
            assert_eq!(sequences(&store, chat_id).await, [1, 2], "{fault:?} {when:?}");
        }
    }
}

/// Sends during an outage of the service, and again after its recovery.
async fn check_outage(fault: Fault, when: When) {
    let server = DynamoServer::with_tables().await;
    let (store, chat_id, sender_id) = subject(&server).await;
    let first = message(chat_id, sender_id);
    server.proxy.fail(fault, when, usize::MAX);
    let failed = send(&store, &first).await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    server.proxy.heal();
    let retry = NewMessage { message_id: RandomIds.ulid().into(), ..first.clone() };
    let expected = match when {
        When::Before => AppendOutcome::New(second(&retry)),
        When::After => AppendOutcome::Duplicate(second(&first)),
    };
    assert_eq!(send(&store, &retry).await.unwrap(), expected);
    assert_eq!(sequences(&store, chat_id).await, [1, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_while_the_service_is_down_fails_in_time_and_is_there_once_after() {
    for fault in ERRORS.into_iter().filter(|fault| *fault != Fault::Conflict) {
        check_outage(fault, When::Before).await;
        check_outage(fault, When::After).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_others_are_always_in_the_way_of_fails_in_time() {
    check_outage(Fault::Conflict, When::Before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_without_an_answer_fails_in_time_and_is_there_once_after() {
    tokio::join!(check_outage(Fault::Silence, When::Before), check_outage(Fault::Silence, When::After));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_and_marks_under_faults_are_right() {
    let server = DynamoServer::with_tables().await;
    let (store, chat_id, _) = subject(&server).await;
    for fault in ERRORS.into_iter().filter(|fault| !matches!(fault, Fault::Conflict | Fault::InProgress)) {
        server.proxy.fail(fault, When::Before, 1);
        assert_eq!(store.head(chat_id).await.unwrap().unwrap().sequence, Sequence(1), "{fault:?}");
        server.proxy.fail(fault, When::After, 1);
        assert_eq!(store.unpublished(chat_id).await.unwrap().len(), 1, "{fault:?}");
    }
    for (fault, when) in [(Fault::Conflict, When::Before), (Fault::Cut, When::After)] {
        let (store, chat_id, _) = subject(&server).await;
        server.proxy.fail_operation("UpdateItem", fault, when, 1);
        store.published(chat_id, Sequence(1)).await.unwrap();
        assert_eq!((store.unpublished(chat_id).await.unwrap(), server.proxy.faults_left()), (vec![], 0), "{fault:?}");
    }
}

// The negative controls of the lasting faults: without the code that copes with it, each of them changes an answer.

#[tokio::test]
async fn a_lagging_index_misses_a_message_that_is_found_by_its_id() {
    let server = DynamoServer::with_lagging_indexes().await;
    let store = server.store();
    let (chat_id, sender_id) = chat(&store).await;
    let sent = message(chat_id, sender_id);
    store.append(vec![sent.clone()]).await.unwrap();
    let index = PartitionQuery {
        index: Table::Messages.definition().index,
        ..PartitionQuery::partition(Table::Messages, sent.message_id)
    };
    assert_eq!(store.db().query(&index, 1).await.unwrap().len(), 0);
    assert!(store.by_id(sent.message_id, SystemClock.now()).await.unwrap().is_some());
    server.proxy.catch_up().await;
    assert_eq!(store.db().query(&index, 1).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_notice_in_a_lagging_index_is_taken_once() {
    let server = DynamoServer::with_lagging_indexes().await;
    let store = server.store();
    let at = Timestamp::from_millis;
    let notice = Notice {
        user_id: RandomIds.ulid().into(),
        chat_id: RandomIds.ulid().into(),
        device_id: Uuid::new_v4().into(),
        from: Sequence(1),
        due_at: at(100),
        attempts: 0,
    };
    store.add_notices(vec![notice.clone()]).await.unwrap();
    server.proxy.catch_up().await;
    assert_eq!(store.take_due(at(100), at(500), 9).await.unwrap(), [notice]);
    // The index still has the earlier time.
    assert_eq!(store.take_due(at(100), at(500), 9).await.unwrap(), []);
}

#[tokio::test]
async fn a_hot_partition_is_an_error_without_retries() {
    let server = DynamoServer::with_fault(LastingFault::HotPartitions).await;
    let retries = RetryConfig::disabled();
    let hasty = Client::from_conf(server.client.config().to_builder().retry_config(retries).build());
    let (chat_id, _) = chat(&server.store()).await;
    let failed = server.store().through(hasty, &server.config).head(chat_id).await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    assert_eq!(server.store().head(chat_id).await.unwrap().unwrap().sequence, Sequence::ZERO);
}

#[tokio::test]
async fn a_partial_batch_leaves_keys_and_items_unprocessed() {
    let server = DynamoServer::with_fault(LastingFault::PartialBatches).await;
    let keys = [1, 2].map(|sequence| message_key(ChatId::from_bytes([1; 16]), Sequence(sequence)).attributes());
    let name = server.name(Table::Messages);
    let puts = keys.clone().map(|key| {
        let put = PutRequest::builder().set_item(Some(key)).build().unwrap();
        WriteRequest::builder().put_request(put).build()
    });
    let written = server.client.batch_write_item().request_items(&name, puts.into()).send().await.unwrap();
    assert_eq!(written.unprocessed_items.unwrap()[&name].len(), 1);
    let keys = KeysAndAttributes::builder().set_keys(Some(keys.into())).build().unwrap();
    let read = server.client.batch_get_item().request_items(&name, keys).send().await.unwrap();
    assert_eq!(read.unprocessed_keys.unwrap()[&name].keys.len(), 1);
    assert_eq!(read.responses.unwrap()[&name].len(), 1);
}

#[tokio::test]
async fn a_conflict_cancels_a_transaction() {
    let server = DynamoServer::with_fault(LastingFault::Conflicts).await;
    let store = server.store();
    let (chat_id, sender_id) = chat(&store).await;
    let (transactions, hits) = (server.proxy.requests(TRANSACTION), server.proxy.lasting_hits());
    store.append(vec![message(chat_id, sender_id)]).await.unwrap();
    assert_eq!(server.proxy.requests(TRANSACTION), transactions + 2, "it was cancelled once");
    assert_eq!(server.proxy.lasting_hits(), hits + 1);
}
