//! Conventions for trace spans, and the propagation of trace context between planes and adapters.
//!
//! A trace span is a span of the crate `tracing` with the target [`TARGET`]. Without a subscriber for this target, a
//! span costs one atomic load. The field `traceparent` makes a span the child of a span in another process or task, and
//! the field `error` is the reason of its failure. Numbers are fields of type `i64`: others are exported as text.
//!
//! Inside a process, the current span carries the context. Between processes, a header carries it: of a request, of a
//! call, or of a log record. No span is open between the commit of an event and its pushes, so the context is
//! [stored](remember) by event id in the meantime.

use std::collections::{HashMap, VecDeque};
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock};

use domain::{EventId, TraceContext};
use tracing::Span;

use crate::lock;

/// The target of every span that belongs to a trace.
pub const TARGET: &str = "tidings::trace";

/// Maximum number of events with a stored trace context. The oldest is evicted; its later spans are in no trace.
const EVENTS_MAX: usize = 8192;

/// Reads the trace context of a span.
type ReadSpanContext = fn(&Span) -> Option<TraceContext>;

/// Set once per process, like the global subscriber.
static READ: OnceLock<ReadSpanContext> = OnceLock::new();

/// Turns tracing on. The subscriber provides `read`, the function that reads the trace context of a span. Only the
/// first call has an effect.
pub fn follow(read: ReadSpanContext) {
    READ.get_or_init(|| read);
}

/// Whether tracing is on.
pub fn is_on() -> bool {
    READ.get().is_some()
}

/// The trace context of a span, if it is in a trace.
pub fn context(span: &Span) -> Option<TraceContext> {
    READ.get().and_then(|read| read(span))
}

/// The current span, to be the parent of work in another task; none if tracing is off.
pub fn current_span() -> Span {
    if is_on() { Span::current() } else { Span::none() }
}

/// The trace context of the current span, if it is in a trace.
pub fn current() -> Option<TraceContext> {
    if is_on() { context(&Span::current()) } else { None }
}

/// Stores the trace context of an event for the component that processes it next.
pub fn remember(event_id: EventId, context: TraceContext) {
    let mut events = events();
    if events.contexts.insert(event_id, context).is_some() {
        return;
    }
    events.order.push_back(event_id);
    if events.order.len() > EVENTS_MAX
        && let Some(oldest) = events.order.pop_front()
    {
        events.contexts.remove(&oldest);
    }
}

/// The trace context of an event, if this process has stored it.
pub fn of(event_id: EventId) -> Option<TraceContext> {
    if is_on() { events().contexts.get(&event_id).copied() } else { None }
}

/// The stored contexts: one table per process, like the global subscriber.
static EVENTS: LazyLock<Mutex<EventContexts>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct EventContexts {
    contexts: HashMap<EventId, TraceContext>,
    /// Insertion order, oldest first.
    order: VecDeque<EventId>,
}

fn events() -> MutexGuard<'static, EventContexts> {
    lock(&EVENTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event_id(n: u128) -> EventId {
        EventId::from_bytes(n.to_be_bytes())
    }

    #[test]
    fn contexts_are_stored_only_while_tracing_is_on_and_the_oldest_is_evicted() {
        const GIVEN: TraceContext = TraceContext { trace_id: [1; 16], span_id: [2; 8], sampled: true };
        remember(event_id(0), GIVEN);
        assert_eq!((current(), of(event_id(0))), (None, None), "tracing is off");
        follow(|_| Some(GIVEN));
        assert_eq!((current(), of(event_id(0))), (Some(GIVEN), Some(GIVEN)));
        for n in 1..=EVENTS_MAX as u128 {
            remember(event_id(n), GIVEN);
            remember(event_id(n), GIVEN);
        }
        let known = [0, 1, EVENTS_MAX as u128].map(|n| of(event_id(n)).is_some());
        assert_eq!(known, [false, true, true]);
    }
}
