//! Checks which records an audit reads from the log.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{ChatId, Sequence};
use ports::{AuditLog, AuditedRecord, AuditedRow, ConsumerOffset, LoggedChange, PageBookmark};
use tidings_kafka::KafkaAudit;

use crate::fixtures::{World, chat, member_added, messages, read, renamed};

fn open(world: &World) -> KafkaAudit {
    KafkaAudit::open(world.config.clone(), world.clock.clone(), vec!["group".to_owned(), "unused".to_owned()]).unwrap()
}

/// All rows after a bookmark, in pages of two.
async fn all(audit: &KafkaAudit, mut after: Option<PageBookmark>) -> Vec<AuditedRow<AuditedRecord>> {
    let mut rows = vec![];
    loop {
        let page = audit.records(after.as_ref(), 2).await.unwrap();
        assert!(page.rows.len() <= 2);
        rows.extend(page.rows);
        match page.next {
            Some(next) => after = Some(next),
            None => return rows,
        }
    }
}

/// The sequences of each chat, in log order.
fn sequences(rows: &[AuditedRow<AuditedRecord>]) -> BTreeMap<ChatId, Vec<u64>> {
    let mut chats: BTreeMap<ChatId, Vec<u64>> = BTreeMap::new();
    for row in rows.iter().filter_map(|audited| audited.row.as_ref().ok()) {
        if let LoggedChange::Message { sequence: Sequence(sequence), .. } = row.what {
            chats.entry(row.chat_id).or_default().push(sequence);
        }
    }
    chats
}

#[tokio::test]
async fn an_audit_is_shown_every_record_once_and_in_order() {
    let world = World::start().await;
    let audit = open(&world);
    assert_eq!(all(&audit, None).await, []);
    let chats: Vec<ChatId> = (0..5).map(|_| chat()).collect();
    for chat_id in &chats {
        world.publish(&messages(*chat_id, 1..=3)).await;
        world.publish(&[Arc::new(member_added(*chat_id)), Arc::new(renamed(*chat_id))]).await;
    }
    let rows = all(&audit, None).await;
    assert_eq!(rows.len(), 25);
    assert_eq!(sequences(&rows), chats.iter().map(|chat_id| (*chat_id, vec![1, 2, 3])).collect());
    assert!(rows.iter().all(|row| row.bytes > 100), "{rows:?}");
}

#[tokio::test]
async fn an_audit_includes_rows_written_while_it_reads() {
    let world = World::start().await;
    let (audit, chat_id) = (open(&world), chat());
    world.publish(&messages(chat_id, 1..=3)).await;
    let first = audit.records(None, 2).await.unwrap();
    world.publish(&messages(chat_id, 4..=5)).await;
    let rows = [first.rows, all(&audit, first.next).await].concat();
    assert_eq!(sequences(&rows), BTreeMap::from([(chat_id, vec![1, 2, 3, 4, 5])]));
}

#[tokio::test]
async fn an_audit_is_shown_where_groups_are() {
    let world = World::start().await;
    let (audit, chat_id) = (open(&world), chat());
    world.publish(&messages(chat_id, 1..=3)).await;
    let mut consumer = world.consumer("group").await;
    read(&mut *consumer, 3).await;
    consumer.commit().await.unwrap();
    world.publish(&messages(chat_id, 4..=5)).await;
    let offsets = audit.consumers().await.unwrap();
    let of_messages: Vec<&ConsumerOffset> = offsets.iter().filter(|offset| offset.end > 0).collect();
    assert_eq!(of_messages.len(), 1, "{offsets:?}");
    assert_eq!((of_messages[0].group.as_str(), of_messages[0].next, of_messages[0].end), ("group", 3, 5));
}
