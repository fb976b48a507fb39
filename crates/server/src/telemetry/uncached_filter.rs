use tracing::Metadata;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing_subscriber::layer::{Context, Filter};

/// A layer filter that is evaluated for every span and event that it lets through, not once for each callsite.
///
/// A filter's decision is stored per thread until the span or event is recorded. If all filters return
/// `Interest::always`, they are not evaluated again, and the stored decision may belong to another callsite: libraries
/// check whether a line would be logged, and then log nothing. The layer would drop the span (tokio-rs/tracing#2519).
pub(super) struct UncachedFilter {
    lets_through: fn(&Metadata<'_>) -> bool,
    max_level: LevelFilter,
}

impl UncachedFilter {
    pub(super) fn new(lets_through: fn(&Metadata<'_>) -> bool, max_level: LevelFilter) -> Self {
        Self { lets_through, max_level }
    }
}

impl<S> Filter<S> for UncachedFilter {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        (self.lets_through)(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if (self.lets_through)(metadata) { Interest::sometimes() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.max_level)
    }
}
