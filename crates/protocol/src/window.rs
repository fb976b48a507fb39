use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Counts events in a sliding window, up to a bound. Allocates nothing before the first event.
#[derive(Debug)]
pub(crate) struct SlidingWindow {
    events: VecDeque<Instant>,
    bound: usize,
    span: Duration,
}

impl SlidingWindow {
    pub(crate) fn new(bound: usize, span: Duration) -> Self {
        Self { events: VecDeque::new(), bound, span }
    }

    /// Records an event and returns whether `bound` events lie within `span`.
    pub(crate) fn hit(&mut self, now: Instant) -> bool {
        while self.events.front().is_some_and(|first| now.saturating_duration_since(*first) >= self.span) {
            self.events.pop_front();
        }
        if self.events.len() < self.bound {
            self.events.push_back(now);
        }
        self.events.len() >= self.bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_events_within_the_span_count() {
        let start = Instant::now();
        let mut window = SlidingWindow::new(3, Duration::from_secs(60));
        assert!(!window.hit(start));
        assert!(!window.hit(start + Duration::from_secs(30)));
        assert!(!window.hit(start + Duration::from_secs(60)), "the first has left the window");
        assert!(window.hit(start + Duration::from_secs(61)));
    }
}
