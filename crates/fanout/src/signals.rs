use async_trait::async_trait;
use domain::limits::DIRECT_MEMBERS_MAX;
use domain::{ChatId, UserId};
use ports::{Signal, SignalSender, StoreError};
use protocol::frame::{ServerFrame, TypingIndicator};

use crate::Fanout;
use crate::pushes::{GatewayPushes, members_except, push};

#[async_trait]
impl SignalSender for Fanout {
    async fn signal(&self, signal: Signal) -> Result<bool, StoreError> {
        match signal {
            Signal::Typing { chat_id, user_id, is_typing } => self.push_typing(chat_id, user_id, is_typing).await,
            // Only members have watermarks.
            Signal::Receipt { chat_id, user_id, watermarks } => {
                self.receipts.note(chat_id, user_id, watermarks);
                Ok(true)
            }
        }
    }
}

impl Fanout {
    async fn push_typing(&self, chat_id: ChatId, user_id: UserId, is_typing: bool) -> Result<bool, StoreError> {
        let recipients = self.recipients_now(chat_id).await?;
        if !recipients.members.contains(&user_id) {
            return Ok(false);
        }
        if self.is_blocked(chat_id, user_id, &recipients.members).await? {
            return Ok(true);
        }
        let indicator = ServerFrame::TypingIndicator(TypingIndicator { chat_id, user_id, is_typing });
        let mut outgoing = GatewayPushes::new();
        push(members_except(&recipients, Some(user_id)), None, || indicator.encode(None), &mut outgoing);
        // Typing indicators are transient, so failed deliveries are dropped.
        drop(self.deliver(outgoing).await);
        Ok(true)
    }

    /// Whether the chat is a direct chat in which either user has blocked the other. Typing in it is not shown.
    async fn is_blocked(&self, chat_id: ChatId, user_id: UserId, members: &[UserId]) -> Result<bool, StoreError> {
        if members.len() > DIRECT_MEMBERS_MAX {
            return Ok(false);
        }
        Ok(self.chats.blocked_chats(&[(chat_id, user_id)]).await?.contains(&true))
    }
}
