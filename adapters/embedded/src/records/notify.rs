use std::borrow::Cow;

use domain::{
    ChatId, DeviceId, EventId, PushDevice, PushTarget, PushToken, Sequence, Timestamp, UserId, WebPushSubscription,
};
use ports::{BoxError, DeadLetter, DeadLetterId, Position, UndeliveredItem};
use serde::{Deserialize, Serialize};

use super::{IdBytes, Millis, Stored, from_bytes, to_bytes};

#[derive(Serialize, Deserialize)]
struct PushDeviceRecord<'a> {
    user_id: UserId,
    device_id: DeviceId,
    target: PushTargetRow<'a>,
    registered_at: Millis,
}

#[derive(Serialize, Deserialize)]
enum PushTargetRow<'a> {
    Webhook { token: Cow<'a, str> },
    WebPush { endpoint: Cow<'a, str>, p256dh: Cow<'a, [u8]>, auth: [u8; 16] },
}

impl Stored for PushDevice {
    fn encode(&self) -> Vec<u8> {
        let target = match &self.target {
            PushTarget::Webhook(token) => PushTargetRow::Webhook { token: Cow::Borrowed(token.as_str()) },
            PushTarget::WebPush(subscription) => PushTargetRow::WebPush {
                endpoint: Cow::Borrowed(subscription.endpoint()),
                p256dh: Cow::Borrowed(subscription.p256dh()),
                auth: *subscription.auth(),
            },
        };
        to_bytes(&PushDeviceRecord {
            user_id: self.user_id,
            device_id: self.device_id,
            target,
            registered_at: self.registered_at.as_millis(),
        })
    }

    fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        let row: PushDeviceRecord<'static> = from_bytes(bytes)?;
        let target = match row.target {
            PushTargetRow::Webhook { token } => PushTarget::Webhook(PushToken::try_from(token.into_owned())?),
            PushTargetRow::WebPush { endpoint, p256dh, auth } => {
                PushTarget::WebPush(WebPushSubscription::new(endpoint.into_owned(), &p256dh, &auth)?)
            }
        };
        Ok(Self {
            user_id: row.user_id,
            device_id: row.device_id,
            target,
            registered_at: Timestamp::from_millis(row.registered_at),
        })
    }
}

/// State of the notice of a chat for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredNotice {
    Pending { from: Sequence, due_at: Timestamp, attempts: u32 },
    Told { silent_until: Timestamp },
}

#[derive(Serialize, Deserialize)]
enum NoticeRow {
    Pending { from: u64, due_at: Millis, attempts: u32 },
    Told { silent_until: Millis },
}

impl Stored for StoredNotice {
    fn encode(&self) -> Vec<u8> {
        to_bytes(&match *self {
            Self::Pending { from, due_at, attempts } => {
                NoticeRow::Pending { from: from.0, due_at: due_at.as_millis(), attempts }
            }
            Self::Told { silent_until } => NoticeRow::Told { silent_until: silent_until.as_millis() },
        })
    }

    fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        Ok(match from_bytes(bytes)? {
            NoticeRow::Pending { from, due_at, attempts } => {
                Self::Pending { from: Sequence(from), due_at: Timestamp::from_millis(due_at), attempts }
            }
            NoticeRow::Told { silent_until } => Self::Told { silent_until: Timestamp::from_millis(silent_until) },
        })
    }
}

#[derive(Serialize, Deserialize)]
struct DeadLetterRow<'a> {
    id: IdBytes,
    what: UndeliveredRow,
    attempts: u32,
    reason: Cow<'a, str>,
    dead_at: Millis,
}

#[derive(Serialize, Deserialize)]
enum UndeliveredRow {
    Event { position: u64, event_id: EventId, chat_id: ChatId },
    Unreadable { position: u64 },
    Notification { user_id: UserId, device_id: DeviceId, chat_id: ChatId, from: u64 },
}

impl Stored for DeadLetter {
    fn encode(&self) -> Vec<u8> {
        let what = match &self.what {
            UndeliveredItem::Event { position, event_id, chat_id } => {
                UndeliveredRow::Event { position: position.0, event_id: *event_id, chat_id: *chat_id }
            }
            UndeliveredItem::Unreadable { position } => UndeliveredRow::Unreadable { position: position.0 },
            UndeliveredItem::Notification { user_id, device_id, chat_id, from } => UndeliveredRow::Notification {
                user_id: *user_id,
                device_id: *device_id,
                chat_id: *chat_id,
                from: from.0,
            },
        };
        to_bytes(&DeadLetterRow {
            id: self.id.to_bytes(),
            what,
            attempts: self.attempts,
            reason: Cow::Borrowed(&self.reason),
            dead_at: self.dead_at.as_millis(),
        })
    }

    fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        let row: DeadLetterRow<'static> = from_bytes(bytes)?;
        let what = match row.what {
            UndeliveredRow::Event { position, event_id, chat_id } => {
                UndeliveredItem::Event { position: Position(position), event_id, chat_id }
            }
            UndeliveredRow::Unreadable { position } => UndeliveredItem::Unreadable { position: Position(position) },
            UndeliveredRow::Notification { user_id, device_id, chat_id, from } => {
                UndeliveredItem::Notification { user_id, device_id, chat_id, from: Sequence(from) }
            }
        };
        Ok(Self {
            id: DeadLetterId::from_bytes(row.id),
            what,
            attempts: row.attempts,
            reason: row.reason.into_owned(),
            dead_at: Timestamp::from_millis(row.dead_at),
        })
    }
}
