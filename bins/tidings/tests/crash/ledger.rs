use std::collections::{BTreeMap, HashMap};

use domain::{ChatId, ClientMessageId, MessageId, Sequence, UserId};
use protocol::frame::{MessageBody, SendMessage, SendMessageAck};

/// All sends and their results, as the senders know them.
#[derive(Default)]
pub(crate) struct SendLedger {
    sends: HashMap<ClientMessageId, SendEntry>,
    /// Sends of each sender to each chat, in order.
    orders: BTreeMap<(usize, ChatId), Vec<ClientMessageId>>,
    unanswered: usize,
    acks: usize,
    deduplicated: usize,
}

struct SendEntry {
    chat_id: ChatId,
    sender_id: UserId,
    ack: Option<(MessageId, Sequence)>,
}

impl SendLedger {
    /// Records a send before its first attempt. `sender` identifies a source of ordered sends.
    pub(crate) fn sent(&mut self, sender: usize, sender_id: UserId, message: &SendMessage) {
        let SendMessage { client_message_id, chat_id, .. } = *message;
        let known = self.sends.insert(client_message_id, SendEntry { chat_id, sender_id, ack: None });
        assert!(known.is_none(), "every send has an id of its own");
        self.orders.entry((sender, chat_id)).or_default().push(client_message_id);
        self.unanswered += 1;
    }

    /// Records an ack. All acks of one send must be equal (G2).
    pub(crate) fn acked(&mut self, ack: &SendMessageAck) {
        let sent = self.sends.get_mut(&ack.client_message_id).expect("only what was sent is acknowledged");
        assert_eq!(ack.chat_id, sent.chat_id);
        let place = (ack.message_id, ack.sequence);
        match sent.ack {
            Some(first) => assert_eq!(first, place, "an ack contradicts an earlier one"),
            None => self.unanswered -= 1,
        }
        sent.ack = Some(place);
        self.acks += 1;
        self.deduplicated += usize::from(ack.deduplicated);
    }

    /// Sends without an ack.
    pub(crate) fn unanswered(&self) -> usize {
        self.unanswered
    }

    pub(crate) fn acks(&self) -> usize {
        self.acks
    }

    /// Number of acks that reported an earlier commit.
    pub(crate) fn deduplicated(&self) -> usize {
        self.deduplicated
    }

    /// Sends to a chat.
    pub(crate) fn sends_into(&self, chat_id: ChatId) -> usize {
        self.sends.values().filter(|sent| sent.chat_id == chat_id).count()
    }

    /// Checks that a message of the server was sent, and has its acknowledged sequence, if any.
    pub(crate) fn check(&self, message: &MessageBody<'_>) {
        let id = id_of(&message.content);
        let sent = self.sends.get(&id).unwrap_or_else(|| panic!("this was never sent: {message:?}"));
        assert_eq!((message.chat_id, message.sender_id), (sent.chat_id, sent.sender_id), "{message:?}");
        assert_eq!(message.content, content(id), "{message:?}");
        if let Some(place) = sent.ack {
            assert_eq!((message.message_id, message.sequence), place, "an ack has told something else of {message:?}");
        }
    }

    /// Checks that the sends of each sender to each chat were sequenced in order.
    pub(crate) fn check_orders(&self) {
        for ((sender, chat_id), ids) in &self.orders {
            let sequences: Vec<_> = ids.iter().filter_map(|id| self.sends[id].ack.map(|(_, at)| at)).collect();
            assert!(sequences.is_sorted(), "sender {sender} was reordered in {chat_id}: {sequences:?}");
        }
    }
}

/// The content of a send: it identifies the send to every reader, and has any length up to the limit.
pub(crate) fn content(id: ClientMessageId) -> String {
    let [length, is_long, ..] = id.to_bytes();
    let copies = if is_long < 8 { 100 } else { 1 + usize::from(length % 8) };
    id.to_string().repeat(copies)
}

/// The send that a content identifies.
pub(crate) fn id_of(content: &str) -> ClientMessageId {
    const UUID_LEN: usize = 36;
    content.get(..UUID_LEN).and_then(|id| id.parse().ok()).unwrap_or_else(|| panic!("{content:?} names no send"))
}
