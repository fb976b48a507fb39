use std::time::Duration;

use tokio::time::Instant;

/// Most events that were read and not pushed yet. Beyond it, fanout stops reading the log.
const EVENTS_MAX: usize = 1024;
/// Longest time the consumer offset may lag behind unpushed events. After it, fanout stops reading until all are pushed,
/// which bounds the events that a crash repeats.
const OFFSET_LAG_MAX: Duration = Duration::from_secs(10);

/// Counts the events that were read and not pushed yet. The offset is committed when there are none.
#[derive(Default)]
pub(crate) struct Unpushed {
    len: usize,
    /// When the count last became positive.
    since: Option<Instant>,
}

impl Unpushed {
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn has_room(&self) -> bool {
        self.len < EVENTS_MAX && self.since.is_none_or(|since| since.elapsed() < OFFSET_LAG_MAX)
    }

    pub(crate) fn add(&mut self, events: usize) {
        self.len += events;
        if self.len > 0 {
            self.since.get_or_insert_with(Instant::now);
        }
    }

    pub(crate) fn remove(&mut self, events: usize) {
        self.len -= events;
        if self.len == 0 {
            self.since = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn reading_stops_when_unpushed_events_are_too_many_or_too_old() {
        let mut unpushed = Unpushed::default();
        unpushed.add(EVENTS_MAX - 1);
        assert!(unpushed.has_room());
        unpushed.add(1);
        assert!(!unpushed.has_room());
        unpushed.remove(1);
        assert!(unpushed.has_room());

        tokio::time::advance(OFFSET_LAG_MAX).await;
        while !unpushed.is_empty() {
            assert!(!unpushed.has_room(), "some events are unpushed all the time");
            unpushed.remove(1);
        }
        unpushed.add(1);
        assert!(unpushed.has_room());
    }
}
