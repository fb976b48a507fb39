//! Metrics of requests to the service: number, duration, consumed capacity, and refusals.

use std::sync::atomic::{AtomicU64, Ordering};

use aws_sdk_dynamodb::config::interceptors::{BeforeTransmitInterceptorContextRef, FinalizerInterceptorContextRef};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::types::ConsumedCapacity;
use metrics::{counter, histogram};
use ports::BoxError;
use tokio::time::Instant;

use crate::schema::Table;

/// An operation of the service that we use.
#[derive(Clone, Copy)]
pub(crate) enum DynamoOperation {
    GetItem,
    BatchGetItem,
    Query,
    Scan,
    UpdateItem,
    BatchWriteItem,
    TransactWriteItems,
}

impl DynamoOperation {
    fn name(self) -> &'static str {
        match self {
            Self::GetItem => "GetItem",
            Self::BatchGetItem => "BatchGetItem",
            Self::Query => "Query",
            Self::Scan => "Scan",
            Self::UpdateItem => "UpdateItem",
            Self::BatchWriteItem => "BatchWriteItem",
            Self::TransactWriteItems => "TransactWriteItems",
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::GetItem | Self::BatchGetItem | Self::Query | Self::Scan => "read",
            Self::UpdateItem | Self::BatchWriteItem | Self::TransactWriteItems => "write",
        }
    }
}

/// Counts the consumed capacity units.
#[derive(Default)]
pub(crate) struct RequestMeter {
    /// Consumed half units of each table. Counters are whole numbers, and an eventually consistent read may cost half a
    /// unit; the remainder is carried over.
    halves: [AtomicU64; Table::ALL.len()],
}

impl RequestMeter {
    /// Measures the duration of a request, including retries.
    pub(crate) async fn timed<T>(operation: DynamoOperation, request: impl Future<Output = T>) -> T {
        let started = Instant::now();
        let answer = request.await;
        histogram!("tidings_dynamodb_request_seconds", "operation" => operation.name()).record(started.elapsed());
        answer
    }

    /// Counts the units that a request consumed, for each of our tables. Their names begin with `prefix`.
    pub(crate) fn charged(&self, operation: DynamoOperation, prefix: &str, consumed: &[ConsumedCapacity]) {
        for consumed in consumed {
            let name = consumed.table_name().and_then(|name| name.strip_prefix(prefix));
            let Some(table) = Table::ALL.into_iter().find(|table| Some(table.name()) == name) else { continue };
            let halves = (2.0 * consumed.capacity_units().unwrap_or(0.0)).round() as u64;
            let before = self.halves[table as usize].fetch_add(halves, Ordering::Relaxed);
            counter!(
                "tidings_dynamodb_consumed_units_total",
                "operation" => operation.name(),
                "table" => table.name(),
                "kind" => operation.kind(),
            )
            .increment((before + halves) / 2 - before / 2);
        }
    }
}

/// Counts the attempts of all requests, including retries of the SDK, and the reasons for refusals.
#[derive(Debug)]
pub(crate) struct AttemptCounter;

impl Intercept for AttemptCounter {
    fn name(&self) -> &'static str {
        "Tries"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        counter!("tidings_dynamodb_tries_total").increment(1);
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(response) = context.response() else { return Ok(()) };
        if response.status().is_success() {
            return Ok(());
        }
        let said = response.body().bytes().unwrap_or_default();
        if contains_all(said, THROTTLES) {
            counter!("tidings_dynamodb_throttles_total").increment(1);
        }
        if contains_all(said, CONFLICTS) {
            counter!("tidings_dynamodb_conflicts_total").increment(1);
        }
        Ok(())
    }
}

/// Error codes, and cancellation reasons of transactions, that mean missing capacity.
const THROTTLES: &[&str] = &["Throttling", "ProvisionedThroughputExceeded", "RequestLimitExceeded"];
/// Error codes and cancellation reasons that mean a conflict with another transaction.
const CONFLICTS: &[&str] = &["TransactionConflict"];

/// Whether an error contains one of these words. Error bodies are short and contain no data of our items.
fn contains_all(error: &[u8], words: &[&str]) -> bool {
    words.iter().any(|word| error.windows(word.len()).any(|window| window == word.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use domain::{Sequence, Ttl, UpdateAction};
    use engines::{Fault, When};
    use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
    use ports::{
        AppendOutcome, AuditSource, Clock, Ids, MessageExpirer, MessageReader, MessageWriter, NewMessage,
        PushDeviceStore, RandomIds, SystemClock, UnreadQuery,
    };

    use super::*;
    use crate::testing::{DynamoServer, chat, message, update};

    /// The sum of all samples of a metric with labels that contain `labels`.
    fn sum(counted: &PrometheusHandle, metric: &str, labels: &str) -> f64 {
        let rendered = counted.render();
        let samples = rendered.lines().filter(|line| line.starts_with(metric) && line.contains(labels));
        samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Requests and units so far.
    fn spent(counted: &PrometheusHandle) -> (f64, f64) {
        (sum(counted, "tidings_dynamodb_tries_total", ""), sum(counted, "tidings_dynamodb_consumed_units_total", ""))
    }

    #[tokio::test]
    async fn a_commit_is_one_request_with_the_planned_cost() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        // The first send reads the counter, and marks the chat.
        store.append(vec![message(chat_id, sender_id)]).await.unwrap();
        let recorder = PrometheusBuilder::new().build_recorder();
        let counted = recorder.handle();
        // The runtime has one thread, so that everything below is counted here.
        let _guard = metrics::set_default_local_recorder(&recorder);

        let charged = |table: &str| {
            let labels = format!("operation=\"TransactWriteItems\",table=\"{table}\",kind=\"write\"");
            sum(&counted, "tidings_dynamodb_consumed_units_total", &labels)
        };
        store.append(vec![message(chat_id, sender_id)]).await.unwrap();
        // Five items at two units each, and one for the index by message id.
        assert_eq!(spent(&counted), (1.0, 11.0));
        assert_eq!(
            ["chat_counters", "idempotency_keys", "messages", "message_locations", "chat_memberships"].map(charged),
            [2.0, 2.0, 3.0, 2.0, 2.0]
        );
        store.append((0..32).map(|_| message(chat_id, sender_id)).collect()).await.unwrap();
        // Counter and membership are paid once for all messages: 7.1 units for each.
        assert_eq!(spent(&counted), (2.0, 11.0 + 4.0 + 32.0 * 7.0));
        assert_eq!(sum(&counted, "tidings_dynamodb_request_seconds_count", "TransactWriteItems"), 2.0);
    }

    #[tokio::test]
    async fn updates_cost_the_planned_units() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        let expiring = NewMessage { ttl: Ttl::from_secs(600), ..message(chat_id, sender_id) };
        store.append(vec![message(chat_id, sender_id), expiring]).await.unwrap();
        let recorder = PrometheusBuilder::new().build_recorder();
        let counted = recorder.handle();
        let _guard = metrics::set_default_local_recorder(&recorder);
        let mut before = BTreeMap::new();
        let mut charged = |kind: &str| -> BTreeMap<&str, f64> {
            let mut cost = BTreeMap::new();
            for table in Table::ALL.map(Table::name) {
                let labels = format!("table=\"{table}\",kind=\"{kind}\"");
                let units = sum(&counted, "tidings_dynamodb_consumed_units_total", &labels);
                let earlier = before.insert(labels, units).unwrap_or(0.0);
                if units > earlier {
                    cost.insert(table, units - earlier);
                }
            }
            cost
        };
        let commit = async |target, action| {
            let outcomes = store.commit(vec![update(chat_id, sender_id, target, action).into()]).await.unwrap();
            assert!(matches!(outcomes[..], [AppendOutcome::New(_)]), "{outcomes:?}");
        };

        let of_every_update = [
            ("chat_counters", 2.0),
            ("chat_memberships", 2.0),
            ("idempotency_keys", 2.0),
            ("messages", 2.0),
            ("updates", 2.0),
        ];
        let written = |others: &[(&'static str, f64)]| of_every_update.iter().chain(others).copied().collect();
        let read = [("chat_counters", 1.0), ("chat_memberships", 1.0), ("messages", 1.0)];
        let react = |with: &str| UpdateAction::React(with.parse().unwrap());
        commit(1, react("heart")).await;
        assert_eq!(charged("write"), written(&[("reactions", 2.0)]));
        assert_eq!(charged("read"), read.into_iter().chain([("reactions", 1.0)]).collect());
        // The first one writes the expiration again, so that the purge of the message deletes its reactions.
        commit(2, react("heart")).await;
        assert_eq!(charged("write"), written(&[("reactions", 2.0), ("expirations", 2.0)]));
        commit(2, react("star")).await;
        assert_eq!(charged("write"), written(&[("reactions", 2.0)]));
        charged("read");
        commit(1, UpdateAction::Edit(message(chat_id, sender_id).body)).await;
        assert_eq!(charged("write"), written(&[]));
        assert_eq!(charged("read"), BTreeMap::from(read));
    }

    #[tokio::test]
    async fn reads_cost_the_planned_units() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        let sends: Vec<_> = (0..20).map(|_| message(chat_id, sender_id)).collect();
        store.append(sends.clone()).await.unwrap();
        let recorder = PrometheusBuilder::new().build_recorder();
        let counted = recorder.handle();
        let _guard = metrics::set_default_local_recorder(&recorder);
        let mut before = BTreeMap::new();
        let mut charged = || -> BTreeMap<&str, f64> {
            let mut cost = BTreeMap::new();
            for table in Table::ALL.map(Table::name) {
                let labels = format!("table=\"{table}\",kind=\"read\"");
                let units = sum(&counted, "tidings_dynamodb_consumed_units_total", &labels);
                let earlier = before.insert(table, units).unwrap_or(0.0);
                if units > earlier {
                    cost.insert(table, units - earlier);
                }
            }
            cost
        };
        let (now, reader) = (SystemClock.now(), RandomIds.ulid().into());

        store.by_id(sends[0].message_id, now).await.unwrap();
        assert_eq!(charged(), BTreeMap::from([("message_locations", 1.0), ("messages", 1.0)]));
        // 20 messages of some 300 bytes.
        store.before(chat_id, Sequence(21), 20, now).await.unwrap();
        let page = charged();
        assert!(page.keys().eq(["messages"].iter()) && (1.0..=2.0).contains(&page["messages"]), "{page:?}");
        // A chat that is read needs its head alone. The count of another one reads its messages.
        store.unread(&[UnreadQuery { chat_id, reader, read: Sequence(20) }], now).await.unwrap();
        assert_eq!(charged(), BTreeMap::from([("chat_counters", 1.0)]));
        store.unread(&[UnreadQuery { chat_id, reader, read: Sequence(19) }], now).await.unwrap();
        assert_eq!(charged(), BTreeMap::from([("chat_counters", 1.0), ("messages", 1.0)]));
        store.devices(&[reader]).await.unwrap();
        assert_eq!(charged(), BTreeMap::from([("push_devices", 1.0)]));
        // The walk of the retention is eventual: two pages of half a unit. That of an audit is strong.
        for _ in 0..2 {
            store.chat_ids(None, 10).await.unwrap();
        }
        assert_eq!(charged(), BTreeMap::from([("chats", 1.0)]));
        store.chats(None, 10).await.unwrap();
        assert_eq!(charged(), BTreeMap::from([("chats", 1.0)]));
    }

    #[tokio::test]
    async fn tries_and_refusals_are_counted_where_the_sdk_repeats_them() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        let recorder = PrometheusBuilder::new().build_recorder();
        let counted = recorder.handle();
        let _guard = metrics::set_default_local_recorder(&recorder);
        for (fault, count) in [(Fault::Throttled, 2), (Fault::CapacityExceeded, 1), (Fault::Conflict, 1)] {
            server.proxy.fail_operation("TransactWriteItems", fault, When::Before, count);
        }
        server.proxy.fail_operation("GetItem", Fault::ServerError, When::Before, 1);
        store.append(vec![message(chat_id, sender_id)]).await.unwrap();
        let refused =
            ["throttles", "conflicts"].map(|what| sum(&counted, &format!("tidings_dynamodb_{what}_total"), ""));
        assert_eq!(refused, [3.0, 1.0]);
        // Restrictions and their changes were read, one of the reads was repeated, and so on for the counter. The
        // transaction was sent five times, with two tokens.
        assert_eq!(sum(&counted, "tidings_dynamodb_tries_total", ""), 9.0);
        assert_eq!(sum(&counted, "tidings_dynamodb_request_seconds_count", ""), 5.0);
    }

    #[test]
    fn halves_of_units_are_counted_in_pairs() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let counted = recorder.handle();
        let (meter, half) = (RequestMeter::default(), |table: &str| {
            ConsumedCapacity::builder().table_name(format!("our_{table}")).capacity_units(0.5).build()
        });
        metrics::with_local_recorder(&recorder, || {
            for units in [0.0, 1.0, 1.0, 2.0, 2.0] {
                meter.charged(DynamoOperation::Query, "our_", &[half("users"), half("strangers"), half("chats")]);
                for table in ["users", "chats"] {
                    let labels = format!("operation=\"Query\",table=\"{table}\",kind=\"read\"");
                    assert_eq!(sum(&counted, "tidings_dynamodb_consumed_units_total", &labels), units);
                }
            }
        });
    }
}
