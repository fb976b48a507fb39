use async_trait::async_trait;
use domain::{Advance, ChatId, DeliveryState, Sequence, Timestamp, UserId, WatermarkKind};
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
        at: Timestamp,
    ) -> Result<Advance, StoreError> {
        Ok(self.transaction(|state| {
            let Some(chat) = state.chats.get_mut(&chat_id) else {
                return Advance::ChatNotFound;
            };
            if !chat.members.contains_key(&user_id) {
                return Advance::NotAMember;
            }
            let head = chat.head_sequence();
            let stored = chat.delivery_states.entry(user_id).or_default();
            let advance = stored.watermarks.advance(kind, to, head);
            if let Advance::Moved(moved) = advance {
                *stored = stored.moved(moved, at);
            }
            advance
        }))
    }

    async fn delivery_states(&self, of: &[(UserId, ChatId)]) -> Result<Vec<DeliveryState>, StoreError> {
        let stored = |state: &MemoryStoreState, user_id, chat_id| {
            state.chats.get(chat_id)?.delivery_states.get(user_id).copied()
        };
        Ok(self.transaction(|state| {
            of.iter().map(|(user_id, chat_id)| stored(state, user_id, chat_id).unwrap_or_default()).collect()
        }))
    }
}
