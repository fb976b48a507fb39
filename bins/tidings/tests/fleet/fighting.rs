use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use domain::{Body, ChatId, ContentType, IngestError, UserId};
use futures_util::future::join_all;
use ports::{Identity, Ingest, ProcessRole, SendContent, SendRequest, Sent};
use rpc::RemoteIngest;
use uuid::Uuid;

use crate::server::{PATIENCE, TestServer};
use crate::thief::Thief;

/// Sends until the process is known and accepts it.
async fn greet(ingest: &RemoteIngest, request: &SendRequest) -> u64 {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match ingest.send(request.clone()).await {
            Ok(sent) => return sent.receipt.sequence.0,
            Err(refusal) => assert!(Instant::now() < deadline, "{refusal}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Sends all at once, and retries those that lost the race for the chat too often. Returns the number of retries.
async fn send_all(ingest: &RemoteIngest, requests: &[SendRequest]) -> (Vec<Sent>, usize) {
    let deadline = Instant::now() + PATIENCE;
    let (mut sent, mut refused) = (BTreeMap::new(), 0);
    while sent.len() < requests.len() {
        assert!(Instant::now() < deadline, "{refused} were refused");
        let open: Vec<usize> = (0..requests.len()).filter(|n| !sent.contains_key(n)).collect();
        let sends: Vec<_> = open.iter().map(|n| ingest.send(requests[*n].clone())).collect();
        for (n, outcome) in open.into_iter().zip(join_all(sends).await) {
            match outcome {
                Ok(outcome) => drop(sent.insert(n, outcome)),
                Err(IngestError::Unavailable { .. }) => refused += 1,
                Err(refusal) => panic!("{refusal}"),
            }
        }
    }
    (sent.into_values().collect(), refused)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_ingest_processes_that_commit_for_one_chat_make_one_sequence_and_share_its_keys() {
    const SENDS: usize = 200;
    let server = TestServer::start().await;
    let ann = server.sign_up("Ann").await;
    let chat_id = ann.group("Notes", &[]).await;
    let (chat, sender_id): (ChatId, UserId) = (chat_id.parse().unwrap(), ann.user_id.parse().unwrap());
    // Each caller knows only one ingest process, and so treats it as the owner of every chat.
    let knowing = async |ingest| Thief::knowing(&server.fleet, ProcessRole::Gateway, ingest).await;
    let device_id = ann.device_id.to_string().parse().unwrap();
    let identity = knowing(0).await.identity;
    let assertion = identity.identify(&ann.access_token, device_id).await.unwrap().assertion;
    let requests = || -> Vec<SendRequest> {
        let request = |n: usize| SendRequest {
            chat_id: chat,
            sender_id,
            client_message_id: Uuid::new_v4().into(),
            content: SendContent::Message {
                body: Body::new(n.to_string().try_into().unwrap(), ContentType::Text),
                ttl: None,
            },
            origin_connection_id: None,
            assertion: assertion.clone(),
        };
        (0..SENDS).map(request).collect()
    };
    let thieves = [knowing(0).await, knowing(1).await];
    let callers = thieves.each_ref().map(|thief| thief.ingest.clone());
    let greetings = requests();
    for (caller, sequence) in callers.iter().zip(1..) {
        assert_eq!(greet(caller, &greetings[sequence as usize]).await, sequence);
    }
    // A third of the sends goes to both processes at once.
    let [first, second, both] = [requests(), requests(), requests()];
    let (to_first, to_second) = ([first, both.clone()].concat(), [second, both].concat());
    let (at_first, at_second) = tokio::join!(send_all(&callers[0], &to_first), send_all(&callers[1], &to_second));
    let [(at_first, refused_first), (at_second, refused_second)] = [at_first, at_second];
    eprintln!("{refused_first} and {refused_second} sends lost the race too often");
    for (of_first, of_second) in at_first[SENDS..].iter().zip(&at_second[SENDS..]) {
        assert_eq!(of_first.receipt, of_second.receipt, "one send is one message");
        assert!(of_first.deduplicated || of_second.deduplicated, "one of them was first");
    }
    for (sent, refused) in [(&at_first, refused_first), (&at_second, refused_second)] {
        let sequences: Vec<_> = sent[..SENDS].iter().map(|sent| sent.receipt.sequence).collect();
        assert!(refused > 0 || sequences.is_sorted(), "sends keep the order of their caller unless one is refused");
    }
    let mut all: Vec<u64> = at_first.iter().chain(&at_second).map(|sent| sent.receipt.sequence.0).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all, (3..=2 + 3 * SENDS as u64).collect::<Vec<_>>());
    assert_eq!(ann.connect().await.sync_all(&chat_id).await.len(), 2 + 3 * SENDS);
}
