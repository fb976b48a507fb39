use std::sync::Arc;

use contract::SampleData;
use domain::Invariant;
use memory::{ManualClock, MemoryLog, MemoryOutbox, MemoryStore, SequentialIds};
use ports::{Clock, EventProducer, Expiry, MessageExpirer, Outbox};
use tidings_audit::{AtOnce, AuditOptions, audit};

use crate::world::violated;

/// Two publishers: one skips a message, and the other one, which has read it before, publishes it after later ones.
#[tokio::test]
async fn a_late_message_is_out_of_order_unless_it_was_erased() {
    let store = MemoryStore::beside_a_log(Arc::new(SequentialIds::default()));
    let clock = Arc::new(ManualClock::at(domain::Timestamp::from_millis(1_800_000_000_000)));
    let people = SampleData::make(&store, clock.now()).await;
    let (log, outbox) = (MemoryLog::new(clock.clone()), MemoryOutbox::new(store.clone(), clock.clone()));
    let group = people.group;
    let mut events = outbox.unpublished(group).await.unwrap();
    let late = events.remove(1);
    events.push(late);
    log.publish(&events).await.unwrap();
    let options =
        AuditOptions { overdue_after: std::time::Duration::from_secs(600), ..AuditOptions::new(clock.clone()) };
    let is_found = async || {
        let findings = audit(&store, Some(&log), &options, &AtOnce, None).await.unwrap();
        violated(&findings).contains(&Invariant::OrderingPreserved)
    };
    assert!(is_found().await);
    let everything = Expiry { sender: None, lifetime: None };
    store.expire(group, domain::Sequence::ZERO, everything, clock.now()).await.unwrap();
    assert!(!is_found().await);
}
