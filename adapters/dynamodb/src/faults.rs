//! Under every documented fault of the service, a commit takes effect once, and returns within the deadline.

use std::time::Duration;

use domain::{ChatId, Sequence, UserId};
use engines::{Fault, When};
use ports::Ids;
use ports::{
    AppendOutcome, Clock, MessageReader, MessageWriter, NewMessage, Outbox, PageBounds, RandomIds, Receipt, StoreError,
    SystemClock,
};
use tokio::time::Instant;

use crate::DynamoStore;
use crate::config::CALL_DEADLINE;
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
async fn what_is_read_and_marked_under_faults_is_right() {
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
