//! What spans of planes and adapters have in common, and how a trace gets from one to the next.
//!
//! A span of a trace is a span of the crate `tracing` with the target [`TARGET`]. Where nobody subscribes to those, one costs
//! the look at a number. A field `traceparent` makes a span go on where another process, or another task, has left off.
//!
//! In a process the context travels with the current span. It leaves it in a header: of a request, a call, a record of the
//! log. What happens to an event between its commit and its pushes has no span around it, so the context is
//! [remembered](remember) by the event's id meanwhile.

use std::collections::{HashMap, VecDeque};
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

use domain::{EventId, TraceContext};
use tracing::Span;

/// The target of every span that belongs to a trace.
pub const TARGET: &str = "tidings::trace";

/// Events whose traces are remembered. The oldest is forgotten for the next: it is in no trace then.
const EVENTS_MAX: usize = 8192;

/// Says where a span stands in its trace.
type Read = fn(&Span) -> Option<TraceContext>;

/// Set once for the process, as the subscriber of its spans is.
static READ: OnceLock<Read> = OnceLock::new();

/// Has traces followed from now on. Whoever subscribes to the spans of the process knows how to read where one stands; the
/// first to say so is believed.
pub fn follow(read: Read) {
    READ.get_or_init(|| read);
}

/// Whether traces are followed.
pub fn is_on() -> bool {
    READ.get().is_some()
}

/// Where a span stands in its trace, if it is in one.
pub fn context(span: &Span) -> Option<TraceContext> {
    READ.get().and_then(|read| read(span))
}

/// The span of the present work, for whoever goes on with it elsewhere; none if traces are not followed.
pub fn current_span() -> Span {
    if is_on() { Span::current() } else { Span::none() }
}

/// Where the present work stands in its trace, if it is in one.
pub fn current() -> Option<TraceContext> {
    if is_on() { context(&Span::current()) } else { None }
}

/// Remembers which trace an event belongs to, for whoever processes it next.
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

/// The trace that an event belongs to, if it is known here.
pub fn of(event_id: EventId) -> Option<TraceContext> {
    if is_on() { events().contexts.get(&event_id).copied() } else { None }
}

/// What is remembered. One for the process, as the subscriber of its spans is.
static EVENTS: LazyLock<Mutex<Events>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Events {
    contexts: HashMap<EventId, TraceContext>,
    /// The oldest first.
    order: VecDeque<EventId>,
}

fn events() -> MutexGuard<'static, Events> {
    // Nothing that runs under the lock panics halfway.
    EVENTS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event_id(n: u128) -> EventId {
        EventId::from_bytes(n.to_be_bytes())
    }

    #[test]
    fn nothing_is_known_of_traces_until_they_are_followed_and_the_oldest_event_is_forgotten_first() {
        const GIVEN: TraceContext = TraceContext { trace_id: [1; 16], span_id: [2; 8], sampled: true };
        remember(event_id(0), GIVEN);
        assert_eq!((current(), of(event_id(0))), (None, None), "nobody follows traces");
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
