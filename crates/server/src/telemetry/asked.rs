use tracing::Metadata;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing_subscriber::layer::{Context, Filter};

/// A filter of a layer that is asked about every span and event that it lets through, and not once for each place in the
/// code.
///
/// What the filters of layers decide waits in the thread until the span or event comes by. Where all of them say "always",
/// nobody asks them again, and what waits there may be the answer to somebody else's question: libraries ask whether they
/// need to log, and then log nothing. The span would be lost for its layer (tokio-rs/tracing#2519).
pub(super) struct Asked {
    lets_through: fn(&Metadata<'_>) -> bool,
    max_level: LevelFilter,
}

impl Asked {
    pub(super) fn new(lets_through: fn(&Metadata<'_>) -> bool, max_level: LevelFilter) -> Self {
        Self { lets_through, max_level }
    }
}

impl<S> Filter<S> for Asked {
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
