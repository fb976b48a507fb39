use std::collections::BTreeMap;

use domain::{ClientMessageId, Sequence, Timestamp, UserId};
use protocol::frame::{MessageBody, SendMessage, SendMessageAck};
use protocol::rest::{History, MessageStatus};

/// The messages of one chat that can be looked at, without a gap from the floor up, and one's own that are on their way.
///
/// A chat that nobody has looked at keeps nothing. The first look asks for the newest page; from then on what arrives is
/// kept, and further pages lower the floor. Pages and arrivals overlap, and a sequence is here once.
#[derive(Debug, Default)]
pub(crate) struct Log {
    messages: BTreeMap<Sequence, Entry>,
    pending: Vec<Pending>,
    reach: Reach,
    /// A page is under way.
    asked: bool,
}

/// A message of the chat.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) body: MessageBody<'static>,
    /// What the server said of one's own message when it was read from history.
    pub(crate) status: Option<MessageStatus>,
}

/// One's own message that has no place in the chat yet.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) send: SendMessage,
    pub(crate) written_at: Timestamp,
    /// Why it never will.
    pub(crate) refusal: Option<String>,
}

/// How far down the messages are here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Nobody has looked.
    #[default]
    Nothing,
    /// From this sequence on, with more below it.
    From(Sequence),
    /// From the first one on.
    Everything,
}

impl Log {
    /// Messages of one chat that are kept at the most; the oldest go first, and can be asked for again.
    const MESSAGES_MAX: usize = 5000;
    /// Messages in a page.
    pub(crate) const PAGE_LEN: usize = 50;

    pub(crate) fn reach(&self) -> Reach {
        self.reach
    }

    pub(crate) fn messages(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.messages.values()
    }

    pub(crate) fn pending(&self) -> &[Pending] {
        &self.pending
    }

    /// Whether a page is under way.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked
    }

    /// Whether somebody else's message lies in a range.
    pub(crate) fn has_others(&self, me: UserId, above: Sequence, up_to: Sequence) -> bool {
        above < up_to && self.messages.range(above.next()..=up_to).any(|(_, entry)| entry.body.sender_id != me)
    }

    /// Where the next page lies that is to be asked for, if there is one: `Some(None)` is the newest.
    pub(crate) fn ask(&mut self) -> Option<Option<Sequence>> {
        if self.asked {
            return None;
        }
        let before = match self.reach {
            Reach::Nothing => None,
            Reach::From(floor) => Some(floor),
            Reach::Everything => return None,
        };
        self.asked = true;
        Some(before)
    }

    /// The page under way does not come.
    pub(crate) fn give_up(&mut self) {
        self.asked = false;
    }

    /// Takes the page that was asked for with [`ask`](Self::ask). One that fits no longer is left out: there would be a gap.
    pub(crate) fn take_page(&mut self, before: Option<Sequence>, page: History<'static>) {
        let expected = match self.reach {
            Reach::Nothing => Some(None),
            Reach::From(floor) => Some(Some(floor)),
            Reach::Everything => None,
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
            entry.or_insert(Entry { body: message.message, status: None }).status = status;
        }
        self.reach = match self.messages.keys().next() {
            Some(floor) if !is_last => Reach::From(*floor),
            _ => Reach::Everything,
        };
    }

    /// Takes a message that arrived. Before anybody has looked there is no place for it.
    pub(crate) fn arrive(&mut self, body: MessageBody<'static>) {
        self.settle(body.client_message_id);
        let below_floor = match self.reach {
            Reach::Nothing => !self.asked,
            Reach::From(floor) => body.sequence < floor,
            Reach::Everything => false,
        };
        if !below_floor {
            self.messages.entry(body.sequence).or_insert(Entry { body, status: None });
            self.trim();
        }
    }

    fn trim(&mut self) {
        while self.messages.len() > Self::MESSAGES_MAX {
            self.messages.pop_first();
            if let (Some(floor), true) = (self.messages.keys().next(), self.reach != Reach::Nothing) {
                self.reach = Reach::From(*floor);
            }
        }
    }

    /// Shows a message that is on its way.
    pub(crate) fn queue(&mut self, send: SendMessage, written_at: Timestamp) {
        self.pending.push(Pending { send, written_at, refusal: None });
    }

    /// A send has become a message: this one, unless it has arrived already.
    pub(crate) fn acknowledge(&mut self, me: UserId, ack: &SendMessageAck) -> Option<MessageBody<'static>> {
        let SendMessage { client_message_id, chat_id, content, content_type, ttl } =
            self.settle(Some(ack.client_message_id))?.send;
        Some(MessageBody {
            message_id: ack.message_id,
            chat_id,
            sequence: ack.sequence,
            sender_id: me,
            content: String::from(content).into(),
            content_type,
            created_at: ack.created_at,
            expires_at: ttl.map(|ttl| ack.created_at + ttl.as_duration()),
            client_message_id: Some(client_message_id),
        })
    }

    /// A send never becomes a message. Returns what it said.
    pub(crate) fn refuse(&mut self, client_message_id: ClientMessageId, why: String) -> Option<String> {
        let pending = self.pending.iter_mut().find(|pending| pending.send.client_message_id == client_message_id)?;
        pending.refusal = Some(why);
        Some(pending.send.content.as_str().to_owned())
    }

    fn settle(&mut self, client_message_id: Option<ClientMessageId>) -> Option<Pending> {
        let place =
            self.pending.iter().position(|pending| Some(pending.send.client_message_id) == client_message_id)?;
        Some(self.pending.remove(place))
    }

    /// Messages that are gone.
    pub(crate) fn expire(&mut self, sequences: &[Sequence]) {
        for sequence in sequences {
            self.messages.remove(sequence);
        }
    }

    /// Lets go of what has ended by itself, and tells what that was.
    pub(crate) fn sweep(&mut self, now: Timestamp) -> Vec<Sequence> {
        let has_ended = |entry: &Entry| entry.body.expires_at.is_some_and(|at| at <= now);
        self.messages.extract_if(.., |_, entry| has_ended(entry)).map(|(sequence, _)| sequence).collect()
    }

    /// When the next message ends by itself.
    pub(crate) fn next_expiry(&self) -> Option<Timestamp> {
        self.messages.values().filter_map(|entry| entry.body.expires_at).min()
    }

    /// Forgets everything but what is on its way: the server knows another story now.
    pub(crate) fn reset(&mut self) {
        *self = Self { pending: std::mem::take(&mut self.pending), ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use domain::{ChatId, ContentType, MessageId};
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
            created_at: Timestamp::from_millis(sequence * 1000),
            expires_at: None,
            client_message_id: None,
        }
    }

    fn page(sequences: std::ops::RangeInclusive<u64>) -> History<'static> {
        let head_sequence = Sequence(*sequences.end());
        let messages = sequences.rev().map(|n| Message { message: body(n, other()), status: None }).collect();
        History { messages, head_sequence }
    }

    fn sequences(log: &Log) -> Vec<u64> {
        log.messages().map(|entry| entry.body.sequence.0).collect()
    }

    fn send(n: u8) -> SendMessage {
        SendMessage {
            client_message_id: ClientMessageId::from_bytes([n; 16]),
            chat_id: ChatId::from_bytes([4; 16]),
            content: "hello".to_owned().try_into().unwrap(),
            content_type: ContentType::Text,
            ttl: None,
        }
    }

    #[test]
    fn pages_and_arrivals_overlap_and_each_message_is_here_once() {
        let mut log = Log::default();
        log.arrive(body(90, other()));
        assert_eq!(sequences(&log), [0; 0], "nobody has looked");
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
        assert_eq!((log.reach(), log.ask()), (Reach::Everything, None), "a short page is the last");
        assert_eq!(sequences(&log), (91..=152).collect::<Vec<_>>());
    }

    #[test]
    fn a_page_that_fits_no_longer_leaves_no_gap() {
        let mut log = Log::default();
        log.ask();
        log.take_page(None, page(51..=100));
        assert_eq!(log.ask(), Some(Some(Sequence(51))));
        log.reset();
        assert_eq!(log.ask(), Some(None));
        log.take_page(Some(Sequence(51)), page(1..=50));
        assert_eq!((sequences(&log), log.reach()), (vec![], Reach::Nothing));
        assert_eq!(log.ask(), Some(None), "the newest is asked for again");
    }

    #[test]
    fn a_send_takes_its_place_whether_its_ack_or_its_message_comes_first() {
        let mut log = Log::default();
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
    fn what_ends_is_gone_at_its_moment() {
        let mut log = Log::default();
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
    fn the_oldest_go_when_there_are_too_many_and_can_be_asked_for_again() {
        let mut log = Log::default();
        log.ask();
        log.take_page(None, page(1..=1));
        for n in 2..=Log::MESSAGES_MAX as u64 + 1 {
            log.arrive(body(n, other()));
        }
        assert_eq!(log.messages().count(), Log::MESSAGES_MAX);
        assert_eq!(log.ask(), Some(Some(Sequence(2))));
    }

    #[test]
    fn only_what_others_wrote_is_there_to_be_read() {
        let mut log = Log::default();
        log.ask();
        log.take_page(None, page(1..=2));
        log.arrive(body(3, me()));
        assert!(log.has_others(me(), Sequence(1), Sequence(3)));
        assert!(!log.has_others(me(), Sequence(2), Sequence(3)));
        assert!(!log.has_others(me(), Sequence(3), Sequence(3)));
    }
}
