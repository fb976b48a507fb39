use std::sync::Arc;

use auth::Auth;
use chats::Accounts;
use domain::{ChatId, Sequence, Timestamp, UserId};
use ports::{
    ChatReader, Clock, MessageReader, Outbox, PresenceTransitions, PushDeviceStore, ReportStore, RestrictionStore,
    SessionStore, StoreError, UserReader, UserWriter, WatermarkStore,
};

/// The stored records that operators can inspect and change, in processes with the role `api`.
#[derive(Clone)]
pub(crate) struct Records {
    pub(crate) auth: Auth,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) user_writer: Arc<dyn UserWriter>,
    pub(crate) users: Arc<dyn UserReader>,
    pub(crate) sessions: Arc<dyn SessionStore>,
    pub(crate) restrictions: Arc<dyn RestrictionStore>,
    pub(crate) chats: Arc<dyn ChatReader>,
    pub(crate) messages: Arc<dyn MessageReader>,
    pub(crate) watermarks: Arc<dyn WatermarkStore>,
    pub(crate) push_devices: Arc<dyn PushDeviceStore>,
    pub(crate) reports: Arc<dyn ReportStore>,
    pub(crate) transitions: Arc<dyn PresenceTransitions>,
    /// Events that are not in the log yet; absent if the log is part of the commit.
    pub(crate) outbox: Option<Arc<dyn Outbox>>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Records {
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The highest sequence up to which all entries of a chat are known to be in the log.
    pub(super) async fn published(&self, chat_id: ChatId, head: Sequence) -> Result<Sequence, StoreError> {
        let Some(outbox) = &self.outbox else { return Ok(head) };
        let first = outbox.unpublished(chat_id).await?.into_iter().next();
        let first = first.and_then(|event| event.body.sequence());
        Ok(first.map_or(head, |sequence| Sequence(sequence.0.saturating_sub(1))))
    }

    /// The display names of users in the given order; the id if the user no longer exists.
    pub(super) async fn names(&self, user_ids: &[UserId]) -> Result<Vec<String>, StoreError> {
        let users = self.users.users(user_ids).await?.into_iter();
        let name = |(user, user_id): (Option<domain::User>, &UserId)| match user {
            Some(user) => user.display_name.as_str().to_owned(),
            None => user_id.to_string(),
        };
        Ok(users.zip(user_ids).map(name).collect())
    }
}
