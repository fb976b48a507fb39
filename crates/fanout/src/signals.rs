use async_trait::async_trait;
use domain::{ChatId, UserId};
use ports::{Signal, Signals, StoreError};
use protocol::frame::{ServerFrame, TypingIndicator};

use crate::Fanout;
use crate::fanout::Outgoing;

#[async_trait]
impl Signals for Fanout {
    async fn signal(&self, signal: Signal) -> Result<bool, StoreError> {
        match signal {
            Signal::Typing { chat_id, user_id, is_typing } => self.tell_typing(chat_id, user_id, is_typing).await,
            // Only members have watermarks.
            Signal::Receipt { chat_id, user_id, watermarks } => {
                self.receipts.note(chat_id, user_id, watermarks);
                Ok(true)
            }
        }
    }
}

impl Fanout {
    async fn tell_typing(&self, chat_id: ChatId, user_id: UserId, is_typing: bool) -> Result<bool, StoreError> {
        let members = self.members_now(chat_id).await?;
        if !members.contains(&user_id) {
            return Ok(false);
        }
        let others: Vec<UserId> = members.iter().copied().filter(|member| *member != user_id).collect();
        let indicator = ServerFrame::TypingIndicator(TypingIndicator { chat_id, user_id, is_typing });
        let mut outgoing = Outgoing::new();
        self.push(&others, None, || indicator.encode(None), &mut outgoing).await;
        // What is lost of these nobody misses for long.
        drop(self.deliver(outgoing).await);
        Ok(true)
    }
}
