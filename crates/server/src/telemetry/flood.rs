use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use metrics::counter;
use ports::lock;
use tracing::callsite::Identifier;
use tracing::{Level, Metadata};

/// Most warnings and errors of one callsite that are logged within [`WINDOW`].
const LINES_MAX: u32 = 20;
const WINDOW: Duration = Duration::from_secs(10);

/// Keeps repeated failures from filling the log.
///
/// While an engine is unavailable, every send and every iteration of a loop fails at the same few callsites. The first
/// lines of each give the reason. The rest is counted, and the next logged line has the number of lines left out before
/// it.
#[derive(Default)]
pub(super) struct Floods(Mutex<HashMap<Identifier, RepeatWindow>>);

struct RepeatWindow {
    began: Instant,
    lines: u32,
    left_out: u64,
}

impl Floods {
    /// The number of lines of this callsite left out before this one; `None` if this one is left out too.
    pub(super) fn admit(&self, metadata: &Metadata<'_>, now: Instant) -> Option<u64> {
        if *metadata.level() > Level::WARN {
            return Some(0);
        }
        // There are as many windows as callsites.
        let mut windows = lock(&self.0);
        let window = windows.entry(metadata.callsite()).or_insert(RepeatWindow { began: now, lines: 0, left_out: 0 });
        if now.duration_since(window.began) >= WINDOW {
            (window.began, window.lines) = (now, 0);
        }
        if window.lines >= LINES_MAX {
            window.left_out += 1;
            counter!("tidings_log_lines_left_out_total").increment(1);
            return None;
        }
        window.lines += 1;
        Some(std::mem::take(&mut window.left_out))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracing::{Event, Subscriber, error, info};
    use tracing_subscriber::layer::{Context, SubscriberExt};
    use tracing_subscriber::{Layer, registry};

    use super::*;

    /// Records the decision for every line, at a time that the test sets.
    #[derive(Clone)]
    struct Judged {
        floods: Arc<Floods>,
        now: Arc<Mutex<Instant>>,
        outcomes: Arc<Mutex<Vec<Option<u64>>>>,
    }

    impl<S: Subscriber> Layer<S> for Judged {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let outcome = self.floods.admit(event.metadata(), *self.now.lock().unwrap());
            self.outcomes.lock().unwrap().push(outcome);
        }
    }

    #[test]
    fn a_callsite_that_repeats_itself_is_logged_and_then_counted() {
        let judged =
            Judged { floods: Arc::default(), now: Arc::new(Mutex::new(Instant::now())), outcomes: Arc::default() };
        let outcomes = || std::mem::take(&mut *judged.outcomes.lock().unwrap());
        tracing::subscriber::with_default(registry().with(judged.clone()), || {
            let fail = || error!("the store is unavailable");
            (0..LINES_MAX + 2).for_each(|_| fail());
            let heard = outcomes();
            assert!(heard[..LINES_MAX as usize].iter().all(|outcome| *outcome == Some(0)), "{heard:?}");
            assert_eq!(heard[LINES_MAX as usize..], [None, None]);
            error!("another callsite");
            assert_eq!(outcomes(), [Some(0)]);
            *judged.now.lock().unwrap() += WINDOW;
            (0..2).for_each(|_| fail());
            assert_eq!(outcomes(), [Some(2), Some(0)]);
            (0..2 * LINES_MAX).for_each(|_| info!("lines below warn are always logged"));
            assert!(outcomes().iter().all(|outcome| *outcome == Some(0)));
        });
    }
}
