use std::fmt;
use std::time::Instant;

use domain::TraceContext;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::flood::Floods;

/// Lines of another format, each with the ids of the trace that it is in, and not too many of the same.
pub(super) struct Lines<F> {
    format: F,
    shape: Shape,
    floods: Floods,
}

#[derive(Clone, Copy)]
enum Shape {
    /// For people.
    Text,
    /// A JSON object on each line.
    Json,
}

impl<F> Lines<F> {
    pub(super) fn text(format: F) -> Self {
        Self { format, shape: Shape::Text, floods: Floods::default() }
    }

    pub(super) fn json(format: F) -> Self {
        Self { format, shape: Shape::Json, floods: Floods::default() }
    }
}

impl<S, N, F> FormatEvent<S, N> for Lines<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, ctx: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let Some(left_out) = self.floods.admit(event.metadata(), Instant::now()) else { return Ok(()) };
        let mut spans = ctx.event_scope().into_iter().flatten();
        let context = spans.find_map(|span| span.extensions().get::<TraceContext>().copied());
        let more = self.shape.more(context, left_out);
        if more.is_empty() {
            return self.format.format_event(ctx, writer, event);
        }
        let mut line = String::new();
        self.format.format_event(ctx, Writer::new(&mut line), event)?;
        match self.shape {
            Shape::Text => writeln!(writer, "{}{more}", line.trim_end_matches('\n')),
            Shape::Json => write!(writer, "{{{more}{}", line.trim_start_matches('{')),
        }
    }
}

impl Shape {
    /// What a line says besides what it is made of.
    fn more(self, context: Option<TraceContext>, left_out: u64) -> String {
        let mut more = String::new();
        let mut add = |name: &str, value: &dyn fmt::Display| {
            more += &match self {
                Self::Text => format!(" {name}={value}"),
                Self::Json => format!(r#""{name}":"{value}","#),
            };
        };
        if let Some(TraceContext { trace_id, span_id, .. }) = context {
            add("trace_id", &format_args!("{:032x}", u128::from_be_bytes(trace_id)));
            add("span_id", &format_args!("{:016x}", u64::from_be_bytes(span_id)));
        }
        if left_out > 0 {
            add("left_out_before", &left_out);
        }
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_its_trace_and_what_was_left_out_before_it() {
        let context = Some(TraceContext { trace_id: [1; 16], span_id: [2; 8], sampled: false });
        let text = " trace_id=01010101010101010101010101010101 span_id=0202020202020202 left_out_before=7";
        assert_eq!(Shape::Text.more(context, 7), text);
        assert_eq!(Shape::Json.more(None, 7), r#""left_out_before":"7","#);
        assert_eq!(Shape::Json.more(None, 0), "");
    }
}
