//! The responses that clients received, with their times.

use std::time::{SystemTime, UNIX_EPOCH};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

/// Microseconds since the epoch, as `strace` counts them.
pub(crate) type Micros = u64;

pub(crate) fn now() -> Micros {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
}

/// All client requests. A response received before a cut must hold after it.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct ResponseLedger {
    pub(crate) people: Vec<LedgerUser>,
    pub(crate) chats: Vec<LedgerChat>,
    pub(crate) sends: Vec<LedgerSend>,
    /// Updates of messages. Each was made after the answer to the one before it of the same message.
    pub(crate) updates: Vec<LedgerUpdate>,
    pub(crate) reads: Vec<LedgerRead>,
    /// When the recorded command reported success.
    pub(crate) command_answered: Option<Micros>,
    /// The result of `tidings store verify` for the whole store.
    pub(crate) verified: Value,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct LedgerUser {
    pub(crate) answered: Micros,
    pub(crate) user_id: String,
    pub(crate) device_id: Uuid,
    pub(crate) access_token: String,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct LedgerChat {
    pub(crate) answered: Micros,
    pub(crate) chat_id: String,
    /// The first of them created it.
    pub(crate) members: Vec<usize>,
    /// Up to this sequence, only a sample of the messages is read each time.
    pub(crate) sampled_to: u64,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct LedgerSend {
    pub(crate) id: Uuid,
    pub(crate) len: usize,
    pub(crate) chat: usize,
    pub(crate) sender: usize,
    pub(crate) ttl_seconds: Option<u64>,
    pub(crate) ack: Option<LedgerAck>,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct LedgerAck {
    pub(crate) answered: Micros,
    pub(crate) sequence: u64,
    pub(crate) message_id: String,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct LedgerUpdate {
    pub(crate) id: Uuid,
    pub(crate) user: usize,
    /// The number of the send of the message.
    pub(crate) target: usize,
    pub(crate) action: LedgerAction,
    pub(crate) ack: Option<LedgerAck>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LedgerAction {
    Edit {
        /// The length of the new content.
        len: usize,
    },
    Delete,
    React,
    Unreact,
}

/// A read watermark that was advanced.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct LedgerRead {
    pub(crate) answered: Micros,
    pub(crate) chat: usize,
    pub(crate) person: usize,
    pub(crate) sequence: u64,
}

impl ResponseLedger {
    /// Removes the acknowledgements from a moment on. A send acknowledged then may be stored or not.
    pub(crate) fn forget_answers_since(&mut self, moment: Micros) {
        assert!(self.people.iter().all(|person| person.answered < moment), "people are older than the cut");
        assert!(self.chats.iter().all(|chat| chat.answered < moment), "chats are older than the cut");
        self.reads.retain(|read| read.answered < moment);
        let acks = self.sends.iter_mut().map(|send| &mut send.ack);
        for ack in acks.chain(self.updates.iter_mut().map(|update| &mut update.ack)) {
            *ack = ack.take().filter(|ack| ack.answered < moment);
        }
    }

    /// The updates of the message of a send, in their order.
    pub(crate) fn updates_of(&self, send: usize) -> impl Iterator<Item = &LedgerUpdate> {
        self.updates.iter().filter(move |update| update.target == send)
    }
}

impl LedgerSend {
    /// The content: it starts with the id of the send.
    pub(crate) fn content(&self) -> String {
        content(self.id, self.len)
    }
}

impl LedgerUpdate {
    /// The new content of an edit: it starts with the id of the update.
    pub(crate) fn content(&self) -> Option<String> {
        match self.action {
            LedgerAction::Edit { len } => Some(content(self.id, len)),
            LedgerAction::Delete | LedgerAction::React | LedgerAction::Unreact => None,
        }
    }
}

/// A content that starts with an id, and whose rest does not compress.
fn content(id: Uuid, len: usize) -> String {
    let mut content = key(id);
    let mut random = StdRng::seed_from_u64(id.as_u64_pair().0);
    let letter = || char::from(random.random_range(b'0'..=b'z'));
    content.extend(std::iter::repeat_with(letter).take(len.saturating_sub(KEY_LEN)));
    content
}

/// Length of the prefix that identifies the send or the edit of a content.
pub(crate) const KEY_LEN: usize = 20;

/// The prefix of the content of a send or an edit.
pub(crate) fn key(id: Uuid) -> String {
    let mut key = id.simple().to_string();
    key.truncate(KEY_LEN);
    key
}
