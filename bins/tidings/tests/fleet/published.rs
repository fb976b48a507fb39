use std::collections::BTreeMap;
use std::sync::Arc;

use domain::EventBody;
use ports::{EventLog, ProcessRole, SystemClock};
use tidings_kafka::KafkaLog;
use tokio::time::timeout;

use crate::server::{PATIENCE, TestServer};

#[tokio::test]
async fn published_eventually_without_a_client_and_without_the_acknowledging_process() {
    const CHATS: usize = 4;
    const MESSAGES: u64 = 25;
    let mut server = TestServer::start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    // While the log is unavailable, ingest cannot publish the events that it commits.
    server.fleet.base.engines.kafka.stop().await;
    let mut socket = ann.connect().await;
    let mut chats = BTreeMap::new();
    for n in 0..CHATS {
        let chat_id = ann.group(&n.to_string(), &[&bob]).await;
        let texts: Vec<_> = (1..=MESSAGES).map(|n| n.to_string()).collect();
        socket.send_messages(&chat_id, &texts).await;
        for place in 1..=MESSAGES {
            assert_eq!(socket.answer(&place.to_string()).await["type"], "send_message_ack");
        }
        chats.insert(chat_id, (0, 0));
    }
    server.kill().await;
    drop(socket);

    server.fleet.base.engines.kafka.start_again().await;
    server.fleet.process_mut(ProcessRole::Ingest, 1).restart().await;
    let log = KafkaLog::reading(server.fleet.base.engines.kafka_config(), Arc::new(SystemClock)).unwrap();
    let mut consumer = log.consumer("audit").await.unwrap();
    let is_whole = |(created, last): &(u64, u64)| *created > 0 && *last == MESSAGES;
    while !chats.values().all(is_whole) {
        let records = timeout(PATIENCE, consumer.next()).await.expect("everything is published").unwrap();
        for record in records {
            match &record.event.body {
                EventBody::MessagePersisted { message, .. } => {
                    let (_, last) =
                        chats.get_mut(&message.chat_id.to_string()).expect("only these chats have messages");
                    // An event may be repeated, but never precedes an earlier one.
                    assert!(message.sequence.0 <= *last + 1, "{} after {last}", message.sequence);
                    *last = message.sequence.0.max(*last);
                }
                EventBody::ChatCreated { chat_id, .. } => chats.get_mut(&chat_id.to_string()).unwrap().0 += 1,
                other => panic!("unexpected event {other:?}"),
            }
        }
    }
}
