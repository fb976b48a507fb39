use std::sync::Arc;

use auth::Auth;
use chats::Accounts;
use domain::{ChatId, Sequence, Timestamp, UserId};
use ports::{
    ChatReader, Clock, MessageReader, Outbox, PushDeviceStore, ReportStore, SessionStore, StoreError, Transitions,
    UserReader, UserWriter, WatermarkStore,
};

/// What operators can look into and change, where the role `api` is.
#[derive(Clone)]
pub(crate) struct Records {
    pub(crate) auth: Auth,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) user_writer: Arc<dyn UserWriter>,
    pub(crate) users: Arc<dyn UserReader>,
    pub(crate) sessions: Arc<dyn SessionStore>,
    pub(crate) chats: Arc<dyn ChatReader>,
    pub(crate) messages: Arc<dyn MessageReader>,
    pub(crate) watermarks: Arc<dyn WatermarkStore>,
    pub(crate) push_devices: Arc<dyn PushDeviceStore>,
    pub(crate) reports: Arc<dyn ReportStore>,
    pub(crate) transitions: Arc<dyn Transitions>,
    /// What is not in the log yet; absent where the log is part of the commit.
    pub(crate) outbox: Option<Arc<dyn Outbox>>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Records {
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Up to where the messages of a chat are known to be in the log.
    pub(super) async fn published(&self, chat_id: ChatId, head: Sequence) -> Result<Sequence, StoreError> {
        let Some(outbox) = &self.outbox else { return Ok(head) };
        let first = outbox.unpublished(chat_id).await?.into_iter().next();
        Ok(first.map_or(head, |event| match &event.body {
            domain::EventBody::MessagePersisted { message, .. } => Sequence(message.sequence.0.saturating_sub(1)),
            _ => head,
        }))
    }

    /// What users are called, in the order asked; their id for whoever is not there any more.
    pub(super) async fn names(&self, user_ids: &[UserId]) -> Result<Vec<String>, StoreError> {
        let users = self.users.users(user_ids).await?.into_iter();
        let name = |(user, user_id): (Option<domain::User>, &UserId)| match user {
            Some(user) => user.display_name.as_str().to_owned(),
            None => user_id.to_string(),
        };
        Ok(users.zip(user_ids).map(name).collect())
    }
}
