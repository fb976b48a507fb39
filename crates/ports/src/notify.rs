use std::time::Duration;

use async_trait::async_trait;
use domain::{
    ChatId, ChatName, ChatType, Content, DeviceId, EventId, MessageId, PushDevice, PushTarget, Sequence, Timestamp,
    UserId,
};
use ulid::Ulid;

use crate::{BoxError, Position, StoreError};

/// Keeps which devices are to be told of messages while their users have no connection.
#[async_trait]
pub trait PushDeviceStore: Send + Sync {
    /// Registers a device, in the place of what was registered for it before. `false`, and nothing is written, if the
    /// user has `PUSH_DEVICES_MAX` other devices registered.
    async fn put(&self, device: PushDevice) -> Result<bool, StoreError>;

    /// Forgets a device; `false` if it was not registered.
    async fn remove(&self, user_id: UserId, device_id: DeviceId) -> Result<bool, StoreError>;

    /// The devices of users, in the order of the users asked for and then of device ids, in one round.
    async fn devices(&self, user_ids: &[UserId]) -> Result<Vec<PushDevice>, StoreError>;
}

/// A notification that is owed to a device: its user was away when somebody wrote in a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Whom to tell.
    pub user_id: UserId,
    /// About which chat.
    pub chat_id: ChatId,
    /// On which device.
    pub device_id: DeviceId,
    /// The first message it is for. What is said is decided when it is sent, from what the store has then.
    pub from: Sequence,
    /// When to send it.
    pub due_at: Timestamp,
    /// Tries that have failed.
    pub attempts: u32,
}

/// What has become of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The device was told. It is owed nothing more about this chat before this moment: one burst, one notification.
    Told {
        /// When the next notice may be owed.
        silent_until: Timestamp,
    },
    /// It failed and is due again then.
    Again {
        /// When.
        at: Timestamp,
    },
    /// There is nothing more to tell.
    Dropped,
}

/// Keeps the notices that are owed, durably: at most one for each user, chat and device.
///
/// A notice is owed before the event it comes from is committed as processed, and settled after the device was told, so
/// a crash repeats a notification and loses none.
#[async_trait]
pub trait NoticeStore: Send + Sync {
    /// Owes notices. One that is owed already stays as it is, and so does one that is silent when the new one is due.
    async fn owe(&self, notices: Vec<Notice>) -> Result<(), StoreError>;

    /// Takes up to `count` notices that are due, the longest due first, and puts them off until `again_at`: nobody else
    /// takes them before, and if they are not settled by then they are due again. Fewer than `count` may be taken while
    /// more are due, so that one call is bounded work.
    async fn take_due(&self, now: Timestamp, again_at: Timestamp, count: usize) -> Result<Vec<Notice>, StoreError>;

    /// Says what has become of a notice. One that is gone meanwhile stays gone, and one that was owed anew meanwhile, from
    /// another message on, stays owed.
    async fn settle(&self, notice: &Notice, settled: Settled) -> Result<(), StoreError>;
}

/// Something that could not be delivered and is no longer tried.
///
/// It names what was to be delivered and does not hold it: contents expire (G11), and a second copy would not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its id, which a repetition of the same failure bears again. Lists are in its order.
    pub id: DeadLetterId,
    /// What it is.
    pub what: Undelivered,
    /// How often it was tried.
    pub attempts: u32,
    /// What the receiver said last, without secrets.
    pub reason: String,
    /// When it was given up.
    pub dead_at: Timestamp,
}

/// The id of a dead letter.
pub type DeadLetterId = Ulid;

/// What was not delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undelivered {
    /// An event, to the application's webhook.
    Event {
        /// Where it is in the log.
        position: Position,
        /// Which it is.
        event_id: EventId,
        /// The chat it is of.
        chat_id: ChatId,
    },
    /// A record of the log that cannot be read, to anybody.
    Unreadable {
        /// Where it is in the log.
        position: Position,
    },
    /// A notification, to a device.
    Notification {
        /// Whose device.
        user_id: UserId,
        /// Which.
        device_id: DeviceId,
        /// About which chat.
        chat_id: ChatId,
        /// The first message it was for.
        from: Sequence,
    },
}

/// Keeps what could not be delivered for somebody to look at, for 7 days: as long as the log could repeat it.
#[async_trait]
pub trait DeadLetterStore: Send + Sync {
    /// Keeps a dead letter. The same id again changes nothing.
    async fn bury(&self, letter: DeadLetter) -> Result<(), StoreError>;

    /// Up to `count` dead letters behind `after`, oldest first.
    async fn dead_letters(&self, after: Option<DeadLetterId>, count: usize) -> Result<Vec<DeadLetter>, StoreError>;

    /// One dead letter.
    async fn dead_letter(&self, id: DeadLetterId) -> Result<Option<DeadLetter>, StoreError>;

    /// Forgets a dead letter; `false` if there is none.
    async fn forget(&self, id: DeadLetterId) -> Result<bool, StoreError>;
}

/// What a device is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The chat.
    pub chat_id: ChatId,
    /// Its type.
    pub chat_type: ChatType,
    /// Its name, if it has one.
    pub chat_name: Option<ChatName>,
    /// The last message that is not the user's own.
    pub message_id: MessageId,
    /// Its sequence.
    pub sequence: Sequence,
    /// Who sent it.
    pub sender_id: UserId,
    /// The sender's name.
    pub sender_name: String,
    /// The start of it, unless it is opaque or previews are off.
    pub preview: Option<Content>,
    /// When it was sent.
    pub created_at: Timestamp,
    /// How many messages of the chat the user has not read.
    pub unread_count: u64,
}

/// Why a device was not told.
#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    /// The device is not there any more: its registration is to be forgotten.
    #[error("the device is no longer registered with its push service")]
    Gone,
    /// Trying again does not help.
    #[error("the notification was refused")]
    Refused(#[source] BoxError),
    /// It may work later.
    #[error("the notification could not be delivered now")]
    Unavailable {
        /// What happened.
        #[source]
        source: BoxError,
        /// When to try again, if somebody has said so.
        retry_after: Option<Duration>,
    },
}

/// Why a device cannot be told in the way it asks for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnusableTarget {
    /// This service does not offer the provider.
    #[error("this server has no `{0}` provider")]
    ProviderOff(&'static str),
    /// The address is none that this service calls, or the key is none.
    #[error("{0}")]
    Subscription(String),
}

/// Tells a device that something waits for its user. One call is one try.
#[async_trait]
pub trait Notifier: Send + Sync {
    /// Whether devices can be told like this; asked before one is registered.
    fn check(&self, target: &PushTarget) -> Result<(), UnusableTarget>;

    /// Tells a device. A device may be told more than once; the message's id says so.
    async fn notify(&self, device: &PushDevice, notification: &Notification) -> Result<(), NotifyError>;
}
