use std::sync::Arc;

use domain::Timestamp;
use metrics::counter;
use ports::{DeadLetter, DeadLetterStore, StoreError, UndeliveredItem};
use tracing::error;
use ulid::Ulid;

use crate::publisher::Publisher;
use crate::record::{DamagedRecord, OutgoingRecord};

/// How a consumer handles a record that it cannot read.
pub(crate) enum Burial {
    /// Skips it, for processes without write access.
    None,
    /// Copies it to the dead-letter topic and adds it to the dead-letter store.
    Both(Box<Graveyard>),
}

pub(crate) struct Graveyard {
    pub(crate) dead_letters: Arc<dyn DeadLetterStore>,
    pub(crate) publisher: Publisher,
    /// The dead-letter topic.
    pub(crate) topic: String,
}

impl Burial {
    /// Logs and counts a skipped record, and buries it if configured. Burying the same record again yields the same
    /// dead letter.
    pub(crate) async fn add_dead_letter(
        &self,
        topic: &str,
        damaged: &DamagedRecord,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let position = damaged.location.position();
        let reason = damaged.reason.to_string();
        if let Self::Both(graveyard) = self {
            let copy = copy(graveyard.topic.clone(), topic, damaged, &reason);
            graveyard.publisher.publish(&[copy]).await.map_err(StoreError::unavailable)?;
            let id = Ulid::from_parts(0, position.0.into());
            let what = UndeliveredItem::Unreadable { position };
            let letter = DeadLetter { id, what, attempts: 1, reason: reason.clone(), dead_at: now };
            graveyard.dead_letters.add_dead_letter(letter).await?;
        }
        counter!("tidings_kafka_unreadable_total").increment(1);
        error!(position = position.0, reason, "skipping an unreadable record of the event log");
        Ok(())
    }
}

/// Copies the record as it was read, with its origin in the headers.
fn copy(dead_letters: String, topic: &str, damaged: &DamagedRecord, reason: &str) -> OutgoingRecord {
    let headers = vec![
        ("topic", topic.to_owned()),
        ("partition", damaged.location.partition.number.to_string()),
        ("offset", damaged.location.offset.to_string()),
        ("reason", reason.to_owned()),
    ];
    OutgoingRecord { topic: dead_letters, key: damaged.key.clone(), value: damaged.value.clone(), time: None, headers }
}
