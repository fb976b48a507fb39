use std::fmt;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use domain::TraceContext;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use ports::trace::TARGET;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};
use tracing_subscriber::{Layer, Registry};

use super::asked::Asked;
use super::exporter::{Queue, attribute};

/// Bytes of the value of an attribute, at the most.
const VALUE_BYTES_MAX: usize = 1024;
/// Links of a span, at the most: as many as there are sends in a batch.
const LINKS_MAX: usize = 128;

/// What a layer of traces looks at: our spans, and errors, which make the span that they happen in a failed one.
pub(super) fn filter() -> Asked {
    let is_seen = |metadata: &Metadata<'_>| {
        if metadata.is_span() { metadata.target() == TARGET } else { *metadata.level() == Level::ERROR }
    };
    Asked::new(is_seen, LevelFilter::DEBUG)
}

/// Where a span stands in its trace, which the layer has written on it.
pub(super) fn read(span: &tracing::Span) -> Option<TraceContext> {
    let found = span.with_subscriber(|(id, dispatch)| {
        let registry = dispatch.downcast_ref::<Registry>()?;
        // Around the work may be a span of a library, which is in no trace.
        registry.span(id)?.scope().find_map(|span| context(&span))
    });
    found.flatten()
}

/// Makes spans of planes and adapters into spans of OpenTelemetry.
///
/// Whoever begins a trace decides whether it is kept, for a share of all; everybody else follows. A span that fails is kept
/// whatever was decided. So every span is gathered as long as it lasts, and most are thrown away at their end.
pub(super) struct TraceLayer {
    queue: Queue,
    /// A trace whose id ends below this is kept.
    threshold: u64,
}

impl TraceLayer {
    pub(super) fn new(queue: Queue, ratio: f64) -> Self {
        // The conversion saturates, so all of them are all but one in 2^64.
        Self { queue, threshold: (ratio * u64::MAX as f64) as u64 }
    }

    fn begin(&self, parent: Option<TraceContext>) -> TraceContext {
        let (trace_id, sampled) = match parent {
            Some(parent) => (parent.trace_id, parent.sampled),
            None => {
                let trace_id = rand::random_range(1..=u128::MAX);
                // The lower half, as others decide too.
                (trace_id.to_be_bytes(), (trace_id as u64) < self.threshold)
            }
        };
        TraceContext { trace_id, span_id: rand::random_range(1..=u64::MAX).to_be_bytes(), sampled }
    }
}

/// A span that has not ended.
struct Open {
    span: Span,
    begun: Instant,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TraceLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let Some(span) = ctx.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let parent = fields.parent.or_else(|| span.parent().and_then(|parent| context(&parent)));
        let own = self.begin(parent);
        let mut open = Open {
            span: Span {
                trace_id: own.trace_id.to_vec(),
                span_id: own.span_id.to_vec(),
                parent_span_id: parent.map(|parent| parent.span_id.to_vec()).unwrap_or_default(),
                flags: own.sampled.into(),
                name: attributes.metadata().name().to_owned(),
                kind: SpanKind::Internal.into(),
                start_time_unix_nano: unix_nanos(),
                ..Span::default()
            },
            begun: Instant::now(),
        };
        fields.write(&mut open.span);
        let mut extensions = span.extensions_mut();
        extensions.insert(own);
        extensions.insert(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, ctx: Context<'_, S>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        if let Some(span) = ctx.span(id)
            && let Some(open) = span.extensions_mut().get_mut::<Open>()
        {
            fields.write(&mut open.span);
        }
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, ctx: Context<'_, S>) {
        let Some(followed) = ctx.span(follows).and_then(|span| context(&span)) else { return };
        if let Some(span) = ctx.span(id)
            && let Some(open) = span.extensions_mut().get_mut::<Open>()
            && open.span.links.len() < LINKS_MAX
        {
            let (trace_id, span_id) = (followed.trace_id.to_vec(), followed.span_id.to_vec());
            open.span.links.push(Link { trace_id, span_id, flags: followed.sampled.into(), ..Link::default() });
        }
    }

    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        let mut said = Said::default();
        event.record(&mut said);
        if let Some(span) = ctx.event_span(event)
            && let Some(open) = span.extensions_mut().get_mut::<Open>()
        {
            fail(&mut open.span, said.message);
        }
    }

    fn on_close(&self, id: Id, ctx: Context<'_, S>) {
        let Some(Open { mut span, begun }) = ctx.span(&id).and_then(|span| span.extensions_mut().remove::<Open>())
        else {
            return;
        };
        if span.flags & 1 == 0 && span.status.is_none() {
            return;
        }
        let lasted = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        span.end_time_unix_nano = span.start_time_unix_nano.saturating_add(lasted);
        self.queue.put(span);
    }
}

/// Where a span stands in its trace.
fn context<S: for<'a> LookupSpan<'a>>(span: &SpanRef<'_, S>) -> Option<TraceContext> {
    span.extensions().get::<TraceContext>().copied()
}

/// The first failure of a span is what made it one.
fn fail(span: &mut Span, message: String) {
    span.status.get_or_insert(Status { code: StatusCode::Error.into(), message });
}

pub(super) fn unix_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The fields of a span. Some of them are about the span itself.
#[derive(Default)]
struct Fields {
    parent: Option<TraceContext>,
    name: Option<String>,
    kind: Option<SpanKind>,
    error: Option<String>,
    attributes: Vec<(&'static str, Value)>,
}

impl Fields {
    fn write(self, span: &mut Span) {
        span.attributes.extend(self.attributes.into_iter().map(|(name, value)| attribute(name, value)));
        if let Some(name) = self.name {
            span.name = name;
        }
        if let Some(kind) = self.kind {
            span.kind = kind.into();
        }
        if let Some(error) = self.error {
            fail(span, error);
        }
    }

    fn text(&mut self, field: &Field, text: &str) {
        match field.name() {
            TraceContext::HEADER => self.parent = text.parse().ok(),
            "otel.name" => self.name = Some(text.to_owned()),
            "otel.kind" => {
                self.kind = match text {
                    "server" => Some(SpanKind::Server),
                    "client" => Some(SpanKind::Client),
                    "producer" => Some(SpanKind::Producer),
                    "consumer" => Some(SpanKind::Consumer),
                    _ => None,
                };
            }
            "error" => self.error = Some(bounded(text)),
            name => self.attributes.push((name, Value::StringValue(bounded(text)))),
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.attributes.push((field.name(), Value::IntValue(value)));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.record_i64(field, i64::try_from(value).unwrap_or(i64::MAX));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.attributes.push((field.name(), Value::BoolValue(value)));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, &format!("{value:?}"));
    }
}

/// What an event says, in its fixed words.
#[derive(Default)]
struct Said {
    message: String,
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = bounded(&format!("{value:?}"));
        }
    }
}

fn bounded(text: &str) -> String {
    text[..text.floor_char_boundary(VALUE_BYTES_MAX)].to_owned()
}

#[cfg(test)]
mod tests {
    use ports::trace;
    use tracing::dispatcher::get_default;
    use tracing::field::Empty;
    use tracing::{debug_span, error, info_span, trace_span};
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::registry;

    use super::*;
    use crate::telemetry::exporter::Received;

    /// Has work done with a share of the traces kept, and returns the spans that are.
    fn kept(ratio: f64, work: impl FnOnce()) -> Vec<Span> {
        trace::follow(read);
        let (queue, mut received) = Received::queue(16);
        let layer = TraceLayer::new(queue, ratio).with_filter(filter());
        tracing::subscriber::with_default(registry().with(layer), work);
        received.all()
    }

    fn names(spans: &[Span]) -> Vec<&str> {
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
        assert!(spans.iter().all(|span| span.trace_id == [7; 16] && span.flags == 1), "{spans:?}");
        assert_eq!((&outer.parent_span_id, outer.kind), (&vec![8; 8], SpanKind::Server.into()));
        assert_eq!((&inner.parent_span_id, &next.parent_span_id), (&outer.span_id, &inner.span_id));
        let inners =
            [attribute("chat_id", Value::StringValue("chat_1".into())), attribute("count", Value::IntValue(3))];
        assert_eq!(inner.attributes, inners);
        assert_eq!(next.attributes, [attribute("others", Value::BoolValue(true))]);
        assert!(outer.end_time_unix_nano >= outer.start_time_unix_nano);
    }

    #[test]
    fn a_share_of_traces_is_kept_and_whoever_follows_follows() {
        let work = || drop(debug_span!(target: TARGET, "root"));
        assert_eq!(names(&kept(1.0, work)), ["root"]);
        assert_eq!(names(&kept(0.0, work)), [""; 0]);
        let follower = |sampled| move || drop(debug_span!(target: TARGET, "follower", traceparent = %parent(sampled)));
        assert_eq!(names(&kept(0.0, follower(true))), ["follower"]);
        assert_eq!(names(&kept(1.0, follower(false))), [""; 0]);
    }

    #[test]
    fn what_fails_is_kept_whatever_was_decided() {
        let spans = kept(0.0, || {
            let _fine = debug_span!(target: TARGET, "fine").entered();
            let told = debug_span!(target: TARGET, "told", error = Empty);
            told.record("error", "the store is away");
            let loud = debug_span!(target: TARGET, "loud");
            loud.in_scope(|| error!(secret = "hush", "a command could not be done"));
        });
        let said = |span: &Span| span.status.clone().unwrap().message;
        assert_eq!(names(&spans), ["loud", "told"]);
        assert_eq!(
            (said(&spans[0]), said(&spans[1])),
            ("a command could not be done".into(), "the store is away".into())
        );
        assert!(spans.iter().all(|span| span.flags == 0), "nobody else is asked to keep them");
    }

    #[test]
    fn spans_of_others_are_in_no_trace() {
        let spans = kept(1.0, || {
            let outer = debug_span!(target: TARGET, "ours").entered();
            let _others = info_span!("theirs").entered();
            assert_eq!(trace::current(), trace::context(&outer));
            drop(debug_span!(target: TARGET, "inner"));
        });
        assert_eq!(names(&spans), ["inner", "ours"]);
        assert_eq!(spans[0].parent_span_id, spans[1].span_id);
    }

    #[test]
    fn no_span_is_lost_behind_a_library_that_asks_whether_it_is_to_log() {
        let spans = kept(1.0, || {
            let theirs = trace_span!("theirs");
            for _ in 0..3 {
                get_default(|subscriber| subscriber.enabled(theirs.metadata().unwrap()));
                drop(debug_span!(target: TARGET, "ours"));
            }
        });
        assert_eq!(names(&spans), ["ours"; 3]);
    }

    #[test]
    fn a_span_links_what_it_follows() {
        let spans = kept(1.0, || {
            let [first, second] = [(); 2].map(|()| debug_span!(target: TARGET, parent: None, "commit"));
            second.follows_from(&first);
            drop(first);
            drop(second);
        });
        assert_eq!(spans[1].links.len(), 1);
        assert_eq!((&spans[1].links[0].trace_id, &spans[1].links[0].span_id), (&spans[0].trace_id, &spans[0].span_id));
    }
}
