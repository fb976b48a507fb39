use std::sync::Arc;
use std::time::Duration;

use auth::Auth;
use domain::{ChatId, Member, Quota, Timestamp, User, UserId};
use ports::{
    BlockStore, ChatReader, ChatWriter, Clock, ContactStore, Ids, Ingest, InvitationStore, MemberCache, MessageReader,
    Notifier, PushDeviceStore, RateLimiter, ReportStore, RequestStore, SecurityEvents, UserReader, UserWriter,
    WatermarkStore,
};
use presence::Presence;
use protocol::ErrorCode;

use crate::Accounts;
use crate::http::RestError;

/// The dependencies of the routes.
pub struct Api {
    /// Authenticates callers and signs users in.
    pub auth: Auth,
    /// Sends messages and moves watermarks.
    pub ingest: Arc<dyn Ingest>,
    /// Reads messages.
    pub messages: Arc<dyn MessageReader>,
    /// Reads chats and members.
    pub chats: Arc<dyn ChatReader>,
    /// Changes chats and members.
    pub chat_writer: Arc<dyn ChatWriter>,
    /// Cache of chat members, invalidated when they change.
    pub members: Arc<dyn MemberCache>,
    /// Reads users.
    pub users: Arc<dyn UserReader>,
    /// Changes users.
    pub user_writer: Arc<dyn UserWriter>,
    /// Stores contacts.
    pub contacts: Arc<dyn ContactStore>,
    /// Stores blocks.
    pub blocks: Arc<dyn BlockStore>,
    /// Stores invitations to groups.
    pub invitations: Arc<dyn InvitationStore>,
    /// Stores reports.
    pub reports: Arc<dyn ReportStore>,
    /// Exports and deletes accounts.
    pub accounts: Arc<Accounts>,
    /// Decides who may see whose presence, and notifies viewers when that changes.
    pub presence: Arc<Presence>,
    /// Reads watermarks.
    pub watermarks: Arc<dyn WatermarkStore>,
    /// Stores the devices that receive notifications.
    pub push_devices: Arc<dyn PushDeviceStore>,
    /// Sends notifications; used here only to check push targets.
    pub notifier: Arc<dyn Notifier>,
    /// The public key for Web Push, if it is on.
    pub web_push_public_key: Option<String>,
    /// Stores requests by idempotency key.
    pub requests: Arc<dyn RequestStore>,
    /// Counts requests against their limits.
    pub limiter: Arc<dyn RateLimiter>,
    /// Records changes of roles.
    pub security: Arc<dyn SecurityEvents>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// The age up to which authors edit and delete their messages, as ingest applies it; unlimited if absent.
    pub update_window: Option<Duration>,
    /// Generates ids.
    pub ids: Arc<dyn Ids>,
    /// The rate limits.
    pub limits: Limits,
}

/// The limits of `[limits]` that this crate checks; `None` is off.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// GET requests and presence queries of a user.
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
    /// Groups that a user creates.
    pub groups_created: Option<Quota>,
    /// Members that a user adds to groups.
    pub members_added: Option<Quota>,
    /// Kibibytes of messages that a user sends.
    pub message_kib: Option<Quota>,
    /// Kibibytes of messages of all users.
    pub message_kib_total: Option<Quota>,
    /// Chats of a user; with more, the user opens no new one.
    pub chats_per_user: Option<usize>,
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
            exports: Quota::per(3, 24 * 60 * minute),
            groups_created: Quota::per(100, 24 * 60 * minute),
            members_added: Quota::per(2000, 24 * 60 * minute),
            message_kib: Quota::per(256 * 1024, 24 * 60 * minute),
            message_kib_total: None,
            chats_per_user: Some(5000),
        }
    }
}

impl Api {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A user's membership of a chat. Without one the error is 404 if there is no such chat, and 403 otherwise.
    pub(crate) async fn membership(&self, chat_id: ChatId, user_id: UserId) -> Result<Member, RestError> {
        if let Some(member) = self.chats.member(chat_id, user_id).await? {
            return Ok(member);
        }
        Err(match self.chats.chat(chat_id).await? {
            Some(_) => RestError::new(ErrorCode::NotAMember, "you are not a member of this chat"),
            None => RestError::new(ErrorCode::NotFound, "no such chat"),
        })
    }

    /// A user with an account that is not deleted: deleted accounts cannot be added to groups or contacts.
    pub(crate) async fn living_user(&self, user_id: UserId) -> Result<Option<User>, RestError> {
        Ok(self.user(user_id).await?.filter(|user| user.deleted_at.is_none()))
    }

    /// A user, if there is one. For a deleted account this is the tombstone.
    pub(crate) async fn user(&self, user_id: UserId) -> Result<Option<User>, RestError> {
        Ok(self.users.users(&[user_id]).await?.pop().flatten())
    }
}
