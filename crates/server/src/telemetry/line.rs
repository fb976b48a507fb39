use std::fmt;
use std::time::Instant;

use domain::TraceContext;
use tracing::{Event, Subscriber, dispatcher};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::bridge;
use super::flood::Floods;

/// Wraps a line format: adds the ids of the enclosing trace, and limits repeated lines.
pub(super) struct LogLineFormat<F> {
    format: F,
    shape: LogLineShape,
    floods: Floods,
}

#[derive(Clone, Copy)]
enum LogLineShape {
    /// For people to read.
    Text,
    /// A JSON object on each line.
    Json,
}

impl<F> LogLineFormat<F> {
    pub(super) fn text(format: F) -> Self {
        Self { format, shape: LogLineShape::Text, floods: Floods::default() }
    }

    pub(super) fn json(format: F) -> Self {
        Self { format, shape: LogLineShape::Json, floods: Floods::default() }
    }
}

impl<S, N, F> FormatEvent<S, N> for LogLineFormat<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, ctx: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let Some(left_out) = self.floods.admit(event.metadata(), Instant::now()) else { return Ok(()) };
        let context = dispatcher::get_default(|dispatch| {
            ctx.event_scope()?.find_map(|span| bridge::context(&span.id(), dispatch))
        });
        let more = self.shape.more(context, left_out);
        if more.is_empty() {
            return self.format.format_event(ctx, writer, event);
        }
        let mut line = String::new();
        self.format.format_event(ctx, Writer::new(&mut line), event)?;
        match self.shape {
            LogLineShape::Text => writeln!(writer, "{}{more}", line.trim_end_matches('\n')),
            LogLineShape::Json => write!(writer, "{{{more}{}", line.trim_start_matches('{')),
        }
    }
}

impl LogLineShape {
    /// The fields added to a line.
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
    fn a_line_has_its_trace_and_the_number_of_lines_left_out_before_it() {
        let context = Some(TraceContext { trace_id: [1; 16], span_id: [2; 8], sampled: false });
        let text = " trace_id=01010101010101010101010101010101 span_id=0202020202020202 left_out_before=7";
        assert_eq!(LogLineShape::Text.more(context, 7), text);
        assert_eq!(LogLineShape::Json.more(None, 7), r#""left_out_before":"7","#);
        assert_eq!(LogLineShape::Json.more(None, 0), "");
    }
}
