use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use metrics::counter;
use opentelemetry::trace::Status;
use opentelemetry::{Context, Value};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Span, SpanData, SpanExporter, SpanLimits, SpanProcessor,
};

/// Most spans queued for the collector or on their way to it. Further ones are dropped and counted.
pub(super) const QUEUE_LEN_MAX: usize = 8192;
/// Most spans in one request. A full batch is sent without waiting for the next interval.
const BATCH_LEN_MAX: usize = 512;
/// Interval at which spans are sent.
const INTERVAL: Duration = Duration::from_secs(1);
/// Most bytes in the value of an attribute, or in the reason of a failure.
const VALUE_BYTES_MAX: usize = 1024;

/// Links: as many as there are sends in a batch. Events: the first error is the reason of a failure.
pub(super) fn limits() -> SpanLimits {
    SpanLimits { max_links_per_span: 128, max_events_per_span: 1, ..SpanLimits::default() }
}

/// The queue of ended spans to an exporter, in front of the SDK's [`BatchSpanProcessor`]. It never blocks.
///
/// The queue counts its spans itself, because the SDK shows no count of those that it drops. It discards spans that are
/// neither sampled nor failed.
#[derive(Debug)]
pub(super) struct SpanQueue {
    batches: BatchSpanProcessor,
    len: Arc<AtomicUsize>,
    len_max: usize,
}

impl SpanQueue {
    pub(super) fn new(exporter: impl SpanExporter + 'static, len_max: usize) -> Self {
        let len = Arc::<AtomicUsize>::default();
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(len_max)
            .with_max_export_batch_size(BATCH_LEN_MAX)
            .with_scheduled_delay(INTERVAL)
            .build();
        let exporter = CountedExporter { exporter, len: len.clone() };
        Self { batches: BatchSpanProcessor::new(exporter, config), len, len_max }
    }
}

impl SpanProcessor for SpanQueue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        let Some(span) = completed(span) else { return };
        let is_room = |len: usize| (len < self.len_max).then_some(len + 1);
        match self.len.fetch_update(Relaxed, Relaxed, is_room) {
            Ok(_) => self.batches.on_end(span),
            Err(_) => dropped(1),
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.batches.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.batches.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.batches.set_resource(resource);
    }
}

/// Completes an ended span; `None` if it is neither sampled nor failed.
///
/// A field `error`, or else the first error logged in the span, is the reason of its failure. Fields of log lines are
/// left out: they are for the log.
fn completed(mut span: SpanData) -> Option<SpanData> {
    let logged = take(&mut span.events).events.into_iter().next().map(|event| event.name);
    let field = span.attributes.iter().position(|attribute| attribute.key.as_str() == "error");
    let field = field.map(|at| span.attributes.remove(at).value.as_str().into_owned().into());
    if let Some(reason) = field.or(logged) {
        span.status = Status::error(bounded(&reason).to_owned());
    }
    if !span.span_context.is_sampled() && span.status == Status::Unset {
        return None;
    }
    for attribute in &mut span.attributes {
        if let Value::String(text) = &attribute.value
            && text.as_str().len() > VALUE_BYTES_MAX
        {
            attribute.value = bounded(text.as_str()).to_owned().into();
        }
    }
    // The layer ends a span at its last exit, but a span lasts until its last handle is dropped, which is now.
    span.end_time = SystemTime::now().max(span.start_time);
    Some(span)
}

fn bounded(text: &str) -> &str {
    &text[..text.floor_char_boundary(VALUE_BYTES_MAX)]
}

/// Counts the spans that leave the queue, and those of them that the collector does not get.
#[derive(Debug)]
struct CountedExporter<E> {
    exporter: E,
    len: Arc<AtomicUsize>,
}

impl<E: SpanExporter> SpanExporter for CountedExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let outcome = self.exporter.export(batch).await;
        if outcome.is_err() {
            dropped(spans);
        }
        self.len.fetch_sub(spans, Relaxed);
        outcome
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

fn dropped(spans: usize) {
    counter!("tidings_telemetry_dropped_total").increment(spans as u64);
}

/// An exporter that keeps the spans for a test.
#[cfg(test)]
#[derive(Clone, Debug, Default)]
pub(super) struct KeptSpans(Arc<std::sync::Mutex<Vec<SpanData>>>);

#[cfg(test)]
impl KeptSpans {
    pub(super) fn take(&self) -> Vec<SpanData> {
        take(&mut *self.0.lock().unwrap())
    }
}

#[cfg(test)]
impl SpanExporter for KeptSpans {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().unwrap().extend(batch);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use metrics_exporter_prometheus::PrometheusBuilder;
    use opentelemetry::trace::{SpanContext, SpanId, SpanKind, TraceFlags, TraceId, TraceState};
    use opentelemetry::{InstrumentationScope, KeyValue};
    use opentelemetry_sdk::error::OTelSdkError;

    use super::*;

    fn span() -> SpanData {
        let (trace_id, span_id) = (TraceId::from_bytes([1; 16]), SpanId::from_bytes([2; 8]));
        SpanData {
            span_context: SpanContext::new(trace_id, span_id, TraceFlags::SAMPLED, false, TraceState::default()),
            parent_span_id: SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: "span".into(),
            start_time: SystemTime::UNIX_EPOCH,
            end_time: SystemTime::UNIX_EPOCH,
            attributes: vec![],
            dropped_attributes_count: 0,
            events: Default::default(),
            links: Default::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::default(),
        }
    }

    /// The value of the counter of dropped spans after `work`.
    fn counted(work: impl FnOnce()) -> String {
        let recorder = PrometheusBuilder::new().build_recorder();
        metrics::with_local_recorder(&recorder, work);
        let page = recorder.handle().render();
        page.lines().filter_map(|line| line.strip_prefix("tidings_telemetry_dropped_total ")).collect()
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let kept = KeptSpans::default();
        let queue = SpanQueue::new(kept.clone(), 2);
        // No export completes while the lock is held.
        let held = kept.0.lock().unwrap();
        assert_eq!(counted(|| (0..5).for_each(|_| queue.on_end(span()))), "3");
        drop(held);
        queue.force_flush().unwrap();
        assert_eq!(kept.take().len(), 2);
        assert_eq!(counted(|| queue.on_end(span())), "", "there is room again");
        queue.shutdown().unwrap();
        assert_eq!(kept.take().len(), 1, "the last span is flushed");
    }

    #[derive(Debug)]
    struct Refusing;

    impl SpanExporter for Refusing {
        async fn export(&self, _: Vec<SpanData>) -> OTelSdkResult {
            Err(OTelSdkError::InternalFailure("refused".to_owned()))
        }
    }

    #[test]
    fn spans_that_the_collector_does_not_get_are_counted() {
        let exporter = CountedExporter { exporter: Refusing, len: Arc::new(2.into()) };
        let export = || exporter.export(vec![span(), span()]).now_or_never().unwrap().unwrap_err();
        assert_eq!(counted(|| drop(export())), "2");
        assert_eq!(exporter.len.load(Relaxed), 0);
    }

    #[test]
    fn long_values_are_cut() {
        let long = "é".repeat(VALUE_BYTES_MAX);
        let attributes = vec![KeyValue::new("error", long.clone()), KeyValue::new("route", long)];
        let span = completed(SpanData { attributes, ..span() }).unwrap();
        assert_eq!(span.status, Status::error("é".repeat(VALUE_BYTES_MAX / 2)));
        assert_eq!(span.attributes, [KeyValue::new("route", "é".repeat(VALUE_BYTES_MAX / 2))]);
    }
}
