use std::sync::Arc;
use std::time::Duration;

use auth::Auth;
use domain::{ChatId, Member, Quota, Timestamp, User, UserId};
use ports::{
    BlockStore, ChatReader, ChatWriter, Clock, ContactStore, Ids, Ingest, MemberCache, MessageReader, Notifier,
    PushDeviceStore, RateLimiter, ReportStore, RequestStore, UserReader, UserWriter, WatermarkStore,
};
use presence::Presence;
use protocol::ErrorCode;

use crate::Accounts;
use crate::http::ApiError;

/// What the routes need from the world.
pub struct Api {
    /// Says who is asking, and signs people in.
    pub auth: Auth,
    /// Sends messages and moves watermarks.
    pub ingest: Arc<dyn Ingest>,
    /// Reads messages.
    pub messages: Arc<dyn MessageReader>,
    /// Reads chats and members.
    pub chats: Arc<dyn ChatReader>,
    /// Changes chats and members.
    pub chat_writer: Arc<dyn ChatWriter>,
    /// What is remembered of members, to be forgotten when they change.
    pub members: Arc<dyn MemberCache>,
    /// Reads users.
    pub users: Arc<dyn UserReader>,
    /// Changes users.
    pub user_writer: Arc<dyn UserWriter>,
    /// Keeps whom users have listed.
    pub contacts: Arc<dyn ContactStore>,
    /// Keeps whom users have blocked.
    pub blocks: Arc<dyn BlockStore>,
    /// Keeps what users report.
    pub reports: Arc<dyn ReportStore>,
    /// Exports and deletes accounts.
    pub accounts: Arc<Accounts>,
    /// Says who sees whom, and tells them when that changes.
    pub presence: Arc<Presence>,
    /// Reads watermarks.
    pub watermarks: Arc<dyn WatermarkStore>,
    /// Keeps which devices are told of messages.
    pub push_devices: Arc<dyn PushDeviceStore>,
    /// Tells them; asked here whether it could.
    pub notifier: Arc<dyn Notifier>,
    /// The public key of our notifications to browsers, if they are on.
    pub web_push_public_key: Option<String>,
    /// Remembers requests by idempotency key.
    pub requests: Arc<dyn RequestStore>,
    /// Counts requests.
    pub limiter: Arc<dyn RateLimiter>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Makes ids.
    pub ids: Arc<dyn Ids>,
    /// How often what may be asked for.
    pub limits: Limits,
}

/// The limits of `[limits]` that are checked here; `None` is off.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// GET requests of a user, and questions about presence.
    pub rest_read: Option<Quota>,
    /// All other requests of a user.
    pub rest_write: Option<Quota>,
    /// Phone numbers that a user looks up.
    pub lookup_numbers: Option<Quota>,
    /// Sends of a user into a chat.
    pub send_per_chat: Option<Quota>,
    /// Sends of a user.
    pub send_per_user: Option<Quota>,
    /// Exports of a user's account.
    pub exports: Option<Quota>,
}

impl Default for Limits {
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        let second = Duration::from_secs(1);
        Self {
            rest_read: Quota::per(300, minute),
            rest_write: Quota::per(60, minute),
            lookup_numbers: Quota::per(1000, 24 * 60 * minute),
            send_per_chat: Quota::with_burst(10, second, 20),
            send_per_user: Quota::per(30, second),
            exports: Quota::per(3, Duration::from_secs(24 * 3600)),
        }
    }
}

impl Api {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A user's place in a chat, or the answer for those who have none: 404 if there is no such chat, 403 if there is.
    pub(crate) async fn membership(&self, chat_id: ChatId, user_id: UserId) -> Result<Member, ApiError> {
        if let Some(member) = self.chats.member(chat_id, user_id).await? {
            return Ok(member);
        }
        Err(match self.chats.chat(chat_id).await? {
            Some(_) => ApiError::new(ErrorCode::NotAMember, "you are not a member of this chat"),
            None => ApiError::new(ErrorCode::NotFound, "no such chat"),
        })
    }

    /// One user whose account was not deleted, if there is such a user: nobody is added to anything who is gone.
    pub(crate) async fn living_user(&self, user_id: UserId) -> Result<Option<User>, ApiError> {
        Ok(self.user(user_id).await?.filter(|user| user.deleted_at.is_none()))
    }

    /// One user, if there is such a user. Of a deleted account it is the tombstone.
    pub(crate) async fn user(&self, user_id: UserId) -> Result<Option<User>, ApiError> {
        Ok(self.users.users(&[user_id]).await?.pop().flatten())
    }
}
