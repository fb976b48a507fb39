use domain::TraceContext;
use opentelemetry::trace::{
    Link, SpanBuilder, SpanContext, SpanId, SpanKind, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer,
    TracerProvider,
};
use opentelemetry::{Context, InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{
    Sampler, SamplingDecision, SamplingResult, SdkTracer, SdkTracerProvider, ShouldSample, Span,
};
use ports::trace::TARGET;
use tracing::level_filters::LevelFilter;
use tracing::span::Id;
use tracing::{Dispatch, Level, Metadata};
use tracing_opentelemetry::{OpenTelemetryLayer, get_otel_context};
use tracing_subscriber::Registry;
use tracing_subscriber::registry::LookupSpan;

use super::uncached_filter::UncachedFilter;

/// The layer that turns spans of planes and adapters into OpenTelemetry spans of `provider`.
pub(super) fn layer(provider: &SdkTracerProvider) -> OpenTelemetryLayer<Registry, PropagatingTracer> {
    let scope = InstrumentationScope::builder("tidings").with_version(env!("CARGO_PKG_VERSION")).build();
    tracing_opentelemetry::layer()
        .with_tracer(PropagatingTracer(provider.tracer_with_scope(scope)))
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        // The current span of `tracing` is the only source of the context.
        .with_context_activation(false)
        // The span queue turns fields and events into the status of a span.
        .with_error_events_to_status(false)
        .with_error_events_to_exceptions(false)
        .with_error_fields_to_exceptions(false)
        .with_error_records_to_exceptions(false)
}

/// The filter of the layer: our spans, and errors, which mark their enclosing span as failed.
pub(super) fn filter() -> UncachedFilter {
    let is_seen = |metadata: &Metadata<'_>| {
        if metadata.is_span() { metadata.target() == TARGET } else { *metadata.level() == Level::ERROR }
    };
    UncachedFilter::new(is_seen, LevelFilter::DEBUG)
}

/// The trace context of a span, or of its closest ancestor in a trace: the innermost span may be a library's.
pub(super) fn read(span: &tracing::Span) -> Option<TraceContext> {
    let found = span.with_subscriber(|(id, dispatch)| {
        let registry = dispatch.downcast_ref::<Registry>()?;
        registry.span(id)?.scope().find_map(|span| context(&span.id(), dispatch))
    });
    found.flatten()
}

/// The trace context of this span, if it is in a trace.
pub(super) fn context(id: &Id, dispatch: &Dispatch) -> Option<TraceContext> {
    let context = get_otel_context(id, dispatch)?;
    let span = context.span();
    let context = span.span_context();
    context.is_valid().then(|| TraceContext {
        trace_id: context.trace_id().to_bytes(),
        span_id: context.span_id().to_bytes(),
        sampled: context.is_sampled(),
    })
}

/// Starts a span with a field `traceparent` under the span that the field names, which may be in another process.
#[derive(Clone, Debug)]
pub(super) struct PropagatingTracer(SdkTracer);

impl Tracer for PropagatingTracer {
    type Span = Span;

    fn build_with_context(&self, mut builder: SpanBuilder, parent: &Context) -> Span {
        let remote = builder.attributes.as_mut().and_then(|attributes| {
            let at = attributes.iter().position(|attribute| attribute.key.as_str() == TraceContext::HEADER)?;
            attributes.remove(at).value.as_str().parse().ok()
        });
        match remote {
            Some(TraceContext { trace_id, span_id, sampled }) => {
                let flags = TraceFlags::default().with_sampled(sampled);
                let (trace_id, span_id) = (TraceId::from_bytes(trace_id), SpanId::from_bytes(span_id));
                let remote = SpanContext::new(trace_id, span_id, flags, true, TraceState::default());
                self.0.build_with_context(builder, &Context::new().with_remote_span_context(remote))
            }
            None => self.0.build_with_context(builder, parent),
        }
    }
}

/// Samples a share of traces, by the decision of their root, and records the spans of the others too: a failed span is
/// exported in any case.
#[derive(Clone, Debug)]
pub(super) struct RecordingSampler(Sampler);

impl RecordingSampler {
    pub(super) fn new(ratio: f64) -> Self {
        Self(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(ratio))))
    }
}

impl ShouldSample for RecordingSampler {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace_id: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        let result = self.0.should_sample(parent, trace_id, name, kind, attributes, links);
        match result.decision {
            SamplingDecision::Drop => SamplingResult { decision: SamplingDecision::RecordOnly, ..result },
            _ => result,
        }
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::Status;
    use opentelemetry_sdk::trace::SpanData;
    use ports::trace;
    use tracing::dispatcher::get_default;
    use tracing::field::Empty;
    use tracing::{debug_span, error, info_span, trace_span};
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::{Layer, registry};

    use super::*;
    use crate::telemetry::span_queue::{KeptSpans, SpanQueue};

    /// Runs `work` with a sampling ratio, and returns the exported spans.
    fn kept(ratio: f64, work: impl FnOnce()) -> Vec<SpanData> {
        trace::follow(read);
        let kept = KeptSpans::default();
        let queue = SpanQueue::new(kept.clone(), 16);
        let provider =
            SdkTracerProvider::builder().with_sampler(RecordingSampler::new(ratio)).with_span_processor(queue).build();
        tracing::subscriber::with_default(registry().with(layer(&provider).with_filter(filter())), work);
        provider.shutdown().unwrap();
        kept.take()
    }

    fn names(spans: &[SpanData]) -> Vec<&str> {
        spans.iter().map(|span| &*span.name).collect()
    }

    fn parent(sampled: bool) -> TraceContext {
        TraceContext { trace_id: [7; 16], span_id: [8; 8], sampled }
    }

    #[test]
    fn a_trace_goes_through_spans_and_headers() {
        let spans = kept(0.0, || {
            let outer = debug_span!(target: TARGET, "outer", traceparent = %parent(true), otel.kind = "server");
            let inner = outer.in_scope(|| debug_span!(target: TARGET, "inner", chat_id = "chat_1", count = 3));
            let elsewhere = trace::context(&inner).unwrap();
            drop((inner, outer));
            let next = debug_span!(
                target: TARGET, parent: None, "next", otel.name = "after", traceparent = %elsewhere, others = Empty
            );
            next.record("others", true);
        });
        assert_eq!(names(&spans), ["inner", "outer", "after"]);
        let [inner, outer, next] = &spans[..] else { unreachable!() };
        let is_of_trace =
            |span: &SpanData| span.span_context.trace_id().to_bytes() == [7; 16] && span.span_context.is_sampled();
        assert!(spans.iter().all(is_of_trace), "{spans:?}");
        assert_eq!((outer.parent_span_id.to_bytes(), &outer.span_kind), ([8; 8], &SpanKind::Server));
        assert_eq!(
            (inner.parent_span_id, next.parent_span_id),
            (outer.span_context.span_id(), inner.span_context.span_id())
        );
        assert_eq!(inner.attributes, [KeyValue::new("chat_id", "chat_1"), KeyValue::new("count", 3)]);
        assert_eq!(next.attributes, [KeyValue::new("others", true)]);
        assert!(outer.end_time >= outer.start_time);
        assert_eq!(outer.instrumentation_scope.name(), "tidings");
    }

    #[test]
    fn a_header_wins_over_the_enclosing_span_and_an_invalid_one_is_ignored() {
        let spans = kept(1.0, || {
            let outer = debug_span!(target: TARGET, "outer").entered();
            drop(debug_span!(target: TARGET, "remote", traceparent = %parent(true)));
            drop(debug_span!(target: TARGET, "local", traceparent = "nonsense"));
            drop(outer);
        });
        assert_eq!(names(&spans), ["remote", "local", "outer"]);
        let [remote, local, outer] = &spans[..] else { unreachable!() };
        assert_eq!((remote.parent_span_id.to_bytes(), remote.parent_span_is_remote), ([8; 8], true));
        assert_eq!((local.parent_span_id, &local.attributes[..]), (outer.span_context.span_id(), &[][..]));
    }

    #[test]
    fn a_share_of_traces_is_sampled_and_descendants_follow() {
        let work = || drop(debug_span!(target: TARGET, "root"));
        assert_eq!(names(&kept(1.0, work)), ["root"]);
        assert_eq!(names(&kept(0.0, work)), [""; 0]);
        let follower = |sampled| move || drop(debug_span!(target: TARGET, "follower", traceparent = %parent(sampled)));
        assert_eq!(names(&kept(0.0, follower(true))), ["follower"]);
        assert_eq!(names(&kept(1.0, follower(false))), [""; 0]);
    }

    #[test]
    fn a_failed_span_is_kept_without_sampling() {
        let spans = kept(0.0, || {
            let _fine = debug_span!(target: TARGET, "fine").entered();
            let told = debug_span!(target: TARGET, "told", error = Empty);
            told.record("error", "the store is unavailable");
            let loud = debug_span!(target: TARGET, "loud");
            loud.in_scope(|| {
                error!(secret = "hush", "a command could not be done");
                error!("and another one");
            });
        });
        assert_eq!(names(&spans), ["loud", "told"]);
        assert_eq!(
            [&spans[0].status, &spans[1].status],
            [&Status::error("a command could not be done"), &Status::error("the store is unavailable")]
        );
        assert!(spans.iter().all(|span| !span.span_context.is_sampled()), "other processes do not keep them");
        assert!(!format!("{spans:?}").contains("hush"), "{spans:?}");
    }

    #[test]
    fn a_span_ends_with_its_last_handle() {
        let spans = kept(1.0, || {
            let outer = debug_span!(target: TARGET, "outer");
            outer.in_scope(|| ());
            drop(debug_span!(target: TARGET, parent: &outer, "inner"));
        });
        assert_eq!(names(&spans), ["inner", "outer"]);
        assert!(spans[1].end_time >= spans[0].end_time, "{spans:?}");
    }

    #[test]
    fn spans_of_libraries_are_in_no_trace() {
        let spans = kept(1.0, || {
            let outer = debug_span!(target: TARGET, "ours").entered();
            let _others = info_span!("theirs").entered();
            assert_eq!(trace::current(), trace::context(&outer));
            drop(debug_span!(target: TARGET, "inner"));
        });
        assert_eq!(names(&spans), ["inner", "ours"]);
        assert_eq!(spans[0].parent_span_id, spans[1].span_context.span_id());
    }

    #[test]
    fn no_span_is_lost_after_a_library_checks_whether_to_log() {
        let theirs = tracing::subscriber::with_default(registry(), || trace_span!("theirs"));
        let spans = kept(1.0, || {
            for _ in 0..3 {
                get_default(|subscriber| subscriber.enabled(theirs.metadata().unwrap()));
                drop(debug_span!(target: TARGET, "ours"));
            }
        });
        assert_eq!(names(&spans), ["ours"; 3]);
    }

    #[test]
    fn a_span_links_its_predecessor() {
        let spans = kept(1.0, || {
            let [first, second] = [(); 2].map(|()| debug_span!(target: TARGET, parent: None, "commit"));
            second.follows_from(&first);
            drop(first);
            drop(second);
        });
        let links: Vec<_> = spans[1].links.iter().map(|link| &link.span_context).collect();
        assert_eq!(links, [&spans[0].span_context]);
    }
}
