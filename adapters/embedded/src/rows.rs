//! The rows of each table, described once: how a key is named, how a row is decoded, and which other row schedules its
//! purge. [`keys`](crate::keys) and [`records`](crate::records) have the encodings.

use std::fmt::Display;

use domain::limits::{REQUEST_KEY_RETENTION, RETENTION};
use domain::{
    Chat, ChatId, CredentialId, DeliveryState, DeviceId, Invitation, Member, MessageId, OneTimeCode, Passkey,
    PushDevice, Reaction, Report, ReportId, Restrictions, Session, SessionId, Timestamp, User, UserId,
};
use ports::{BoxError, DeadLetter, DeadLetterId, ExportKind, Head, PendingDeletion};

use crate::bookmark::hex;
use crate::keys::{self, Expiring, NoticeKey};
use crate::records::{
    BlockedBy, IdempotentRequest, LogRecord, MessageLocation, SendKey, Stored, StoredNotice, decode_message,
    decode_update,
};
use crate::tables::Table;

/// The row that schedules the purge of a row: its table and key. `None` if a row is kept until a request deletes it.
type PurgeSchedule = Option<(Table, Vec<u8>)>;

type NameKey = fn(&[u8], &[u8]) -> Result<String, BoxError>;
type DecodeRow = fn(&[u8], &[u8]) -> Result<PurgeSchedule, BoxError>;

/// The description of a table's rows.
pub(crate) struct RowFormat {
    name: NameKey,
    decode: DecodeRow,
}

impl RowFormat {
    /// A readable name of a key: its ids, or else its digits.
    pub(crate) fn name(&self, key: &[u8], row: &[u8]) -> String {
        (self.name)(key, row).unwrap_or_else(|_| hex(key))
    }

    /// Decodes a row, and returns the row that schedules its purge.
    pub(crate) fn decode(&self, key: &[u8], row: &[u8]) -> Result<PurgeSchedule, BoxError> {
        (self.decode)(key, row)
    }
}

impl Table {
    /// The table with one row for each exported row of a kind.
    pub(crate) fn exported(kind: ExportKind) -> Self {
        match kind {
            ExportKind::User => Self::Users,
            ExportKind::UserKey => Self::UserKeys,
            ExportKind::Contact => Self::Contacts,
            ExportKind::Session => Self::Sessions,
            ExportKind::PushDevice => Self::PushDevices,
            ExportKind::Chat => Self::Chats,
            ExportKind::Pair => Self::DirectChats,
            ExportKind::Member => Self::Members,
            ExportKind::Message => Self::Messages,
            ExportKind::Send => Self::SendKeys,
            ExportKind::Block => Self::Blocks,
            ExportKind::Restriction => Self::Restrictions,
            ExportKind::Invitation => Self::Invitations,
            ExportKind::Passkey => Self::Passkeys,
            ExportKind::Update => Self::Updates,
            ExportKind::Reactions => Self::Reactions,
        }
    }

    /// The rows of the table.
    pub(crate) fn rows(self) -> RowFormat {
        let (name, decode): (NameKey, DecodeRow) = match self {
            Self::Meta | Self::Consumers => (text, kept::<u64>),
            Self::Users => (|key, _| id(key, keys::parse_user), kept::<User>),
            Self::UserKeys => (sign_in_key, kept::<UserId>),
            Self::Chats => (chat, kept::<Chat>),
            Self::DirectChats => (
                |key, _| Ok(keys::parse_direct(key)?.users().map(|user_id| user_id.to_string()).join(" ")),
                kept::<ChatId>,
            ),
            Self::Watermarks => (membership, kept::<DeliveryState>),
            Self::Members => (
                |key, _| keys::parse_member(key).map(|(chat_id, user_id)| format!("{chat_id} {user_id}")),
                kept::<Member>,
            ),
            Self::Memberships => (membership, kept::<Member>),
            Self::Heads => (chat, kept::<Head>),
            Self::Messages => (
                |key, _| keys::parse_message(key).map(|location| format!("{} {}", location.chat_id, location.sequence)),
                |key, row| {
                    let location = keys::parse_message(key)?;
                    let expires_at = decode_message(location, row)?.expires_at;
                    Ok(expires_at.and_then(|at| expiry(at, Expiring::Message(location))))
                },
            ),
            Self::MessagePlaces => (|key, _| id(key, MessageId::from_bytes), kept::<MessageLocation>),
            Self::SendKeys => (
                |key, _| {
                    let (chat_id, sender_id, client_message_id) = keys::parse_send(key)?;
                    Ok(format!("{chat_id} {sender_id} {client_message_id}"))
                },
                kept::<SendKey>,
            ),
            Self::Log => (
                |key, _| keys::parse_offset(key).map(|offset| offset.to_string()),
                |_, row| LogRecord::decode(row).map(|_| None),
            ),
            Self::Sessions => (
                |key, _| id(key, SessionId::from_bytes),
                |_, row| {
                    let Session { session_id, expires_at, .. } = Session::decode(row)?;
                    Ok(expiry(expires_at, Expiring::Session(session_id)))
                },
            ),
            Self::Devices => (digits, kept::<SessionId>),
            Self::Codes => (digits, |key, row| {
                Ok(expiry(OneTimeCode::decode(row)?.forgettable_at(), Expiring::Code(key.try_into()?)))
            }),
            Self::Requests => (digits, |key, row| {
                let at = IdempotentRequest::decode(row)?.begun_at + REQUEST_KEY_RETENTION;
                Ok(expiry(at, Expiring::Request(keys::parse_request(key)?)))
            }),
            Self::Expiries => (digits, |key, _| keys::parse_expiry(key).map(|_| None)),
            Self::PushDevices => (digits, kept::<PushDevice>),
            Self::Notices => (digits, |key, row| {
                let at = match StoredNotice::decode(row)? {
                    StoredNotice::Pending { due_at, .. } => due_at,
                    StoredNotice::Told { silent_until } => silent_until,
                };
                Ok(Some((Table::NoticesDue, keys::notice_due(at, notice(key)?).to_vec())))
            }),
            Self::NoticesDue => (digits, |key, _| keys::parse_notice_due(key).map(|_| None)),
            Self::DeadLetters => (
                |key, _| id(key, DeadLetterId::from_bytes),
                |_, row| {
                    let DeadLetter { id, dead_at, .. } = DeadLetter::decode(row)?;
                    Ok(expiry(dead_at + RETENTION, Expiring::DeadLetter(id)))
                },
            ),
            Self::Contacts | Self::Blocks => (digits, |key, _| keys::parse_contact(key).map(|_| None)),
            Self::BlockedChats => (chat, kept::<BlockedBy>),
            Self::Reports => (
                |key, _| id(key, ReportId::from_bytes),
                |_, row| {
                    let report = Report::decode(row)?;
                    let index = |end| (Table::ReportIndex, keys::report_end(end, report.report_id).to_vec());
                    Ok(report.ends_at().map(index))
                },
            ),
            Self::ReportIndex => (digits, |key, _| keys::parse_report(key).map(|_| None)),
            Self::Restrictions => (|key, _| id(key, keys::parse_user), kept::<Restrictions>),
            Self::Invitations => (membership, |_, row| {
                let invitation = Invitation::decode(row)?;
                let end = keys::invitation_end(invitation.ends_at(), invitation.user_id, invitation.chat_id);
                Ok(Some((Table::InvitationIndex, end.to_vec())))
            }),
            Self::InvitationIndex => (digits, |key, _| keys::parse_invitation(key).map(|_| None)),
            Self::Passkeys => (
                |_, row| Passkey::decode(row).map(|passkey| format!("{} {}", passkey.user_id, passkey.passkey_id)),
                |key, row| match Passkey::decode(row)? {
                    passkey if passkey.credential_id.as_bytes() == key => Ok(None),
                    _ => Err("a passkey with the key of another one".into()),
                },
            ),
            Self::PasskeyIndex => (
                |key, _| keys::parse_passkey(key).map(|(user_id, passkey_id)| format!("{user_id} {passkey_id}")),
                kept::<CredentialId>,
            ),
            Self::Deletions => (digits, kept::<PendingDeletion>),
            Self::Updates => (
                |key, _| keys::parse_message(key).map(|location| format!("{} {}", location.chat_id, location.sequence)),
                |key, row| {
                    let location = keys::parse_message(key)?;
                    let expires_at = decode_update(location, row)?.expires_at;
                    Ok(expires_at.and_then(|at| expiry(at, Expiring::Update(location))))
                },
            ),
            Self::Reactions => (
                |key, _| {
                    let (location, user_id) = keys::parse_reactions(key)?;
                    Ok(format!("{} {} {user_id}", location.chat_id, location.sequence))
                },
                kept::<Vec<Reaction>>,
            ),
        };
        RowFormat { name, decode }
    }
}

/// Decodes a row that no other row schedules.
fn kept<R: Stored>(_: &[u8], row: &[u8]) -> Result<PurgeSchedule, BoxError> {
    R::decode(row).map(|_| None)
}

fn expiry(at: Timestamp, what: Expiring) -> PurgeSchedule {
    Some((Table::Expiries, keys::expiry(at, what)))
}

fn notice(key: &[u8]) -> Result<NoticeKey, BoxError> {
    let (membership, device_id) = key.split_at_checked(32).ok_or("a notice without a device")?;
    let (user_id, chat_id) = keys::parse_listing(membership)?;
    Ok(NoticeKey { user_id, chat_id, device_id: DeviceId::from_bytes(device_id.try_into()?) })
}

/// Names a key that is one id.
fn id<T: Display>(key: &[u8], parse: fn([u8; 16]) -> T) -> Result<String, BoxError> {
    Ok(parse(key.try_into()?).to_string())
}

fn chat(key: &[u8], _: &[u8]) -> Result<String, BoxError> {
    id(key, keys::parse_chat)
}

fn membership(key: &[u8], _: &[u8]) -> Result<String, BoxError> {
    keys::parse_listing(key).map(|(user_id, chat_id)| format!("{user_id} {chat_id}"))
}

fn text(key: &[u8], _: &[u8]) -> Result<String, BoxError> {
    Ok(std::str::from_utf8(key)?.to_owned())
}

fn digits(key: &[u8], _: &[u8]) -> Result<String, BoxError> {
    Ok(hex(key))
}

/// A sign-in key contains a phone number, so its name is the user.
fn sign_in_key(_: &[u8], row: &[u8]) -> Result<String, BoxError> {
    Ok(UserId::decode(row).map_or("a sign-in key".to_owned(), |user_id| format!("a sign-in key of {user_id}")))
}
