//! The requests to DynamoDB, with retries, deadlines and costs.
//!
//! The SDK retries a request that was throttled, timed out or hit a server error, with jitter, a few times. So every
//! request must be idempotent: a write is a transaction with a request token, or has conditions that do not hold a
//! second time. A request with a lost answer therefore takes effect once, however often it arrives.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{
    AttributeValue, CancellationReason, ConsumedCapacity, KeysAndAttributes, PutRequest, ReturnConsumedCapacity,
    WriteRequest,
};
use domain::Backoff;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use ports::{Clock, EngineHealth, HealthCell, StoreError, error_chain};
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use crate::config::CALL_DEADLINE;
use crate::item::{DynamoItem, ItemKey};
use crate::meter::{DynamoOperation, RequestMeter};
use crate::schema::{Index, Table};
use crate::write::Write;

/// Limit of items per `BatchGetItem`, set by the service.
const BATCH_GET_MAX: usize = 100;
/// Limit of items per `BatchWriteItem`, set by the service.
const BATCH_PUT_MAX: usize = 25;
/// Limit of items per transaction, set by the service.
pub(crate) const TRANSACTION_ITEMS_MAX: usize = 100;
/// Limit of concurrent requests per call.
pub(crate) const CONCURRENCY_MAX: usize = 16;
/// Upper bounds of the delays before retries.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(10), longest: Duration::from_millis(320) };

/// A client of the service, with the table prefix.
#[derive(Clone)]
pub(crate) struct Db {
    client: Client,
    prefix: Arc<str>,
    meter: Arc<RequestMeter>,
    clock: Arc<dyn Clock>,
    health: Arc<HealthCell>,
}

/// Items of one partition, in sort order.
#[derive(Clone)]
pub(crate) struct PartitionQuery {
    pub(crate) table: Table,
    pub(crate) index: Option<Index>,
    pub(crate) partition: String,
    pub(crate) bound: Option<Bound>,
    pub(crate) descending: bool,
    /// The attributes to return; all of them, if empty.
    pub(crate) attributes: &'static [&'static str],
}

/// A range of sort keys.
#[derive(Clone)]
pub(crate) enum Bound {
    Above(AttributeValue),
    Below(AttributeValue),
    AtMost(AttributeValue),
    Between(AttributeValue, AttributeValue),
}

impl PartitionQuery {
    /// All items of a partition, ascending.
    pub(crate) fn partition(table: Table, partition: impl std::fmt::Display) -> Self {
        let partition = partition.to_string();
        Self { table, index: None, partition, bound: None, descending: false, attributes: &[] }
    }
}

/// The outcome of a transaction.
pub(crate) enum Transacted {
    Committed,
    /// Nothing was written. There is one reason for each part, in the same order.
    Cancelled(Vec<Reason>),
}

impl Transacted {
    pub(crate) fn is_committed(&self) -> bool {
        matches!(self, Self::Committed)
    }
}

/// Why one part of a transaction was cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The part is not the cause.
    None,
    /// Its condition does not hold.
    Condition,
    /// Another transaction uses the item, or capacity is missing: a retry may succeed.
    Busy,
    /// The write is invalid; a retry cannot succeed.
    Invalid(String),
}

impl Reason {
    fn read(reason: &CancellationReason) -> Self {
        match reason.code().unwrap_or("None") {
            "None" => Self::None,
            "ConditionalCheckFailed" => Self::Condition,
            "TransactionConflict" | "ThrottlingError" | "ProvisionedThroughputExceeded" => Self::Busy,
            code => Self::Invalid(code.to_owned()),
        }
    }
}

/// Whether a scan sees every earlier write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanFreshness {
    /// It does.
    Strong,
    /// It may miss the last moment, for half of the units.
    Eventual,
}

impl Db {
    pub(crate) fn new(client: Client, prefix: &str, clock: Arc<dyn Clock>) -> Self {
        let health = Arc::new(HealthCell::new());
        Self { client, prefix: prefix.into(), meter: Arc::default(), clock, health }
    }

    pub(crate) fn health(&self) -> EngineHealth {
        self.health.get()
    }

    /// Waits for the answer to a request, and records its duration and the health of the service.
    fn call<'a, T, E: Error + 'static>(
        &'a self,
        operation: DynamoOperation,
        request: impl Future<Output = Result<T, SdkError<E>>> + 'a,
    ) -> impl Future<Output = Result<T, SdkError<E>>> + 'a {
        // The SDK's futures are large, and would enlarge every future that awaits them.
        let request = Box::pin(request);
        async move {
            let answer = RequestMeter::timed(operation, request).await;
            match &answer {
                Ok(_) => self.health.set_ok(),
                // A client error is still an answer of a healthy service.
                Err(SdkError::ServiceError(said)) if said.raw().status().is_client_error() => self.health.set_ok(),
                Err(error) => self.health.set_failing(self.clock.now(), &error_chain(error).to_string()),
            }
            answer
        }
    }

    fn name(&self, table: Table) -> String {
        format!("{}{}", self.prefix, table.name())
    }

    fn charged(&self, operation: DynamoOperation, consumed: &[ConsumedCapacity]) {
        self.meter.charged(operation, &self.prefix, consumed);
    }

    /// Reads one item, strongly consistent.
    pub(crate) async fn get(&self, key: &ItemKey) -> Result<Option<DynamoItem>, StoreError> {
        let request = self
            .client
            .get_item()
            .table_name(self.name(key.table))
            .set_key(Some(key.attributes()))
            .consistent_read(true)
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        let output = self.call(DynamoOperation::GetItem, request.send()).await.map_err(unavailable)?;
        self.charged(DynamoOperation::GetItem, output.consumed_capacity.as_slice());
        Ok(output.item)
    }

    /// Reads many items of any tables, strongly consistent, in the order of their keys.
    pub(crate) async fn get_many(&self, keys: &[ItemKey]) -> Result<Vec<Option<DynamoItem>>, StoreError> {
        // A request must not name a key twice.
        let distinct: Vec<ItemKey> = keys.iter().cloned().collect::<HashSet<_>>().into_iter().collect();
        let chunks: Vec<Vec<ItemKey>> = distinct.chunks(BATCH_GET_MAX).map(<[ItemKey]>::to_vec).collect();
        let chunks = chunks.into_iter().map(|chunk| self.get_chunk(chunk));
        let found: Vec<Vec<(ItemKey, DynamoItem)>> =
            stream::iter(chunks).buffer_unordered(CONCURRENCY_MAX).try_collect().await?;
        let found: HashMap<ItemKey, DynamoItem> = found.into_iter().flatten().collect();
        Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
    }

    async fn get_chunk(&self, keys: Vec<ItemKey>) -> Result<Vec<(ItemKey, DynamoItem)>, StoreError> {
        let mut wanted: HashMap<Table, Vec<DynamoItem>> = HashMap::new();
        for key in &keys {
            wanted.entry(key.table).or_default().push(key.attributes());
        }
        let tables: Vec<Table> = wanted.keys().copied().collect();
        let ask = |(table, keys)| {
            let asked = KeysAndAttributes::builder().set_keys(Some(keys)).consistent_read(true).build();
            let asked = asked.expect("keys are given");
            (self.name(table), asked)
        };
        let mut left: HashMap<String, KeysAndAttributes> = wanted.into_iter().map(ask).collect();
        let (mut budget, mut found) = (Budget::new(), Vec::with_capacity(keys.len()));
        while !left.is_empty() {
            let request = self
                .client
                .batch_get_item()
                .set_request_items(Some(left))
                .return_consumed_capacity(ReturnConsumedCapacity::Total);
            let output = self.call(DynamoOperation::BatchGetItem, request.send()).await.map_err(unavailable)?;
            self.charged(DynamoOperation::BatchGetItem, output.consumed_capacity());
            let mut responses = output.responses.unwrap_or_default();
            for table in &tables {
                for item in responses.remove(&self.name(*table)).unwrap_or_default() {
                    found.push((ItemKey::read(*table, &item)?, item));
                }
            }
            left = output.unprocessed_keys.unwrap_or_default();
            if !left.is_empty() {
                budget.pause("keys were left unprocessed").await?;
            }
        }
        Ok(found)
    }

    /// Reads up to `count` items.
    pub(crate) async fn query(&self, query: &PartitionQuery, count: usize) -> Result<Vec<DynamoItem>, StoreError> {
        let (mut items, mut start) = (vec![], None);
        while items.len() < count {
            let (page, next) = self.page(query, count - items.len(), start).await?;
            items.extend(page);
            start = next;
            if start.is_none() {
                break;
            }
        }
        Ok(items)
    }

    /// Reads one page of up to `count` items, and returns where to continue if there may be more.
    pub(crate) async fn page(
        &self,
        query: &PartitionQuery,
        count: usize,
        start: Option<DynamoItem>,
    ) -> Result<(Vec<DynamoItem>, Option<DynamoItem>), StoreError> {
        let definition = query.table.definition();
        let (partition_key, sort_key) = match query.index {
            Some(index) => (index.partition_key, index.sort_key),
            None => (definition.partition_key, definition.sort_key),
        };
        let mut names = HashMap::from([("#p".to_owned(), partition_key.to_owned())]);
        let mut values = HashMap::from([(":p".to_owned(), AttributeValue::S(query.partition.clone()))]);
        let mut condition = "#p = :p".to_owned();
        if let Some((bound, sort_key)) = query.bound.clone().zip(sort_key) {
            names.insert("#s".to_owned(), sort_key.name().to_owned());
            let (comparison, low, high) = match bound {
                Bound::Above(low) => ("#s > :low", low, None),
                Bound::Below(low) => ("#s < :low", low, None),
                Bound::AtMost(low) => ("#s <= :low", low, None),
                Bound::Between(low, high) => ("#s BETWEEN :low AND :high", low, Some(high)),
            };
            values.insert(":low".to_owned(), low);
            values.extend(high.map(|high| (":high".to_owned(), high)));
            condition = format!("{condition} AND {comparison}");
        }
        for attribute in query.attributes {
            names.insert(format!("#{attribute}"), (*attribute).to_owned());
        }
        let projection: Vec<_> = query.attributes.iter().map(|attribute| format!("#{attribute}")).collect();
        let request = self
            .client
            .query()
            .table_name(self.name(query.table))
            .set_index_name(query.index.map(|index| index.name.to_owned()))
            .key_condition_expression(condition)
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values(Some(values))
            .set_projection_expression((!projection.is_empty()).then(|| projection.join(", ")))
            .scan_index_forward(!query.descending)
            // Indexes do not support consistent reads.
            .consistent_read(query.index.is_none())
            .limit(i32::try_from(count).unwrap_or(i32::MAX))
            .set_exclusive_start_key(start)
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        let output = self.call(DynamoOperation::Query, request.send()).await.map_err(unavailable)?;
        self.charged(DynamoOperation::Query, output.consumed_capacity.as_slice());
        Ok((output.items.unwrap_or_default(), output.last_evaluated_key))
    }

    /// Reads one page of up to `count` items of a whole table after a key. Returns where to continue if there may be
    /// more. Only for audits, transfers and background work: no request may scan a table.
    pub(crate) async fn scan(
        &self,
        table: Table,
        after: Option<&ItemKey>,
        count: usize,
        freshness: ScanFreshness,
    ) -> Result<(Vec<DynamoItem>, Option<ItemKey>), StoreError> {
        let request = self
            .client
            .scan()
            .table_name(self.name(table))
            .consistent_read(freshness == ScanFreshness::Strong)
            .limit(i32::try_from(count).unwrap_or(i32::MAX))
            .set_exclusive_start_key(after.map(ItemKey::attributes))
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        let output = self.call(DynamoOperation::Scan, request.send()).await.map_err(unavailable)?;
        self.charged(DynamoOperation::Scan, output.consumed_capacity.as_slice());
        let next = output.last_evaluated_key.map(|key| ItemKey::read(table, &key)).transpose()?;
        Ok((output.items.unwrap_or_default(), next))
    }

    /// The number of items in a table, as of some hours ago.
    pub(crate) async fn count(&self, table: Table) -> Result<u64, StoreError> {
        let output = Box::pin(self.client.describe_table().table_name(self.name(table)).send()).await;
        let count = output.map_err(unavailable)?.table.and_then(|table| table.item_count);
        Ok(count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0))
    }

    /// Runs a transaction. Conflicts with other transactions are retried.
    pub(crate) async fn transact(&self, writes: impl Fn() -> Vec<Write>) -> Result<Transacted, StoreError> {
        let mut budget = Budget::new();
        loop {
            match self.try_transact(writes()).await? {
                Transacted::Cancelled(reasons) if !reasons.contains(&Reason::Condition) => {
                    if let Some(Reason::Invalid(code)) =
                        reasons.iter().find(|reason| matches!(reason, Reason::Invalid(_)))
                    {
                        return Err(StoreError::unavailable(format!("a transaction was refused: {code}")));
                    }
                    budget.pause("conflict with another transaction").await?;
                }
                outcome => return Ok(outcome),
            }
        }
    }

    /// Updates one item if its conditions hold, and returns whether they did. There is no request token: an attempt
    /// with a lost answer is repeated. So the conditions must exclude that it takes effect twice, and `false` may mean
    /// that an earlier attempt succeeded. In return it costs half of a transaction, and on a conflict the update waits,
    /// not the transaction.
    pub(crate) async fn update(&self, write: impl Fn() -> Write) -> Result<bool, StoreError> {
        let mut budget = Budget::new();
        loop {
            let update = write().into_part(|table| self.name(table)).update.expect("an update is given");
            let request = self
                .client
                .update_item()
                .table_name(update.table_name)
                .set_key(Some(update.key))
                .update_expression(update.update_expression)
                .set_condition_expression(update.condition_expression)
                .set_expression_attribute_names(update.expression_attribute_names)
                .set_expression_attribute_values(update.expression_attribute_values)
                .return_consumed_capacity(ReturnConsumedCapacity::Total);
            match self.call(DynamoOperation::UpdateItem, request.send()).await {
                Ok(output) => {
                    self.charged(DynamoOperation::UpdateItem, output.consumed_capacity.as_slice());
                    return Ok(true);
                }
                Err(error) => match error.as_service_error() {
                    Some(UpdateItemError::ConditionalCheckFailedException(_)) => return Ok(false),
                    Some(UpdateItemError::TransactionConflictException(_)) => {
                        budget.pause("conflict with a transaction").await?;
                    }
                    _ => return Err(unavailable(error)),
                },
            }
        }
    }

    /// Puts many items unconditionally. After an error some of them may be written, so callers must be able to write
    /// them again.
    pub(crate) async fn put_many(&self, items: &HashMap<ItemKey, DynamoItem>) -> Result<(), StoreError> {
        let items: Vec<(&ItemKey, &DynamoItem)> = items.iter().collect();
        let chunks: Vec<_> = items.chunks(BATCH_PUT_MAX).map(|chunk| self.put_chunk(chunk.to_vec())).collect();
        stream::iter(chunks).buffer_unordered(CONCURRENCY_MAX).try_collect().await
    }

    async fn put_chunk(&self, items: Vec<(&ItemKey, &DynamoItem)>) -> Result<(), StoreError> {
        let mut left: HashMap<String, Vec<WriteRequest>> = HashMap::new();
        for (key, item) in items {
            let mut item = item.clone();
            item.extend(key.attributes());
            let put = PutRequest::builder().set_item(Some(item)).build().expect("an item is given");
            left.entry(self.name(key.table)).or_default().push(WriteRequest::builder().put_request(put).build());
        }
        let mut budget = Budget::new();
        loop {
            let request = self
                .client
                .batch_write_item()
                .set_request_items(Some(left))
                .return_consumed_capacity(ReturnConsumedCapacity::Total);
            let output = self.call(DynamoOperation::BatchWriteItem, request.send()).await.map_err(unavailable)?;
            self.charged(DynamoOperation::BatchWriteItem, output.consumed_capacity());
            left = output.unprocessed_items.unwrap_or_default();
            if left.is_empty() {
                return Ok(());
            }
            budget.pause("items were left unwritten").await?;
        }
    }

    async fn try_transact(&self, writes: Vec<Write>) -> Result<Transacted, StoreError> {
        let parts = writes.into_iter().map(|write| write.into_part(|table| self.name(table))).collect();
        let request = self
            .client
            .transact_write_items()
            .set_transact_items(Some(parts))
            .client_request_token(Uuid::new_v4().to_string())
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        match self.call(DynamoOperation::TransactWriteItems, request.send()).await {
            Ok(output) => {
                self.charged(DynamoOperation::TransactWriteItems, output.consumed_capacity());
                Ok(Transacted::Committed)
            }
            Err(error) => match error.as_service_error() {
                Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
                    Ok(Transacted::Cancelled(cancelled.cancellation_reasons().iter().map(Reason::read).collect()))
                }
                _ => Err(unavailable(error)),
            },
        }
    }
}

/// Repeats `attempt`, which reads, decides and writes under the condition that nothing has changed, until no concurrent
/// change interferes. `None` means that one did.
pub(crate) async fn undisturbed<T, F>(mut attempt: impl FnMut() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<Option<T>, StoreError>>,
{
    let decided = async {
        let mut budget = Budget::new();
        loop {
            match attempt().await? {
                Some(answer) => return Ok(answer),
                None => budget.pause("the items kept changing").await?,
            }
        }
    };
    let late = || StoreError::unavailable(format!("no answer within {CALL_DEADLINE:?}"));
    timeout(CALL_DEADLINE, decided).await.unwrap_or_else(|_| Err(late()))
}

/// The time limit for the retries of one call.
pub(crate) struct Budget {
    deadline: Instant,
    failures: u32,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self { deadline: Instant::now() + CALL_DEADLINE, failures: 0 }
    }

    /// Waits before the next attempt, with random jitter, so that colliding requests do not collide again.
    pub(crate) async fn pause(&mut self, reason: &'static str) -> Result<(), StoreError> {
        self.failures += 1;
        let pause = BACKOFF.delay(self.failures).mul_f64(rand::random::<f64>());
        if Instant::now() + pause >= self.deadline {
            return Err(StoreError::unavailable(format!("no success within {CALL_DEADLINE:?}: {reason}")));
        }
        sleep(pause).await;
        Ok(())
    }
}

/// A request that failed permanently. The SDK's errors contain whole responses, which may include messages, so only the
/// error text is kept.
fn unavailable(error: impl Error) -> StoreError {
    StoreError::unavailable(error_chain(&error).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(code: &str) -> Reason {
        Reason::read(&CancellationReason::builder().code(code).build())
    }

    #[test]
    fn reasons_distinguish_final_from_transient_failures() {
        assert_eq!(read("None"), Reason::None);
        assert_eq!(Reason::read(&CancellationReason::builder().build()), Reason::None);
        assert_eq!(read("ConditionalCheckFailed"), Reason::Condition);
        for passing in ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"] {
            assert_eq!(read(passing), Reason::Busy, "{passing}");
        }
        assert_eq!(read("ValidationError"), Reason::Invalid("ValidationError".to_owned()));
    }
}
