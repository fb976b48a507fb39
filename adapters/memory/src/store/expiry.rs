use async_trait::async_trait;
use domain::{ChatId, Sequence, Timestamp};
use ports::{AuditSource, ChatIdPage, Expiry, ExpiryProgress, MessageExpirer, PageBookmark, StoreError};

use super::{ChatState, MemoryStore};

/// Maximum number of messages that one step examines.
const STEP_LEN_MAX: usize = 500;

#[async_trait]
impl MessageExpirer for MemoryStore {
    async fn expire(
        &self,
        chat_id: ChatId,
        from: Sequence,
        which: Expiry,
        now: Timestamp,
    ) -> Result<ExpiryProgress, StoreError> {
        Ok(self.transaction(|state| match state.chats.get_mut(&chat_id) {
            Some(chat) => chat.shorten(from, which, now),
            None => ExpiryProgress { messages: 0, next: None },
        }))
    }

    async fn chat_ids(&self, after: Option<&PageBookmark>, count: usize) -> Result<ChatIdPage, StoreError> {
        Ok(self.chats(after, count).await?.into())
    }
}

impl ChatState {
    fn shorten(&mut self, from: Sequence, which: Expiry, now: Timestamp) -> ExpiryProgress {
        let mut shortened = ExpiryProgress { messages: 0, next: None };
        for (looked_at, (sequence, message)) in self.messages.range_mut(from..).enumerate() {
            if looked_at == STEP_LEN_MAX {
                shortened.next = Some(*sequence);
                break;
            }
            let Some(end) = which.end_of(message, now) else { continue };
            message.expires_at = Some(end);
            shortened.messages += 1;
            let last = self.head.as_mut().and_then(|head| head.last_message.as_mut());
            if let Some(last) = last.filter(|last| last.sequence == *sequence) {
                last.expires_at = Some(end);
            }
        }
        shortened
    }
}
