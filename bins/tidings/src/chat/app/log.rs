use std::collections::BTreeMap;

use domain::{ClientMessageId, Sequence, Timestamp, UserId};
use protocol::frame::{MessageBody, SendMessage, SendMessageAck};
use protocol::rest::{History, MessageStatus};

/// The loaded messages of one chat, contiguous from a floor up, and the user's own pending sends.
///
/// A chat that was never opened holds no messages. Opening it requests the newest page; from then on arriving messages
/// are added, and further pages lower the floor. Pages and arrivals may overlap; each sequence is stored once.
#[derive(Debug, Default)]
pub(crate) struct ChatLog {
    messages: BTreeMap<Sequence, ChatLogEntry>,
    pending: Vec<OutgoingMessage>,
    reach: LoadedRange,
    /// A page request is in flight.
    asked: bool,
}

/// A message of the chat.
#[derive(Clone, Debug)]
pub(crate) struct ChatLogEntry {
    pub(crate) body: MessageBody<'static>,
    /// Status from the server for the user's own message in a history page.
    pub(crate) status: Option<MessageStatus>,
}

/// The user's own message that has no sequence yet.
#[derive(Clone, Debug)]
pub(crate) struct OutgoingMessage {
    pub(crate) send: SendMessage,
    pub(crate) written_at: Timestamp,
    /// Why the server refused it permanently.
    pub(crate) refusal: Option<String>,
}

/// How much of the history is loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LoadedRange {
    /// The chat was never opened.
    #[default]
    Nothing,
    /// Everything from this sequence; there is more below.
    From(Sequence),
    /// The whole history.
    Everything,
}

impl ChatLog {
    /// Maximum number of messages held per chat. The oldest are dropped first, and can be requested again.
    const MESSAGES_MAX: usize = 5000;
    /// Messages in a page.
    pub(crate) const PAGE_LEN: usize = 50;

    pub(crate) fn reach(&self) -> LoadedRange {
        self.reach
    }

    pub(crate) fn messages(&self) -> impl DoubleEndedIterator<Item = &ChatLogEntry> {
        self.messages.values()
    }

    pub(crate) fn pending(&self) -> &[OutgoingMessage] {
        &self.pending
    }

    /// Whether a page request is in flight.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked
    }

    /// Whether a message by another user is in a range.
    pub(crate) fn has_others(&self, me: UserId, above: Sequence, up_to: Sequence) -> bool {
        above < up_to && self.messages.range(above.next()..=up_to).any(|(_, entry)| entry.body.sender_id != me)
    }

    /// Starts the next page request, if there is more to load. `Some(None)` is the newest page.
    pub(crate) fn ask(&mut self) -> Option<Option<Sequence>> {
        if self.asked {
            return None;
        }
        let before = match self.reach {
            LoadedRange::Nothing => None,
            LoadedRange::From(floor) => Some(floor),
            LoadedRange::Everything => return None,
        };
        self.asked = true;
        Some(before)
    }

    /// Records that the page request failed.
    pub(crate) fn give_up(&mut self) {
        self.asked = false;
    }

    /// Adds the page requested with [`ask`](Self::ask). A page that no longer adjoins the floor is dropped, since it
    /// would leave a gap.
    pub(crate) fn take_page(&mut self, before: Option<Sequence>, page: History<'static>) {
        let expected = match self.reach {
            LoadedRange::Nothing => Some(None),
            LoadedRange::From(floor) => Some(Some(floor)),
            LoadedRange::Everything => None,
        };
        let is_expected = std::mem::take(&mut self.asked) && expected == Some(before);
        if !is_expected {
            return;
        }
        let is_last = page.messages.len() < Self::PAGE_LEN;
        for message in page.messages {
            self.settle(message.message.client_message_id);
            let status = message.status;
            let entry = self.messages.entry(message.message.sequence);
            entry.or_insert_with(|| ChatLogEntry { body: message.message.clone(), status: None }).status = status;
            self.revise(message.message);
        }
        self.reach = match self.messages.keys().next() {
            Some(floor) if !is_last => LoadedRange::From(*floor),
            _ => LoadedRange::Everything,
        };
    }

    /// Adds a received message. A log without a first page ignores it.
    pub(crate) fn arrive(&mut self, body: MessageBody<'static>) {
        self.settle(body.client_message_id);
        let below_floor = match self.reach {
            LoadedRange::Nothing => !self.asked,
            LoadedRange::From(floor) => body.sequence < floor,
            LoadedRange::Everything => false,
        };
        if !below_floor {
            self.messages.entry(body.sequence).or_insert(ChatLogEntry { body, status: None });
            self.trim();
        }
    }

    fn trim(&mut self) {
        while self.messages.len() > Self::MESSAGES_MAX {
            self.messages.pop_first();
            if let (Some(floor), true) = (self.messages.keys().next(), self.reach != LoadedRange::Nothing) {
                self.reach = LoadedRange::From(*floor);
            }
        }
    }

    /// Adds a pending send.
    pub(crate) fn queue(&mut self, send: SendMessage, written_at: Timestamp) {
        self.pending.push(OutgoingMessage { send, written_at, refusal: None });
    }

    /// Turns a pending send into a message and returns it, unless the message has already arrived.
    pub(crate) fn acknowledge(&mut self, me: UserId, ack: &SendMessageAck) -> Option<MessageBody<'static>> {
        let pending = self.settle(Some(ack.client_message_id))?;
        Some(MessageBody::acknowledged(pending.send, ack, me))
    }

    /// Marks a pending send as refused. Returns its text.
    pub(crate) fn refuse(&mut self, client_message_id: ClientMessageId, why: String) -> Option<String> {
        let pending = self.pending.iter_mut().find(|pending| pending.send.client_message_id == client_message_id)?;
        pending.refusal = Some(why);
        Some(pending.send.body.content.as_str().to_owned())
    }

    fn settle(&mut self, client_message_id: Option<ClientMessageId>) -> Option<OutgoingMessage> {
        let place =
            self.pending.iter().position(|pending| Some(pending.send.client_message_id) == client_message_id)?;
        Some(self.pending.remove(place))
    }

    /// Replaces a message by a copy with a higher revision.
    pub(crate) fn revise(&mut self, body: MessageBody<'static>) {
        if let Some(entry) = self.messages.get_mut(&body.sequence)
            && entry.body.revision() < body.revision()
        {
            entry.body = body;
        }
    }

    /// Removes expired messages.
    pub(crate) fn expire(&mut self, sequences: &[Sequence]) {
        for sequence in sequences {
            self.messages.remove(sequence);
        }
    }

    /// Removes messages past their expiry, and returns their sequences.
    pub(crate) fn sweep(&mut self, now: Timestamp) -> Vec<Sequence> {
        let has_ended = |entry: &ChatLogEntry| entry.body.expires_at.is_some_and(|at| at <= now);
        self.messages.extract_if(.., |_, entry| has_ended(entry)).map(|(sequence, _)| sequence).collect()
    }

    /// When the next message expires.
    pub(crate) fn next_expiry(&self) -> Option<Timestamp> {
        self.messages.values().filter_map(|entry| entry.body.expires_at).min()
    }

    /// Drops everything except pending sends, after the server was reset to an earlier state.
    pub(crate) fn reset(&mut self) {
        *self = Self { pending: std::mem::take(&mut self.pending), ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use domain::{Body, ChatId, ContentType, MessageId};
    use protocol::rest::Message;

    use super::*;

    fn me() -> UserId {
        UserId::from_bytes([1; 16])
    }

    fn other() -> UserId {
        UserId::from_bytes([2; 16])
    }

    fn body(sequence: u64, sender_id: UserId) -> MessageBody<'static> {
        MessageBody {
            message_id: MessageId::from_bytes([3; 16]),
            chat_id: ChatId::from_bytes([4; 16]),
            sequence: Sequence(sequence),
            sender_id,
            content: format!("message {sequence}").into(),
            content_type: ContentType::Text,
            metadata: None,
            created_at: Timestamp::from_millis(sequence * 1000),
            expires_at: None,
            client_message_id: None,
            state: None,
        }
    }

    fn page(sequences: std::ops::RangeInclusive<u64>) -> History<'static> {
        let head_sequence = Sequence(*sequences.end());
        let messages = sequences.rev().map(|n| Message { message: body(n, other()), status: None }).collect();
        History { messages, head_sequence }
    }

    fn sequences(log: &ChatLog) -> Vec<u64> {
        log.messages().map(|entry| entry.body.sequence.0).collect()
    }

    fn send(n: u8) -> SendMessage {
        SendMessage {
            client_message_id: ClientMessageId::from_bytes([n; 16]),
            chat_id: ChatId::from_bytes([4; 16]),
            body: Body::new("hello".to_owned().try_into().unwrap(), ContentType::Text),
            ttl: None,
        }
    }

    #[test]
    fn pages_and_arrivals_overlap_and_each_message_is_here_once() {
        let mut log = ChatLog::default();
        log.arrive(body(90, other()));
        assert_eq!(sequences(&log), [0; 0], "the chat was never opened");
        assert_eq!(log.ask(), Some(None));
        assert_eq!(log.ask(), None, "one page at a time");
        log.arrive(body(151, other()));
        log.take_page(None, page(101..=151));
        log.arrive(body(150, other()));
        log.arrive(body(152, other()));
        log.arrive(body(95, other()));
        assert_eq!(sequences(&log), (101..=152).collect::<Vec<_>>(), "below the floor there would be a gap");
        assert_eq!(log.ask(), Some(Some(Sequence(101))));
        log.take_page(Some(Sequence(101)), page(91..=100));
        assert_eq!((log.reach(), log.ask()), (LoadedRange::Everything, None), "a short page is the last");
        assert_eq!(sequences(&log), (91..=152).collect::<Vec<_>>());
    }

    #[test]
    fn a_page_that_fits_no_longer_leaves_no_gap() {
        let mut log = ChatLog::default();
        log.ask();
        log.take_page(None, page(51..=100));
        assert_eq!(log.ask(), Some(Some(Sequence(51))));
        log.reset();
        assert_eq!(log.ask(), Some(None));
        log.take_page(Some(Sequence(51)), page(1..=50));
        assert_eq!((sequences(&log), log.reach()), (vec![], LoadedRange::Nothing));
        assert_eq!(log.ask(), Some(None), "the newest is asked for again");
    }

    #[test]
    fn a_send_is_ordered_whether_its_ack_or_its_message_arrives_first() {
        let mut log = ChatLog::default();
        log.ask();
        log.take_page(None, page(1..=1));
        for n in [2, 3] {
            log.queue(send(n), Timestamp::default());
        }
        let ack = |n: u8| SendMessageAck {
            client_message_id: ClientMessageId::from_bytes([n; 16]),
            message_id: MessageId::from_bytes([3; 16]),
            chat_id: ChatId::from_bytes([4; 16]),
            sequence: Sequence(n.into()),
            created_at: Timestamp::default(),
            deduplicated: false,
        };
        let acknowledged = log.acknowledge(me(), &ack(2)).unwrap();
        log.arrive(acknowledged.clone());
        log.arrive(acknowledged);
        log.arrive(MessageBody { client_message_id: Some(ClientMessageId::from_bytes([3; 16])), ..body(3, me()) });
        assert_eq!(log.acknowledge(me(), &ack(3)), None);
        assert_eq!((sequences(&log), log.pending().len()), (vec![1, 2, 3], 0));
    }

    #[test]
    fn messages_are_removed_at_their_expiry() {
        let mut log = ChatLog::default();
        log.ask();
        log.take_page(None, page(1..=3));
        log.arrive(MessageBody { expires_at: Some(Timestamp::from_millis(9000)), ..body(4, other()) });
        assert_eq!(log.next_expiry(), Some(Timestamp::from_millis(9000)));
        assert_eq!(log.sweep(Timestamp::from_millis(8999)), []);
        assert_eq!(log.sweep(Timestamp::from_millis(9000)), [Sequence(4)]);
        log.expire(&[Sequence(2), Sequence(7)]);
        assert_eq!(sequences(&log), [1, 3]);
    }

    #[test]
    fn the_oldest_messages_are_evicted_and_can_be_loaded_again() {
        let mut log = ChatLog::default();
        log.ask();
        log.take_page(None, page(1..=1));
        for n in 2..=ChatLog::MESSAGES_MAX as u64 + 1 {
            log.arrive(body(n, other()));
        }
        assert_eq!(log.messages().count(), ChatLog::MESSAGES_MAX);
        assert_eq!(log.ask(), Some(Some(Sequence(2))));
    }

    #[test]
    fn only_messages_of_others_count_as_unread() {
        let mut log = ChatLog::default();
        log.ask();
        log.take_page(None, page(1..=2));
        log.arrive(body(3, me()));
        assert!(log.has_others(me(), Sequence(1), Sequence(3)));
        assert!(!log.has_others(me(), Sequence(2), Sequence(3)));
        assert!(!log.has_others(me(), Sequence(3), Sequence(3)));
    }
}
