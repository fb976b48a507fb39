use async_trait::async_trait;
use domain::{Advance, ChatId, DeliveryState, Sequence, Timestamp, UserId, WatermarkKind};
use ports::{StoreError, WatermarkStore};

use crate::EmbeddedStore;
use crate::keys;
use crate::messages::last_sequence;
use crate::tables::Table;

#[async_trait]
impl WatermarkStore for EmbeddedStore {
    async fn advance(
        &self,
        user_id: UserId,
        chat_id: ChatId,
        kind: WatermarkKind,
        to: Sequence,
        at: Timestamp,
    ) -> Result<Advance, StoreError> {
        self.write(move |tx| {
            if tx.get_bytes(Table::Members, &keys::member(chat_id, user_id))?.is_none() {
                let chat = tx.get_bytes(Table::Chats, &keys::chat(chat_id))?;
                return Ok(if chat.is_some() { Advance::NotAMember } else { Advance::ChatNotFound });
            }
            let key = keys::membership(user_id, chat_id);
            let stored: DeliveryState = tx.get(Table::Watermarks, &key)?.unwrap_or_default();
            let head = match tx.counter(chat_id)? {
                Some(counter) => counter.sequence,
                None => last_sequence(&tx.committed(), chat_id)?,
            };
            let advance = stored.watermarks.advance(kind, to, head);
            if let Advance::Moved(moved) = advance {
                tx.put(Table::Watermarks, &key, &stored.moved(moved, at));
            }
            Ok(advance)
        })
        .await
    }

    async fn delivery_states(&self, of: &[(UserId, ChatId)]) -> Result<Vec<DeliveryState>, StoreError> {
        let keys: Vec<_> = of.iter().map(|(user_id, chat_id)| keys::membership(*user_id, *chat_id)).collect();
        self.read(move |tables| {
            let view = tables.view();
            keys.iter().map(|key| Ok(view.get(Table::Watermarks, key)?.unwrap_or_default())).collect()
        })
        .await
    }
}
