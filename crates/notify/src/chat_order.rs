use std::collections::BTreeMap;
use std::time::Duration;

use domain::{ChatId, EventNumber};
use metrics::counter;
use ports::LogOrder;
use quick_cache::unsync::Cache;
use tokio::time::Instant;

use crate::lanes::WebhookEvent;

/// How long an event waits for its predecessor, which a relay publishes within about 3 s of its commit.
const HOLD: Duration = Duration::from_secs(5);
/// The same for the first event of a chat after a start: its predecessor was usually delivered before.
const FIRST_HOLD: Duration = Duration::from_secs(1);
/// Most held events. If there are more, the chat whose time is up first goes on without its missing event.
const HELD_MAX: usize = 1024;
/// Chats with a known last event.
const CHATS_MAX: usize = 100_000;

/// Longest time without a moment at which no event is held: the consumer commits its offset only then. After it, all held
/// events are released.
const HOLDING_MAX: Duration = Duration::from_secs(60);

/// Puts the events of each chat into the order of their numbers.
///
/// A log in commit order needs nothing. If a log keeps the order for each kind of event only, an event is held until its
/// predecessor was released, or its time is up. Then the chat goes on from this event: the predecessor had expired before
/// it was published, was unreadable, or comes too late. An event without a number, a repeated one and a late one are
/// released at once.
pub(crate) struct ChatOrder {
    log: LogOrder,
    /// The highest released number of each chat.
    released: Cache<ChatId, EventNumber>,
    held: BTreeMap<ChatId, BTreeMap<EventNumber, HeldEvent>>,
    len: usize,
    /// Since when at least one event is held.
    holding_since: Option<Instant>,
}

struct HeldEvent {
    event: WebhookEvent,
    until: Instant,
}

impl ChatOrder {
    pub(crate) fn new(log: LogOrder) -> Self {
        Self { log, released: Cache::new(CHATS_MAX), held: BTreeMap::new(), len: 0, holding_since: None }
    }

    /// Adds events of the log, and returns those that are released now.
    pub(crate) fn add(&mut self, events: Vec<WebhookEvent>, now: Instant) -> Vec<WebhookEvent> {
        if self.log == LogOrder::Commit {
            return events;
        }
        let mut out = vec![];
        for webhook_event in events {
            let chat_id = webhook_event.event.body.chat_id();
            let Some(number) = webhook_event.event.event_number else {
                out.push(webhook_event);
                continue;
            };
            let released = self.released.get(&chat_id).copied();
            if number <= released.unwrap_or(EventNumber(0)).next() {
                self.release(chat_id, number, webhook_event, &mut out);
                continue;
            }
            let hold = if released.is_some() { HOLD } else { FIRST_HOLD };
            let held = HeldEvent { event: webhook_event, until: now + hold };
            let before = self.held.entry(chat_id).or_default().insert(number, held);
            self.len += usize::from(before.is_none());
            if self.len > HELD_MAX
                && let Some(chat_id) = self.first_due()
            {
                self.skip(chat_id, &mut out);
            }
        }
        let since = *self.holding_since.get_or_insert(now);
        if self.len == 0 {
            self.holding_since = None;
        } else if now - since > HOLDING_MAX {
            self.release_all(&mut out);
        }
        out
    }

    /// Releases events that have waited long enough.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<WebhookEvent> {
        let mut out = vec![];
        while self.deadline().is_some_and(|deadline| deadline <= now)
            && let Some(chat_id) = self.first_due()
        {
            self.skip(chat_id, &mut out);
        }
        if self.len == 0 {
            self.holding_since = None;
        }
        out
    }

    /// Releases all held events, each chat in its order.
    fn release_all(&mut self, out: &mut Vec<WebhookEvent>) {
        while let Some((chat_id, _)) = self.held.first_key_value() {
            self.skip(*chat_id, out);
        }
        self.holding_since = None;
    }

    /// When [`expire`](Self::expire) has something to release; `None` if no event is held.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.held.values().filter_map(first_until).min()
    }

    /// Releases an event and its direct successors.
    fn release(&mut self, chat_id: ChatId, mut number: EventNumber, event: WebhookEvent, out: &mut Vec<WebhookEvent>) {
        out.push(event);
        if let Some(released) = self.released.get(&chat_id) {
            number = number.max(*released);
        }
        if let Some(held) = self.held.get_mut(&chat_id) {
            while let Some(next) = held.remove(&number.next()) {
                number = number.next();
                self.len -= 1;
                out.push(next.event);
            }
            if held.is_empty() {
                self.held.remove(&chat_id);
            }
        }
        self.released.insert(chat_id, number);
    }

    /// Releases the first held event of a chat without its predecessor.
    fn skip(&mut self, chat_id: ChatId, out: &mut Vec<WebhookEvent>) {
        let Some((number, held)) = self.held.get_mut(&chat_id).and_then(BTreeMap::pop_first) else { return };
        self.len -= 1;
        if self.released.get(&chat_id).is_some() {
            counter!("tidings_webhook_gaps_total").increment(1);
        }
        self.release(chat_id, number, held.event, out);
    }

    fn first_due(&self) -> Option<ChatId> {
        let waiting = self.held.iter().filter_map(|(chat_id, held)| Some((first_until(held)?, *chat_id)));
        waiting.min().map(|(_, chat_id)| chat_id)
    }
}

/// When the first event of a chat is released. Later ones wait for it, and then for their own time.
fn first_until(held: &BTreeMap<EventNumber, HeldEvent>) -> Option<Instant> {
    held.first_key_value().map(|(_, held)| held.until)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use domain::{Event, EventBody, EventId, Timestamp, UserId};
    use ports::Position;

    use super::*;

    fn event(chat: u8, number: Option<u64>) -> WebhookEvent {
        let event = Event {
            event_id: EventId::from_bytes([chat; 16]),
            event_time: Timestamp::default(),
            event_number: number.map(EventNumber),
            body: EventBody::ChatRenamed {
                chat_id: ChatId::from_bytes([chat; 16]),
                name: "name".to_owned().try_into().unwrap(),
                changed_by: UserId::from_bytes([9; 16]),
            },
        };
        WebhookEvent { event: Arc::new(event), position: Some(Position(0)) }
    }

    fn numbers(events: &[WebhookEvent]) -> Vec<u64> {
        events.iter().map(|it| it.event.event_number.map_or(0, |number| number.0)).collect()
    }

    /// The numbers that are released when events of one chat arrive in this order.
    fn add(order: &mut ChatOrder, arriving: &[u64], now: Instant) -> Vec<u64> {
        numbers(&order.add(arriving.iter().map(|number| event(1, Some(*number))).collect(), now))
    }

    #[test]
    fn events_in_order_are_released_at_once() {
        let (mut order, now) = (ChatOrder::new(LogOrder::PerKind), Instant::now());
        assert_eq!(add(&mut order, &[1, 2, 3], now), [1, 2, 3]);
        assert_eq!(add(&mut order, &[4], now), [4]);
        assert_eq!((order.deadline(), order.len), (None, 0));
    }

    #[test]
    fn an_event_waits_for_its_predecessor() {
        let (mut order, now) = (ChatOrder::new(LogOrder::PerKind), Instant::now());
        assert_eq!(add(&mut order, &[1, 3, 5], now), [1]);
        assert_eq!(add(&mut order, &[4], now), [0; 0]);
        assert_eq!(add(&mut order, &[2], now), [2, 3, 4, 5]);
        assert_eq!((order.deadline(), order.len), (None, 0));
    }

    #[test]
    fn a_chat_goes_on_after_a_gap_and_takes_a_late_event() {
        let (mut order, now) = (ChatOrder::new(LogOrder::PerKind), Instant::now());
        assert_eq!(add(&mut order, &[1, 3, 4, 6], now), [1]);
        assert_eq!(order.deadline(), Some(now + HOLD));
        assert_eq!(numbers(&order.expire(now + HOLD - Duration::from_millis(1))), [0; 0]);
        assert_eq!(numbers(&order.expire(now + HOLD)), [3, 4, 6]);
        assert_eq!(add(&mut order, &[2, 7, 3, 8], now), [2, 7, 3, 8], "late and repeated events move nothing back");
    }

    #[test]
    fn the_first_event_of_a_chat_waits_shortly_unless_it_has_the_first_number() {
        let (mut order, now) = (ChatOrder::new(LogOrder::PerKind), Instant::now());
        assert_eq!(add(&mut order, &[8, 7], now), [0; 0]);
        assert_eq!(numbers(&order.add(vec![event(2, Some(1)), event(2, None)], now)), [1, 0]);
        assert_eq!(order.deadline(), Some(now + FIRST_HOLD));
        assert_eq!(numbers(&order.expire(now + FIRST_HOLD)), [7, 8]);
        assert_eq!(add(&mut order, &[9], now), [9]);
    }

    #[test]
    fn a_held_event_that_is_repeated_is_held_once() {
        let (mut order, now) = (ChatOrder::new(LogOrder::PerKind), Instant::now());
        assert_eq!(add(&mut order, &[1, 3, 3], now), [1]);
        assert_eq!(order.len, 1);
        assert_eq!(add(&mut order, &[2], now), [2, 3]);
        assert_eq!(order.len, 0);
    }

    #[test]
    fn no_more_events_are_held_than_the_limit() {
        let (mut order, now) = (ChatOrder::new(LogOrder::PerKind), Instant::now());
        let step = Duration::from_millis(1);
        assert_eq!(add(&mut order, &[1], now), [1]);
        assert_eq!(numbers(&order.add(vec![event(2, Some(1)), event(2, Some(3))], now)), [1]);
        let gapped: Vec<u64> = (0..HELD_MAX as u64 - 1).map(|n| 3 + 2 * n).collect();
        assert_eq!(add(&mut order, &gapped, now + step), [0; 0]);
        assert_eq!(order.len, HELD_MAX);
        let released = order.add(vec![event(1, Some(999_999))], now + step);
        assert_eq!((released[0].event.body.chat_id(), numbers(&released)), (ChatId::from_bytes([2; 16]), vec![3]));
        assert_eq!(order.len, HELD_MAX);
        let mut out = vec![];
        order.release_all(&mut out);
        assert_eq!((out.len(), order.deadline(), order.len), (HELD_MAX, None, 0));
    }

    #[test]
    fn some_event_is_held_at_any_moment_only_for_a_limited_time() {
        let (mut order, start) = (ChatOrder::new(LogOrder::PerKind), Instant::now());
        assert_eq!(add(&mut order, &[1], start), [1]);
        // A time without a held event does not count.
        let start = start + 2 * HOLDING_MAX;
        let (mut now, mut released) = (start, vec![]);
        while now <= start + HOLDING_MAX {
            // Every event follows a gap, and is held before the previous one is released.
            released.extend(add(&mut order, &[3 + 2 * (now - start).as_secs()], now));
            released.extend(numbers(&order.expire(now)));
            assert!(order.deadline().is_some(), "after {:?}", now - start);
            now += Duration::from_secs(1);
        }
        released.extend(add(&mut order, &[1000], now));
        assert_eq!((released.last(), order.deadline()), (Some(&1000), None));
        assert!(released.is_sorted());
        assert_eq!(add(&mut order, &[1002], now), [0; 0], "the time begins again");
    }

    #[test]
    fn a_log_in_commit_order_is_left_alone() {
        let mut order = ChatOrder::new(LogOrder::Commit);
        assert_eq!(add(&mut order, &[7, 9, 8], Instant::now()), [7, 9, 8]);
    }
}
