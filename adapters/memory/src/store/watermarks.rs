use async_trait::async_trait;
use domain::{Advance, ChatId, Sequence, UserId, WatermarkKind, Watermarks};
use ports::{StoreError, WatermarkStore};

use super::{MemoryStore, MemoryStoreState};

#[async_trait]
impl WatermarkStore for MemoryStore {
    async fn advance(
        &self,
        user_id: UserId,
        chat_id: ChatId,
        kind: WatermarkKind,
        to: Sequence,
    ) -> Result<Advance, StoreError> {
        Ok(self.transaction(|state| {
            let Some(chat) = state.chats.get_mut(&chat_id) else {
                return Advance::ChatNotFound;
            };
            if !chat.members.contains_key(&user_id) {
                return Advance::NotAMember;
            }
            let head = chat.head_sequence();
            let watermarks = chat.watermarks.entry(user_id).or_default();
            let advance = watermarks.advance(kind, to, head);
            if let Advance::Moved(moved) = advance {
                *watermarks = moved;
            }
            advance
        }))
    }

    async fn watermarks(&self, of: &[(UserId, ChatId)]) -> Result<Vec<Watermarks>, StoreError> {
        let watermarks =
            |state: &MemoryStoreState, user_id, chat_id| state.chats.get(chat_id)?.watermarks.get(user_id).copied();
        Ok(self.transaction(|state| {
            of.iter().map(|(user_id, chat_id)| watermarks(state, user_id, chat_id).unwrap_or_default()).collect()
        }))
    }
}
