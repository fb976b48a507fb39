use std::sync::Arc;

use domain::Timestamp;
use metrics::counter;
use ports::{DeadLetter, DeadLetterStore, StoreError, Undelivered};
use tracing::error;
use ulid::Ulid;

use crate::publisher::Publisher;
use crate::record::{Damaged, Outgoing};

/// What is done with a record that cannot be read.
pub(crate) enum Burial {
    /// It is passed over: whoever reads may write nothing.
    None,
    /// It is copied to the topic of dead letters, and named in the store.
    Both(Box<Graveyard>),
}

pub(crate) struct Graveyard {
    pub(crate) dead_letters: Arc<dyn DeadLetterStore>,
    pub(crate) publisher: Publisher,
    /// The topic of dead letters.
    pub(crate) topic: String,
}

impl Burial {
    /// Says that a record is passed over, and buries it if that is to be done. The same record again is the same
    /// letter.
    pub(crate) async fn bury(&self, topic: &str, damaged: &Damaged, now: Timestamp) -> Result<(), StoreError> {
        let position = damaged.place.position();
        let reason = damaged.reason.to_string();
        if let Self::Both(graveyard) = self {
            let copy = copy(graveyard.topic.clone(), topic, damaged, &reason);
            graveyard.publisher.publish(&[copy]).await.map_err(StoreError::unavailable)?;
            let id = Ulid::from_parts(0, position.0.into());
            let what = Undelivered::Unreadable { position };
            let letter = DeadLetter { id, what, attempts: 1, reason: reason.clone(), dead_at: now };
            graveyard.dead_letters.bury(letter).await?;
        }
        counter!("tidings_kafka_unreadable_total").increment(1);
        error!(position = position.0, reason, "a record of the log cannot be read and is passed over");
        Ok(())
    }
}

/// The record as it was found, and where.
fn copy(dead_letters: String, topic: &str, damaged: &Damaged, reason: &str) -> Outgoing {
    let headers = vec![
        ("topic", topic.to_owned()),
        ("partition", damaged.place.partition.number.to_string()),
        ("offset", damaged.place.offset.to_string()),
        ("reason", reason.to_owned()),
    ];
    Outgoing { topic: dead_letters, key: damaged.key.clone(), value: damaged.value.clone(), time: None, headers }
}
