use std::time::Duration;

use async_trait::async_trait;
use domain::{
    ChatId, ChatName, ChatType, Content, DeviceId, EventId, MessageId, PushDevice, PushTarget, Sequence, Timestamp,
    UserId,
};
use ulid::Ulid;

use crate::{BoxError, Position, StoreError, UnreadCount};

/// Keeps the devices that receive notifications while their users have no connection.
#[async_trait]
pub trait PushDeviceStore: Send + Sync {
    /// Registers a device, replacing its earlier registration. Returns `false` and writes nothing if the user already
    /// has `PUSH_DEVICES_MAX` other devices.
    async fn put(&self, device: PushDevice) -> Result<bool, StoreError>;

    /// Removes a device; `false` if it was not registered.
    async fn remove(&self, user_id: UserId, device_id: DeviceId) -> Result<bool, StoreError>;

    /// The devices of users, in the order of the arguments and then by device id, in one round trip.
    async fn devices(&self, user_ids: &[UserId]) -> Result<Vec<PushDevice>, StoreError>;
}

/// A pending notification for a device: its user had no connection when a message arrived in a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The user to notify.
    pub user_id: UserId,
    /// The chat of the message.
    pub chat_id: ChatId,
    /// The device to notify.
    pub device_id: DeviceId,
    /// The first message of the notification. The sender reads the content from the store at the time of sending.
    pub from: Sequence,
    /// The time at which to send the notification.
    pub due_at: Timestamp,
    /// The number of failed attempts.
    pub attempts: u32,
}

/// The outcome of an attempt to send a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The device was notified. Until `silent_until`, no further notice of this chat becomes pending for it, so that a
    /// burst of messages causes one notification.
    Notified {
        /// The earliest due time of the next notice.
        silent_until: Timestamp,
    },
    /// The attempt failed; the notice is due again at `at`.
    Again {
        /// The time of the next attempt.
        at: Timestamp,
    },
    /// The notice is obsolete.
    Dropped,
}

/// Keeps pending notices durably: at most one per user, chat and device.
///
/// The notify plane adds a notice before it commits the log position of the event, and settles it after the device was
/// notified. A crash therefore may repeat a notification and loses none.
#[async_trait]
pub trait NoticeStore: Send + Sync {
    /// Adds notices. A notice that is already pending stays unchanged. A notice that would be due before the end of the
    /// silence after the last notification is discarded.
    async fn add_notices(&self, notices: Vec<Notice>) -> Result<(), StoreError>;

    /// Takes up to `count` due notices, the longest due first, and postpones them to `again_at`. No other caller takes
    /// them before that time; if they are not settled by then, they are due again. It may return fewer than `count`, or
    /// none, although more are due: the work of one call is bounded, and a notice of the last moment may not be found.
    async fn take_due(&self, now: Timestamp, again_at: Timestamp, count: usize) -> Result<Vec<Notice>, StoreError>;

    /// Records the outcome of a notice. It changes nothing if the notice was settled in the meantime, even if a new
    /// notice from another message on has become pending since.
    async fn settle(&self, notice: &Notice, settled: Settled) -> Result<(), StoreError>;
}

/// A delivery that failed permanently.
///
/// A dead letter refers to the undelivered item and has no copy of it: message content expires (G11), a copy would not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The id; a repetition of the same failure has the same id. Lists are ordered by id.
    pub id: DeadLetterId,
    /// The undelivered item.
    pub what: UndeliveredItem,
    /// The number of attempts.
    pub attempts: u32,
    /// The last error of the receiver, without secrets.
    pub reason: String,
    /// The time at which delivery was given up.
    pub dead_at: Timestamp,
}

/// The id of a dead letter.
pub type DeadLetterId = Ulid;

/// The item that was not delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndeliveredItem {
    /// An event for the application's webhook.
    Event {
        /// The position of the event in the log.
        position: Position,
        /// The id of the event.
        event_id: EventId,
        /// The chat of the event.
        chat_id: ChatId,
    },
    /// A log record that does not decode and therefore reaches no receiver.
    Unreadable {
        /// The position of the record in the log.
        position: Position,
    },
    /// A notification for a device.
    Notification {
        /// The user of the device.
        user_id: UserId,
        /// The device id.
        device_id: DeviceId,
        /// The chat of the notification.
        chat_id: ChatId,
        /// The first message of the notification.
        from: Sequence,
    },
}

/// Keeps failed deliveries for an operator, for 7 days: the retention time of the log.
#[async_trait]
pub trait DeadLetterStore: Send + Sync {
    /// Adds a dead letter. If the id exists, the call changes nothing.
    async fn add_dead_letter(&self, letter: DeadLetter) -> Result<(), StoreError>;

    /// Up to `count` dead letters after `after`, oldest first.
    async fn dead_letters(&self, after: Option<DeadLetterId>, count: usize) -> Result<Vec<DeadLetter>, StoreError>;

    /// One dead letter.
    async fn dead_letter(&self, id: DeadLetterId) -> Result<Option<DeadLetter>, StoreError>;

    /// Deletes a dead letter; `false` if it does not exist.
    async fn remove_dead_letter(&self, id: DeadLetterId) -> Result<bool, StoreError>;
}

/// The content of a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The chat.
    pub chat_id: ChatId,
    /// Its type.
    pub chat_type: ChatType,
    /// The name of the chat, if it has one.
    pub chat_name: Option<ChatName>,
    /// The last message of another user.
    pub message_id: MessageId,
    /// The sequence of that message.
    pub sequence: Sequence,
    /// The sender of that message.
    pub sender_id: UserId,
    /// The sender's name.
    pub sender_name: String,
    /// A prefix of the content, unless the content is opaque or previews are off.
    pub preview: Option<Content>,
    /// The time at which that message was sent.
    pub created_at: Timestamp,
    /// The number of messages of the chat that the user has not read.
    pub unread: UnreadCount,
}

/// Why a notification failed.
#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    /// The device no longer exists at its push service; the caller removes its registration.
    #[error("the device is no longer registered with its push service")]
    Gone,
    /// The push service refused the notification; a retry does not help.
    #[error("the notification was refused")]
    Refused(#[source] BoxError),
    /// The push service is unavailable; a retry may succeed.
    #[error("the notification could not be delivered now")]
    Unavailable {
        /// The error of the attempt.
        #[source]
        source: BoxError,
        /// The delay before the next attempt, if the push service has named one.
        retry_after: Option<Duration>,
    },
}

/// Why a push target cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnusableTarget {
    /// This server does not offer the provider.
    #[error("this server has no `{0}` provider")]
    ProviderOff(&'static str),
    /// The endpoint is not an address that this server calls, or the key is invalid.
    #[error("{0}")]
    Subscription(String),
}

/// Sends a notification to a device. Each call is one attempt.
#[async_trait]
pub trait Notifier: Send + Sync {
    /// Whether this server can notify the target; called before a device is registered.
    fn check(&self, target: &PushTarget) -> Result<(), UnusableTarget>;

    /// Notifies a device. A device may receive a notification twice; the message id identifies a repetition.
    async fn notify(&self, device: &PushDevice, notification: &Notification) -> Result<(), NotifyError>;
}
