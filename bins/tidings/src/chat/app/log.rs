use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use client::{newer, with_queued, with_updated};
use domain::{ClientMessageId, Sequence, Timestamp, UpdateAction, UserId};
use protocol::frame::{MessageBody, MessageUpdated, SendMessage, SendMessageAck, UpdateMessage};
use protocol::rest::{History, Message, MessageStatus};

/// The loaded messages of one chat, contiguous from a floor up, and the user's own pending sends and updates.
///
/// A chat that was never opened holds no messages. Opening it requests the newest page; from then on arriving messages
/// are added, and further pages lower the floor. Pages and arrivals may overlap; each sequence is stored once.
#[derive(Debug, Default)]
pub(crate) struct ChatLog {
    messages: BTreeMap<Sequence, ChatLogEntry>,
    pending: Vec<OutgoingMessage>,
    updates: Vec<OutgoingUpdate>,
    reach: LoadedRange,
    /// A page request is in flight.
    asked: bool,
    /// Messages that were deleted or have expired since the page was requested. The page may still contain them.
    removed: BTreeSet<Sequence>,
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

/// The user's own update whose event has not arrived.
#[derive(Clone, Debug)]
struct OutgoingUpdate {
    update: UpdateMessage,
    written_at: Timestamp,
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

    /// The messages as they will be after the user's own pending updates.
    pub(crate) fn messages(&self) -> impl DoubleEndedIterator<Item = Cow<'_, ChatLogEntry>> {
        self.messages.values().filter_map(|entry| {
            let Some(written_at) = self.updated_at(entry.body.sequence) else { return Some(Cow::Borrowed(entry)) };
            let body = with_queued(&entry.body, self.updates.iter().map(|pending| &pending.update), written_at)?;
            Some(Cow::Owned(ChatLogEntry { body, status: entry.status }))
        })
    }

    /// Whether a message has a pending update.
    pub(crate) fn is_updating(&self, sequence: Sequence) -> bool {
        self.updated_at(sequence).is_some()
    }

    fn updated_at(&self, sequence: Sequence) -> Option<Timestamp> {
        self.updates.iter().rfind(|pending| pending.update.target == sequence).map(|pending| pending.written_at)
    }

    /// The message at this position from the end, or the last one that suits the action.
    pub(crate) fn target(&self, me: UserId, position: Option<usize>, action: &UpdateAction) -> Option<Sequence> {
        let mut from_end = self.messages().rev();
        let found = match (position, action) {
            (Some(position), _) => from_end.nth(position.checked_sub(1)?),
            (None, UpdateAction::Edit(_) | UpdateAction::Delete) => from_end.find(|entry| entry.body.sender_id == me),
            (None, UpdateAction::React(_)) => from_end.find(|entry| entry.body.sender_id != me),
            (None, UpdateAction::Unreact(reaction)) => from_end.find(|entry| {
                let mut reactions = entry.body.state.iter().flat_map(|state| &state.reactions);
                reactions.any(|one| one.reaction == *reaction && one.mine == Some(true))
            }),
        };
        found.map(|entry| entry.body.sequence)
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
        self.removed.clear();
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
        let removed = std::mem::take(&mut self.removed);
        if !is_expected {
            return;
        }
        let is_last = page.messages.len() < Self::PAGE_LEN;
        let of_page = page.messages.last().map(|message| message.message.sequence);
        for Message { message, status } in page.messages {
            self.settle(message.client_message_id);
            if !removed.contains(&message.sequence) {
                let known = self.messages.get(&message.sequence).map(|entry| &entry.body);
                let body = newer(known, message);
                self.messages.insert(body.sequence, ChatLogEntry { body, status });
            }
        }
        self.reach = match self.messages.keys().next().copied().into_iter().chain(of_page).min() {
            Some(floor) if !is_last => LoadedRange::From(floor),
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
            match self.messages.get_mut(&body.sequence) {
                // A page may have had it, before or after an update.
                Some(entry) => entry.body = newer(Some(&entry.body), body),
                None => drop(self.messages.insert(body.sequence, ChatLogEntry { body, status: None })),
            }
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

    /// Adds a pending update.
    pub(crate) fn queue_update(&mut self, update: UpdateMessage, written_at: Timestamp) {
        self.updates.push(OutgoingUpdate { update, written_at });
    }

    /// Removes a pending update: its event has arrived, or it was refused and its message is as before.
    pub(crate) fn settle_update(&mut self, client_message_id: ClientMessageId) {
        self.updates.retain(|pending| pending.update.client_message_id != client_message_id);
    }

    /// Applies an update that has left a message.
    pub(crate) fn revise(&mut self, me: UserId, updated: &MessageUpdated<'static>) {
        if let Some(entry) = self.messages.get_mut(&updated.update.target_sequence)
            && let Some(body) = with_updated(Some(&entry.body), updated, me)
        {
            entry.body = body;
        }
    }

    /// Removes deleted and expired messages.
    pub(crate) fn expire(&mut self, sequences: &[Sequence]) {
        if self.asked {
            self.removed.extend(sequences);
        }
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

    /// Drops everything except pending sends and updates, after the server was reset to an earlier state.
    pub(crate) fn reset(&mut self) {
        let (pending, updates) = (std::mem::take(&mut self.pending), std::mem::take(&mut self.updates));
        *self = Self { pending, updates, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use domain::{Body, ChatId, ContentType, MessageId};
    use protocol::frame::{ReactionBody, StateBody, UpdateBody, UpdateName};

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

    /// A message at a revision, with a content of its own.
    fn revised(sequence: u64, revision: u64) -> MessageBody<'static> {
        let state = StateBody { revision: Sequence(revision), edited_at: None, edit_count: Some(1), reactions: vec![] };
        MessageBody { content: format!("revision {revision}").into(), state: Some(state), ..body(sequence, other()) }
    }

    fn contents(log: &ChatLog) -> Vec<String> {
        log.messages().map(|entry| entry.body.content.clone().into_owned()).collect()
    }

    fn update(target: u64, action: UpdateAction) -> UpdateMessage {
        UpdateMessage {
            client_message_id: ClientMessageId::from_bytes([9; 16]),
            chat_id: ChatId::from_bytes([4; 16]),
            target: Sequence(target),
            action,
        }
    }

    /// A loaded log of these messages of others.
    fn loaded(sequences: std::ops::RangeInclusive<u64>) -> ChatLog {
        let mut log = ChatLog::default();
        log.ask();
        log.take_page(None, page(sequences));
        log
    }

    #[test]
    fn a_page_that_was_requested_before_a_deletion_does_not_bring_the_message_back() {
        let mut log = loaded(51..=100);
        log.ask();
        log.expire(&[Sequence(70), Sequence(1)]);
        log.take_page(Some(Sequence(51)), page(1..=50));
        assert_eq!(sequences(&log).len(), 98);
        assert!(!sequences(&log).contains(&70) && !sequences(&log).contains(&1));
        assert_eq!(log.ask(), Some(Some(Sequence(1))), "the next page begins below this one");
        log.expire(&[Sequence(2)]);
        log.give_up();
        assert!(log.removed.is_empty(), "a later page is requested after the deletion");
    }

    #[test]
    fn the_newest_state_of_a_message_stays_in_whatever_order_its_copies_come() {
        let mut log = loaded(1..=2);
        log.arrive(revised(2, 5));
        assert_eq!(contents(&log), ["message 1", "revision 5"]);
        log.arrive(revised(2, 4));
        log.arrive(body(2, other()));
        assert_eq!(contents(&log), ["message 1", "revision 5"]);

        let mut log = ChatLog::default();
        log.ask();
        log.arrive(revised(2, 5));
        log.take_page(None, page(1..=2));
        assert_eq!(contents(&log), ["message 1", "revision 5"]);
        let update = UpdateBody {
            chat_id: ChatId::from_bytes([4; 16]),
            sequence: Sequence(6),
            target_sequence: Sequence(2),
            user_id: other(),
            kind: UpdateName::Edited,
            reaction: None,
            created_at: Timestamp::default(),
            client_message_id: None,
        };
        let updated = |revision| MessageUpdated { update: update.clone(), message: Some(revised(2, revision)) };
        log.revise(me(), &updated(6));
        log.revise(me(), &updated(4));
        assert_eq!(contents(&log), ["message 1", "revision 6"]);
    }

    #[test]
    fn pending_updates_show_at_once_and_a_refused_one_is_undone() {
        let mut log = loaded(1..=3);
        let edit = Body::new("edited".to_owned().try_into().unwrap(), ContentType::Text);
        log.queue_update(update(1, UpdateAction::Edit(edit)), Timestamp::default());
        log.queue_update(update(3, UpdateAction::Delete), Timestamp::default());
        assert_eq!(contents(&log), ["edited", "message 2"]);
        assert!(log.is_updating(Sequence(1)) && !log.is_updating(Sequence(2)));
        log.settle_update(ClientMessageId::from_bytes([9; 16]));
        assert_eq!(contents(&log), ["message 1", "message 2", "message 3"]);
    }

    #[test]
    fn an_update_is_about_the_last_message_that_suits_it_or_the_one_at_a_position() {
        let mut log = loaded(1..=2);
        log.arrive(body(3, me()));
        log.arrive(body(4, other()));
        let thumb = || "👍".parse().unwrap();
        let mine = ReactionBody { reaction: thumb(), count: 1, mine: Some(true) };
        let mut reacted = revised(2, 5);
        reacted.state.as_mut().unwrap().reactions.push(mine);
        log.arrive(reacted);
        let check = |position, action, expected: Option<u64>| {
            assert_eq!(log.target(me(), position, &action), expected.map(Sequence), "{position:?} {action:?}");
        };
        check(None, UpdateAction::Delete, Some(3));
        check(None, UpdateAction::React(thumb()), Some(4));
        check(None, UpdateAction::Unreact(thumb()), Some(2));
        check(None, UpdateAction::Unreact("ok".parse().unwrap()), None);
        check(Some(1), UpdateAction::Delete, Some(4));
        check(Some(4), UpdateAction::Delete, Some(1));
        check(Some(5), UpdateAction::Delete, None);
        check(Some(0), UpdateAction::Delete, None);
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
