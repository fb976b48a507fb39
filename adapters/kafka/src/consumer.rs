use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ports::{Clock, EventConsumer, Record, StoreError};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tokio::time;

use crate::buffer::NextBatch;
use crate::burial::Burial;
use crate::client::CALL_TIMEOUT;
use crate::names::TopicNames;
use crate::reader::GroupReader;

/// Delay before a commit is retried during a rebalance.
const REBALANCE_PAUSE: Duration = Duration::from_millis(100);

/// One member of a consumer group.
pub(crate) struct KafkaConsumer {
    pub(crate) reader: GroupReader,
    pub(crate) burial: Arc<Burial>,
    pub(crate) names: TopicNames,
    pub(crate) clock: Arc<dyn Clock>,
}

#[async_trait]
impl EventConsumer for KafkaConsumer {
    async fn next(&mut self) -> Result<Vec<Record>, StoreError> {
        loop {
            let next = self.reader.buffer().take(self.clock.now());
            match next {
                // There is no await point between taking and returning, so dropping the future loses no records.
                NextBatch::Records(records) => return Ok(records),
                NextBatch::Damaged(damaged) => {
                    let topic = self.names.of(damaged.location.partition.kind);
                    self.burial.add_dead_letter(topic, &damaged, self.clock.now()).await?;
                    self.reader.buffer().skip(damaged.location);
                }
                NextBatch::Nothing => match self.reader.failure() {
                    Some(failure) => return Err(failure),
                    None => self.reader.filled().await,
                },
            }
        }
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        match time::timeout(CALL_TIMEOUT, self.commit_returned()).await {
            Ok(outcome) => outcome.map_err(StoreError::unavailable),
            Err(_) => Err(StoreError::unavailable(format!("kafka did not confirm the commit within {CALL_TIMEOUT:?}"))),
        }
    }
}

impl KafkaConsumer {
    async fn commit_returned(&mut self) -> Result<(), KafkaError> {
        loop {
            let offsets = self.reader.buffer().uncommitted();
            if offsets.is_empty() {
                return Ok(());
            }
            match self.reader.commit(&offsets).await {
                Ok(()) => {
                    self.reader.buffer().committed(&offsets);
                    return Ok(());
                }
                // The retry commits only the partitions that are still assigned after the rebalance.
                Err(error) if is_rebalance(&error) => time::sleep(REBALANCE_PAUSE).await,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether a commit was refused because the group is rebalancing.
fn is_rebalance(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{IllegalGeneration, RebalanceInProgress, UnknownMemberId};
    matches!(error.rdkafka_error_code(), Some(IllegalGeneration | RebalanceInProgress | UnknownMemberId))
}
