use domain::{ChatId, ClientMessageId, Sequence, UserId};
use ports::{NewMessage, Receipt};

use super::{MemoryStore, MemoryStoreState};

/// The whole state of a store at one moment.
pub struct Snapshot(MemoryStoreState);

/// Fault injection for tests of broken stores: lost writes and conflicting writers.
impl MemoryStore {
    /// A copy of the current state.
    pub fn snapshot(&self) -> Snapshot {
        self.transaction(|state| Snapshot(state.clone()))
    }

    /// Restores a snapshot, so all later writes are lost.
    pub fn restore(&self, snapshot: Snapshot) {
        self.transaction(|state| *state = snapshot.0);
    }

    /// Loses the number of changes of a chat, as a process that rewrites the head row without a field that it does not
    /// know.
    pub fn forget_changes(&self, chat_id: ChatId) {
        self.transaction(|state| {
            let head = state.chats.get_mut(&chat_id).and_then(|chat| chat.head.as_mut());
            head.into_iter().for_each(|head| head.changes = 0);
        });
    }

    /// The receipt of a send, if it was committed.
    pub fn committed_send(
        &self,
        chat_id: ChatId,
        sender_id: UserId,
        client_message_id: ClientMessageId,
    ) -> Option<Receipt> {
        let key = (sender_id, client_message_id);
        self.transaction(|state| Some(state.chats.get(&chat_id)?.sends.get(&key)?.receipt))
    }

    /// Writes a message at a sequence without any checks; `None` if the chat does not exist.
    pub fn force(&self, send: NewMessage, sequence: Sequence) -> Option<Receipt> {
        self.transaction(|state| state.chats.contains_key(&send.chat_id).then(|| state.write_message(send, sequence)))
    }
}
