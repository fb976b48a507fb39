//! The requests we make, with their retries, deadlines and costs.
//!
//! The SDK repeats a request that was throttled, timed out or met a failing server, with jitter, a few times. What it
//! repeats it must be able to repeat: a write is a transaction with a request token, or one whose conditions do not
//! hold a second time. So a try whose answer was lost counts once however often it arrives.

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
use futures_util::stream::{self, StreamExt, TryStreamExt};
use ports::{Clock, Health, HealthCell, StoreError};
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use crate::config::CALL_DEADLINE;
use crate::item::{Item, Key};
use crate::meter::{Meter, Operation};
use crate::schema::{Index, Table};
use crate::write::Write;

/// Items that one request of many keys asks for, at the most: the service's bound.
const BATCH_GET_MAX: usize = 100;
/// Items that one request of many writes puts, at the most: the service's bound.
const BATCH_PUT_MAX: usize = 25;
/// Items that one transaction touches, at the most: the service's bound.
pub(crate) const TRANSACTION_ITEMS_MAX: usize = 100;
/// Requests that one call has under way, at the most.
pub(crate) const CONCURRENCY_MAX: usize = 16;
/// The longest pause before the first retry; it doubles with each.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
/// The longest pause before any retry.
const PAUSE_MAX: Duration = Duration::from_millis(320);

/// The service, and the names our tables have there.
#[derive(Clone)]
pub(crate) struct Db {
    client: Client,
    prefix: Arc<str>,
    meter: Arc<Meter>,
    clock: Arc<dyn Clock>,
    health: Arc<HealthCell>,
}

/// Items of one partition, in their order.
#[derive(Clone)]
pub(crate) struct Query {
    pub(crate) table: Table,
    pub(crate) index: Option<Index>,
    pub(crate) partition: String,
    pub(crate) bound: Option<Bound>,
    pub(crate) descending: bool,
    /// The attributes asked for; all of them, if empty.
    pub(crate) attributes: &'static [&'static str],
}

/// Which items of a partition, by their sort key.
#[derive(Clone)]
pub(crate) enum Bound {
    Above(AttributeValue),
    Below(AttributeValue),
    AtMost(AttributeValue),
    Between(AttributeValue, AttributeValue),
}

impl Query {
    /// All items of a partition, ascending.
    pub(crate) fn partition(table: Table, partition: impl std::fmt::Display) -> Self {
        let partition = partition.to_string();
        Self { table, index: None, partition, bound: None, descending: false, attributes: &[] }
    }
}

/// What became of a transaction.
pub(crate) enum Transacted {
    Committed,
    /// Nothing was written. There is one reason for each part, in its place.
    Cancelled(Vec<Reason>),
}

impl Transacted {
    pub(crate) fn is_committed(&self) -> bool {
        matches!(self, Self::Committed)
    }
}

/// What one part of a cancelled transaction has to do with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Nothing.
    None,
    /// Its condition does not hold.
    Condition,
    /// Another transaction touches the item, or there is no capacity for it now: the same again may work.
    Busy,
    /// It can never be written like that.
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

impl Db {
    pub(crate) fn new(client: Client, prefix: &str, clock: Arc<dyn Clock>) -> Self {
        let health = Arc::new(HealthCell::new());
        Self { client, prefix: prefix.into(), meter: Arc::default(), clock, health }
    }

    pub(crate) fn health(&self) -> Health {
        self.health.get()
    }

    /// Waits for the answer to a request, and notes how long it took and whether the service does its work.
    fn ask<'a, T, E: Error + 'static>(
        &'a self,
        operation: Operation,
        request: impl Future<Output = Result<T, SdkError<E>>> + 'a,
    ) -> impl Future<Output = Result<T, SdkError<E>>> + 'a {
        // The SDK's futures are large, and would be part of everybody's who waits for them.
        let request = Box::pin(request);
        async move {
            let answer = Meter::timed(operation, request).await;
            match &answer {
                Ok(_) => self.health.set_ok(),
                // A refusal is an answer.
                Err(SdkError::ServiceError(said)) if said.raw().status().is_client_error() => self.health.set_ok(),
                Err(error) => self.health.set_failing(self.clock.now(), &said(error)),
            }
            answer
        }
    }

    fn name(&self, table: Table) -> String {
        format!("{}{}", self.prefix, table.name())
    }

    fn charged(&self, operation: Operation, consumed: &[ConsumedCapacity]) {
        self.meter.charged(operation, &self.prefix, consumed);
    }

    /// One item, strongly consistent.
    pub(crate) async fn get(&self, key: &Key) -> Result<Option<Item>, StoreError> {
        let request = self
            .client
            .get_item()
            .table_name(self.name(key.table))
            .set_key(Some(key.attributes()))
            .consistent_read(true)
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        let output = self.ask(Operation::GetItem, request.send()).await.map_err(unavailable)?;
        self.charged(Operation::GetItem, output.consumed_capacity.as_slice());
        Ok(output.item)
    }

    /// Many items of any tables, strongly consistent, in the order of their keys.
    pub(crate) async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, StoreError> {
        // A request must not name a key twice.
        let distinct: Vec<Key> = keys.iter().cloned().collect::<HashSet<_>>().into_iter().collect();
        let chunks: Vec<Vec<Key>> = distinct.chunks(BATCH_GET_MAX).map(<[Key]>::to_vec).collect();
        let chunks = chunks.into_iter().map(|chunk| self.get_chunk(chunk));
        let found: Vec<Vec<(Key, Item)>> = stream::iter(chunks).buffer_unordered(CONCURRENCY_MAX).try_collect().await?;
        let found: HashMap<Key, Item> = found.into_iter().flatten().collect();
        Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
    }

    async fn get_chunk(&self, keys: Vec<Key>) -> Result<Vec<(Key, Item)>, StoreError> {
        let mut wanted: HashMap<Table, Vec<Item>> = HashMap::new();
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
            let output = self.ask(Operation::BatchGetItem, request.send()).await.map_err(unavailable)?;
            self.charged(Operation::BatchGetItem, output.consumed_capacity());
            let mut responses = output.responses.unwrap_or_default();
            for table in &tables {
                for item in responses.remove(&self.name(*table)).unwrap_or_default() {
                    found.push((Key::read(*table, &item)?, item));
                }
            }
            left = output.unprocessed_keys.unwrap_or_default();
            if !left.is_empty() {
                budget.pause("keys were left unprocessed").await?;
            }
        }
        Ok(found)
    }

    /// Up to `count` items.
    pub(crate) async fn query(&self, query: &Query, count: usize) -> Result<Vec<Item>, StoreError> {
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

    /// Up to `count` items, as many as the service returns at once, and where to go on if there may be more.
    pub(crate) async fn page(
        &self,
        query: &Query,
        count: usize,
        start: Option<Item>,
    ) -> Result<(Vec<Item>, Option<Item>), StoreError> {
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
            // An index cannot be asked for more.
            .consistent_read(query.index.is_none())
            .limit(i32::try_from(count).unwrap_or(i32::MAX))
            .set_exclusive_start_key(start)
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        let output = self.ask(Operation::Query, request.send()).await.map_err(unavailable)?;
        self.charged(Operation::Query, output.consumed_capacity.as_slice());
        Ok((output.items.unwrap_or_default(), output.last_evaluated_key))
    }

    /// Up to `count` items of a whole table behind a key, strongly consistent, as many as the service returns at once, and
    /// where to go on if there may be more. It is for an audit: no request may read a whole table.
    pub(crate) async fn scan(
        &self,
        table: Table,
        after: Option<&Key>,
        count: usize,
    ) -> Result<(Vec<Item>, Option<Key>), StoreError> {
        let request = self
            .client
            .scan()
            .table_name(self.name(table))
            .consistent_read(true)
            .limit(i32::try_from(count).unwrap_or(i32::MAX))
            .set_exclusive_start_key(after.map(Key::attributes))
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        let output = self.ask(Operation::Scan, request.send()).await.map_err(unavailable)?;
        self.charged(Operation::Scan, output.consumed_capacity.as_slice());
        let next = output.last_evaluated_key.map(|key| Key::read(table, &key)).transpose()?;
        Ok((output.items.unwrap_or_default(), next))
    }

    /// How many items a table has, as of some hours ago.
    pub(crate) async fn count(&self, table: Table) -> Result<u64, StoreError> {
        let output = Box::pin(self.client.describe_table().table_name(self.name(table)).send()).await;
        let count = output.map_err(unavailable)?.table.and_then(|table| table.item_count);
        Ok(count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0))
    }

    /// Does all of it or nothing. Another transaction in the way is waited for.
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
                    budget.pause("another transaction was in the way").await?;
                }
                outcome => return Ok(outcome),
            }
        }
    }

    /// Changes one item if its conditions hold, and says whether they did. It bears no token: a try whose answer was
    /// lost is repeated, so its conditions must rule out that it counts twice, and `false` may hide that it was done.
    /// For that it costs half of a transaction, and where it meets one it is the one that waits.
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
            match self.ask(Operation::UpdateItem, request.send()).await {
                Ok(output) => {
                    self.charged(Operation::UpdateItem, output.consumed_capacity.as_slice());
                    return Ok(true);
                }
                Err(error) => match error.as_service_error() {
                    Some(UpdateItemError::ConditionalCheckFailedException(_)) => return Ok(false),
                    Some(UpdateItemError::TransactionConflictException(_)) => {
                        budget.pause("a transaction was in the way").await?;
                    }
                    _ => return Err(unavailable(error)),
                },
            }
        }
    }

    /// Puts many items in the place of what is there, whatever it is. After an error some of them may be written: it is for
    /// whoever can write them again.
    pub(crate) async fn put_many(&self, items: &HashMap<Key, Item>) -> Result<(), StoreError> {
        let items: Vec<(&Key, &Item)> = items.iter().collect();
        let chunks: Vec<_> = items.chunks(BATCH_PUT_MAX).map(|chunk| self.put_chunk(chunk.to_vec())).collect();
        stream::iter(chunks).buffer_unordered(CONCURRENCY_MAX).try_collect().await
    }

    async fn put_chunk(&self, items: Vec<(&Key, &Item)>) -> Result<(), StoreError> {
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
            let output = self.ask(Operation::BatchWriteItem, request.send()).await.map_err(unavailable)?;
            self.charged(Operation::BatchWriteItem, output.consumed_capacity());
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
        match self.ask(Operation::TransactWriteItems, request.send()).await {
            Ok(output) => {
                self.charged(Operation::TransactWriteItems, output.consumed_capacity());
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

/// Repeats `attempt`, which reads, decides and writes under the condition that nothing has changed, until nobody has
/// come in between. `None` means that somebody has.
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

/// How long one call may go on trying.
pub(crate) struct Budget {
    deadline: Instant,
    pause: Duration,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self { deadline: Instant::now() + CALL_DEADLINE, pause: PAUSE_FIRST }
    }

    /// Waits before the next try, for a random while, so that those who collided do not collide again.
    pub(crate) async fn pause(&mut self, reason: &'static str) -> Result<(), StoreError> {
        let pause = self.pause.mul_f64(rand::random::<f64>());
        if Instant::now() + pause >= self.deadline {
            return Err(StoreError::unavailable(format!("no success within {CALL_DEADLINE:?}: {reason}")));
        }
        sleep(pause).await;
        self.pause = PAUSE_MAX.min(self.pause * 2);
        Ok(())
    }
}

/// A request that failed for good. The SDK's errors hold whole responses, and a response may hold messages: only what
/// the error says is kept.
fn unavailable(error: impl Error) -> StoreError {
    StoreError::unavailable(said(&error))
}

fn said(error: &dyn Error) -> String {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        said = format!("{said}: {cause}");
        source = cause.source();
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(code: &str) -> Reason {
        Reason::read(&CancellationReason::builder().code(code).build())
    }

    #[test]
    fn reasons_tell_what_is_decided_from_what_may_pass() {
        assert_eq!(read("None"), Reason::None);
        assert_eq!(Reason::read(&CancellationReason::builder().build()), Reason::None);
        assert_eq!(read("ConditionalCheckFailed"), Reason::Condition);
        for passing in ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"] {
            assert_eq!(read(passing), Reason::Busy, "{passing}");
        }
        assert_eq!(read("ValidationError"), Reason::Invalid("ValidationError".to_owned()));
    }
}
