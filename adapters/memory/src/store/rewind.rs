use domain::{ChatId, ClientMessageId, Sequence, UserId};
use ports::{NewMessage, Receipt};

use super::{MemoryStore, State};

/// Everything that a store held at one moment.
pub struct Snapshot(State);

/// For those who show what a broken store does: one that forgets, and one whose writers do not wait for each other.
impl MemoryStore {
    /// What the store holds now.
    pub fn snapshot(&self) -> Snapshot {
        self.transaction(|state| Snapshot(state.clone()))
    }

    /// Forgets everything that was written since.
    pub fn restore(&self, snapshot: Snapshot) {
        self.transaction(|state| *state = snapshot.0);
    }

    /// What the sender of a send was told, if it was committed.
    pub fn committed_send(
        &self,
        chat_id: ChatId,
        sender_id: UserId,
        client_message_id: ClientMessageId,
    ) -> Option<Receipt> {
        let key = (sender_id, client_message_id);
        self.transaction(|state| Some(state.chats.get(&chat_id)?.sends.get(&key)?.receipt))
    }

    /// Writes a message at a place, whatever the rules; `None` if there is no such chat.
    pub fn force(&self, send: NewMessage, sequence: Sequence) -> Option<Receipt> {
        self.transaction(|state| state.chats.contains_key(&send.chat_id).then(|| state.write_message(send, sequence)))
    }
}
