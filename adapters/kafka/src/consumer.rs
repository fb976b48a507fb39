use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ports::{Clock, EventConsumer, Record, StoreError};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tokio::time;

use crate::buffer::Next;
use crate::burial::Burial;
use crate::client::CALL_TIMEOUT;
use crate::names::Names;
use crate::reader::Reader;

/// How long a commit waits before it is tried again while the group shares its partitions anew.
const REBALANCE_PAUSE: Duration = Duration::from_millis(100);

/// One member of a group, as others see it.
pub(crate) struct KafkaConsumer {
    pub(crate) reader: Reader,
    pub(crate) burial: Arc<Burial>,
    pub(crate) names: Names,
    pub(crate) clock: Arc<dyn Clock>,
}

#[async_trait]
impl EventConsumer for KafkaConsumer {
    async fn next(&mut self) -> Result<Vec<Record>, StoreError> {
        loop {
            let next = self.reader.buffer().take(self.clock.now());
            match next {
                // Nothing awaits from taking to returning, so a dropped future has taken nothing.
                Next::Records(records) => return Ok(records),
                Next::Damaged(damaged) => {
                    let topic = self.names.of(damaged.place.partition.kind);
                    self.burial.bury(topic, &damaged, self.clock.now()).await?;
                    self.reader.buffer().pass_over(damaged.place);
                }
                Next::Nothing => match self.reader.failure() {
                    Some(failure) => return Err(failure),
                    None => self.reader.filled().await,
                },
            }
        }
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        match time::timeout(CALL_TIMEOUT, self.commit_returned()).await {
            Ok(outcome) => outcome.map_err(StoreError::unavailable),
            Err(_) => Err(StoreError::unavailable(format!("kafka did not take the commit within {CALL_TIMEOUT:?}"))),
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
                // Afterwards it is tried for the partitions that are left to us.
                Err(error) if is_rebalance(&error) => time::sleep(REBALANCE_PAUSE).await,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether a commit was refused because the group shares its partitions anew.
fn is_rebalance(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{IllegalGeneration, RebalanceInProgress, UnknownMemberId};
    matches!(error.rdkafka_error_code(), Some(IllegalGeneration | RebalanceInProgress | UnknownMemberId))
}
