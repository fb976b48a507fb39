use std::collections::BTreeMap;
use std::time::Instant;

use domain::{ChatId, ClientMessageId};

use super::backoff::{Random, pause, retry_after};
use crate::frame::{ClientFrame, Inbound, RequestId, SendMessage, UpdateMessage};
use crate::{ErrorBody, Retry};

/// Bounds of the send queue and of the sends in flight.
#[derive(Clone, Copy, Debug)]
pub struct SendBounds {
    /// Most sends that are queued or unacknowledged; one more is refused.
    pub queue_len_max: usize,
    /// Most sends in flight.
    pub in_flight_max: usize,
}

impl Default for SendBounds {
    fn default() -> Self {
        Self { queue_len_max: 1000, in_flight_max: 32 }
    }
}

/// The queue of sends is full; wait for an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} sends are waiting, which is the limit")]
pub struct QueueFull(pub usize);

/// An entry that the user adds to a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OutgoingEntry {
    Message(SendMessage),
    Update(UpdateMessage),
}

impl OutgoingEntry {
    pub(super) fn chat_id(&self) -> ChatId {
        match self {
            Self::Message(message) => message.chat_id,
            Self::Update(update) => update.chat_id,
        }
    }

    pub(super) fn client_message_id(&self) -> ClientMessageId {
        match self {
            Self::Message(message) => message.client_message_id,
            Self::Update(update) => update.client_message_id,
        }
    }
}

/// The queue of outgoing messages and updates, from the call of `send` or `update` to the ack.
///
/// Entries of one chat are sent in the order of the calls, also after a reconnect. A temporary refusal holds the whole
/// chat, so that later sends cannot overtake the retry; only sends that were already in flight can.
#[derive(Debug)]
pub(super) struct OutgoingQueue {
    bounds: SendBounds,
    queue: BTreeMap<u64, PendingSend>,
    next_order: u64,
    in_flight: usize,
    /// Most sends in flight at present. A rate limit reduces it to one, and acks widen it slowly. A client that kept
    /// the full width after a refusal would be refused dozens of times a second, and disconnected.
    window: usize,
    acks_at_this_width: usize,
    held: BTreeMap<ChatId, Instant>,
}

#[derive(Debug)]
struct PendingSend {
    frame: Inbound,
    chat_id: ChatId,
    refusals: u32,
    /// Present while the send is in flight.
    sent_at: Option<Instant>,
}

/// The consequence of a refused send.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SendRefused {
    /// The send is retried once its chat is no longer held.
    Held,
    /// The send has failed permanently.
    Failed(OutgoingEntry),
    /// The send is retried with a new token.
    NeedsRefresh,
    /// The send is retried on a new connection.
    NeedsReconnect,
    /// No send with this number is in flight.
    Unknown,
}

impl OutgoingQueue {
    pub(super) fn new(bounds: SendBounds) -> Self {
        Self {
            bounds,
            queue: BTreeMap::new(),
            next_order: 0,
            in_flight: 0,
            window: bounds.in_flight_max,
            acks_at_this_width: 0,
            held: BTreeMap::new(),
        }
    }

    pub(super) fn push(&mut self, entry: OutgoingEntry) -> Result<(), QueueFull> {
        if self.queue.len() >= self.bounds.queue_len_max {
            return Err(QueueFull(self.queue.len()));
        }
        let order = self.next_order;
        self.next_order += 1;
        let chat_id = entry.chat_id();
        let request_id = RequestId::new(format!("s{order}"));
        let frame = match entry {
            OutgoingEntry::Message(message) => ClientFrame::SendMessage(message),
            OutgoingEntry::Update(update) => ClientFrame::UpdateMessage(update),
        };
        let frame = Inbound { request_id, frame };
        self.queue.insert(order, PendingSend { frame, chat_id, refusals: 0, sent_at: None });
        Ok(())
    }

    /// The text of the next send, if one may be sent.
    pub(super) fn next(&mut self, now: Instant) -> Option<String> {
        // Expired holds are removed first: `poll_timeout` would return them and wake the driver in a loop.
        self.held.retain(|_, until| *until > now);
        if self.in_flight >= self.window || self.in_flight == self.queue.len() {
            return None;
        }
        let held = &self.held;
        let pending = self.queue.values_mut().find(|p| p.sent_at.is_none() && !held.contains_key(&p.chat_id))?;
        pending.sent_at = Some(now);
        self.in_flight += 1;
        Some(pending.frame.encode())
    }

    /// Removes an acknowledged send and returns it.
    pub(super) fn acked(&mut self, order: u64) -> Option<OutgoingEntry> {
        self.queue.get(&order)?.sent_at?;
        self.acks_at_this_width += 1;
        if self.acks_at_this_width >= self.bounds.in_flight_max {
            self.acks_at_this_width = 0;
            self.window = (self.window + 1).min(self.bounds.in_flight_max);
        }
        self.in_flight -= 1;
        self.remove(order)
    }

    /// Takes an error reply.
    pub(super) fn refused(&mut self, now: Instant, order: u64, error: &ErrorBody, random: &mut Random) -> SendRefused {
        let Some(pending) = self.queue.get_mut(&order).filter(|pending| pending.sent_at.is_some()) else {
            return SendRefused::Unknown;
        };
        pending.sent_at = None;
        pending.refusals = pending.refusals.saturating_add(1);
        self.in_flight -= 1;
        let hold = match error.code.retry() {
            Retry::AfterRefresh => return SendRefused::NeedsRefresh,
            Retry::Reconnect => return SendRefused::NeedsReconnect,
            Retry::No => return self.remove(order).map_or(SendRefused::Unknown, SendRefused::Failed),
            Retry::UpTo(tries) if pending.refusals > tries => {
                return self.remove(order).map_or(SendRefused::Unknown, SendRefused::Failed);
            }
            Retry::AfterDelay => {
                self.window = 1;
                self.acks_at_this_width = 0;
                retry_after(error).unwrap_or_else(|| pause(pending.refusals, random))
            }
            Retry::Backoff | Retry::UpTo(_) => {
                pause(pending.refusals, random).max(retry_after(error).unwrap_or_default())
            }
        };
        let until = self.held.entry(pending.chat_id).or_insert(now);
        *until = (now + hold).max(*until);
        SendRefused::Held
    }

    /// Marks all sends in flight as unsent after the loss of the connection; they are sent again in order.
    pub(super) fn disconnected(&mut self) {
        self.in_flight = 0;
        for pending in self.queue.values_mut() {
            pending.sent_at = None;
        }
    }

    /// When the oldest send in flight was sent.
    pub(super) fn oldest_in_flight(&self) -> Option<Instant> {
        self.queue.values().filter_map(|pending| pending.sent_at).min()
    }

    /// When the first hold of a chat ends.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.held.values().min().copied()
    }

    fn remove(&mut self, order: u64) -> Option<OutgoingEntry> {
        match self.queue.remove(&order)?.frame.frame {
            ClientFrame::SendMessage(message) => Some(OutgoingEntry::Message(message)),
            ClientFrame::UpdateMessage(update) => Some(OutgoingEntry::Update(update)),
            _ => unreachable!("only sends are queued"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use domain::{Body, ContentType};

    use super::*;
    use crate::ErrorCode;

    struct QueueHarness {
        sends: OutgoingQueue,
        random: Random,
        start: Instant,
    }

    impl QueueHarness {
        fn new(queue_len_max: usize, in_flight_max: usize) -> Self {
            let sends = OutgoingQueue::new(SendBounds { queue_len_max, in_flight_max });
            Self { sends, random: Random::new(1), start: Instant::now() }
        }

        fn push(&mut self, chat: u8, text: &str) -> Result<(), QueueFull> {
            self.sends.push(OutgoingEntry::Message(SendMessage {
                client_message_id: ClientMessageId::from_bytes([9; 16]),
                chat_id: ChatId::from_bytes([chat; 16]),
                body: Body::new(text.to_owned().try_into().unwrap(), ContentType::Text),
                ttl: None,
            }))
        }

        /// The sends that are sent at `millis`: order number and content.
        fn out(&mut self, millis: u64) -> Vec<String> {
            let now = self.start + Duration::from_millis(millis);
            std::iter::from_fn(|| self.sends.next(now))
                .map(|text| {
                    let Inbound { request_id, frame } = Inbound::parse(&text).unwrap();
                    let ClientFrame::SendMessage(send) = frame else { panic!("{frame:?}") };
                    format!("{} {}", request_id.unwrap().as_str(), send.body.content.as_str())
                })
                .collect()
        }

        fn refuse(&mut self, millis: u64, order: u64, code: ErrorCode, seconds: u64) -> SendRefused {
            let error = ErrorBody::new(code, "no").with_details(serde_json::json!({ "retry_after_seconds": seconds }));
            self.sends.refused(self.start + Duration::from_millis(millis), order, &error, &mut self.random)
        }
    }

    #[test]
    fn a_full_queue_refuses_one_more_until_an_ack_makes_room() {
        let mut queue = QueueHarness::new(2, 32);
        queue.push(1, "a").unwrap();
        queue.push(1, "b").unwrap();
        assert_eq!(queue.push(1, "c"), Err(QueueFull(2)));
        queue.out(0);
        let Some(OutgoingEntry::Message(acked)) = queue.sends.acked(0) else { panic!("it was sent") };
        assert_eq!(acked.body.content.as_str(), "a");
        assert_eq!(queue.push(1, "c"), Ok(()));
        assert_eq!(queue.sends.acked(0), None, "an ack counts once");
        assert_eq!(queue.sends.acked(2), None, "what was not sent cannot be acked");
    }

    #[test]
    fn at_most_the_window_is_in_flight() {
        let mut queue = QueueHarness::new(1000, 2);
        for text in ["a", "b", "c"] {
            queue.push(1, text).unwrap();
        }
        assert_eq!(queue.out(0), ["s0 a", "s1 b"]);
        queue.sends.acked(1);
        assert_eq!(queue.out(0), ["s2 c"]);
    }

    /// Otherwise the driver would poll in a loop until a reply arrives.
    #[test]
    fn an_expired_hold_sets_no_timeout_while_the_window_is_full() {
        let mut queue = QueueHarness::new(1000, 1);
        queue.push(1, "a").unwrap();
        queue.push(2, "b").unwrap();
        assert_eq!(queue.out(0), ["s0 a"]);
        queue.refuse(0, 0, ErrorCode::RateLimited, 1);
        assert_eq!(queue.out(0), ["s1 b"]);
        assert_eq!(queue.sends.poll_timeout(), Some(queue.start + Duration::from_secs(1)));
        assert_eq!(queue.out(1000), [""; 0]);
        assert_eq!(queue.sends.poll_timeout(), None);
        queue.sends.acked(1);
        assert_eq!(queue.out(1000), ["s0 a"]);
    }

    #[test]
    fn after_a_reconnect_unanswered_sends_go_first_and_in_order() {
        let mut queue = QueueHarness::new(1000, 3);
        for text in ["a", "b", "c", "d"] {
            queue.push(1, text).unwrap();
        }
        queue.out(0);
        queue.sends.acked(1);
        queue.sends.disconnected();
        assert_eq!(queue.out(5), ["s0 a", "s2 c", "s3 d"]);
    }

    #[test]
    fn a_rate_limit_holds_its_chat_for_the_time_asked_and_narrows_the_window() {
        let mut queue = QueueHarness::new(1000, 4);
        for (chat, text) in [(1, "a"), (1, "b"), (2, "c"), (1, "d")] {
            queue.push(chat, text).unwrap();
        }
        queue.out(0);
        assert_eq!(queue.refuse(0, 1, ErrorCode::RateLimited, 3), SendRefused::Held);
        assert_eq!(queue.refuse(0, 3, ErrorCode::RateLimited, 2), SendRefused::Held);
        queue.sends.acked(0);
        queue.sends.acked(2);
        queue.push(2, "e").unwrap();
        assert_eq!(queue.out(2999), ["s4 e"], "another chat goes on");
        queue.sends.acked(4);
        assert_eq!(queue.sends.poll_timeout(), Some(queue.start + Duration::from_secs(3)));
        assert_eq!(queue.out(3000), ["s1 b"], "one at a time");
        queue.sends.acked(1);
        assert_eq!(queue.sends.window, 2, "four acks have widened it");
        assert_eq!(queue.out(3000), ["s3 d"]);
    }

    #[test]
    fn consequences_of_each_refusal() {
        let cases = [
            (ErrorCode::NotAMember, "Failed"),
            (ErrorCode::IdempotencyKeyReused, "Failed"),
            (ErrorCode::CounterMissing, "Failed"),
            (ErrorCode::Unauthorized, "NeedsRefresh"),
            (ErrorCode::SlowConsumer, "NeedsReconnect"),
            (ErrorCode::ServerBusy, "Held"),
            (ErrorCode::ServiceUnavailable, "Held"),
            (ErrorCode::InternalError, "Held"),
        ];
        for (code, expected) in cases {
            let mut queue = QueueHarness::new(10, 10);
            queue.push(1, "a").unwrap();
            queue.out(0);
            let refused = format!("{:?}", queue.refuse(0, 0, code, 0));
            assert!(refused.starts_with(expected), "{code}: {refused}");
            assert_eq!(queue.refuse(0, 0, code, 0), SendRefused::Unknown, "{code}: one answer per try");
        }
    }

    #[test]
    fn an_internal_error_is_retried_three_times_and_a_busy_server_without_limit() {
        for (code, retries) in [(ErrorCode::InternalError, 3), (ErrorCode::ServerBusy, 50)] {
            let mut queue = QueueHarness::new(10, 10);
            queue.push(1, "a").unwrap();
            for n in 0..retries {
                assert_eq!(queue.out(n * 60_000), ["s0 a"], "{code}: try {n}");
                assert_eq!(queue.refuse(n * 60_000, 0, code, 0), SendRefused::Held);
                assert_eq!(queue.out(n * 60_000 + 700), [""; 0], "not at once");
            }
            queue.out(retries * 60_000);
            let last = queue.refuse(retries * 60_000, 0, code, 0);
            assert_eq!(matches!(last, SendRefused::Failed(_)), code == ErrorCode::InternalError, "{last:?}");
        }
    }
}
