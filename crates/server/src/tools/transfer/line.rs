//! The lines of an export file; `docs/moving.md` specifies them. The format is a public interface, so the lines have
//! types of their own, and every field is validated on import.

mod read;

use std::collections::BTreeMap;

use domain::{
    Chat, ChatId, ChatType, ClientMessageId, ContentType, DeviceId, GroupInvites, MessageId, MessageState, Metadata,
    PasskeyId, PresenceVisibility, PushTarget, Reaction, ReactionCount, Restrictions, Role, Sequence, Session,
    SessionId, SpentToken, Timestamp, TokenChain, UserId,
};
use ports::{Head, LastMessage, Moved, UserKey};
use serde::{Deserialize, Serialize};

/// One line. It has no `Debug`, because it contains message contents.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", content = "row", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum ExportLine {
    Header(ExportHeaderRow),
    User(ExportUserRow),
    UserKey(ExportUserKeyRow),
    Contact(ExportContactRow),
    Session(ExportSessionRow),
    PushDevice(ExportPushDeviceRow),
    Chat(ExportChatRow),
    Pair(ExportPairRow),
    Member(ExportMemberRow),
    Message(ExportMessageRow),
    Send(ExportSendRow),
    Block(ExportBlockRow),
    Restriction(ExportRestrictionRow),
    Invitation(ExportInvitationRow),
    Passkey(ExportPasskeyRow),
    Update(ExportUpdateRow),
    Reactions(ExportReactionsRow),
    Checksum(ExportChecksumRow),
    Trailer(ExportTrailerRow),
}

/// The first line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportHeaderRow {
    pub(super) format: String,
    pub(super) version: u32,
    pub(super) exported_at: Timestamp,
    /// The engine of the exported store.
    pub(super) from: String,
    /// The version of tidings that wrote it.
    pub(super) tidings: String,
}

/// A checksum of all lines so far.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportChecksumRow {
    pub(super) sha256: String,
}

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportTrailerRow {
    /// Number of rows by kind.
    pub(super) rows: BTreeMap<String, u64>,
    pub(super) sha256: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportUserRow {
    user_id: UserId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    phone_number: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    external_id: Option<String>,
    display_name: String,
    presence_visibility: PresenceVisibility,
    #[serde(default, skip_serializing_if = "admits_everyone")]
    group_invites: GroupInvites,
    created_at: Timestamp,
    updated_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_seen_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deleted_at: Option<Timestamp>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn admits_everyone(setting: &GroupInvites) -> bool {
    *setting == GroupInvites::Everyone
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportUserKeyRow {
    user_id: UserId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    phone_number: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    issuer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportContactRow {
    user_id: UserId,
    contact_id: UserId,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportBlockRow {
    user_id: UserId,
    blocked_id: UserId,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportSessionRow {
    session_id: SessionId,
    user_id: UserId,
    device_id: DeviceId,
    created_at: Timestamp,
    last_active_at: Timestamp,
    expires_at: Timestamp,
    current: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spent: Option<ExportSpentRow>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    overtaken: Vec<ExportTokenChainRow>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportTokenChainRow {
    current: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spent: Option<ExportSpentRow>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportSpentRow {
    digest: String,
    spent_at: Timestamp,
    forgiven: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportPushDeviceRow {
    user_id: UserId,
    device_id: DeviceId,
    registered_at: Timestamp,
    target: ExportTargetRow,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum ExportTargetRow {
    Webhook { token: String },
    WebPush { endpoint: String, p256dh: String, auth: String },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportChatRow {
    chat_id: ChatId,
    chat_type: ChatType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    created_by: UserId,
    created_at: Timestamp,
    updated_at: Timestamp,
    member_count: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message_ttl_seconds: Option<u64>,
    head: Sequence,
    #[serde(default, skip_serializing_if = "is_zero")]
    changes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_message: Option<ExportLastMessageRow>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportLastMessageRow {
    message_id: MessageId,
    /// Absent if the head is the sequence of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sequence: Option<Sequence>,
    sender_id: UserId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    preview: Option<String>,
    created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportPairRow {
    user_ids: [UserId; 2],
    chat_id: ChatId,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportMemberRow {
    chat_id: ChatId,
    user_id: UserId,
    role: Role,
    joined_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    muted_until: Option<Timestamp>,
    delivered: Sequence,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delivered_at: Option<Timestamp>,
    read: Sequence,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    read_at: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportMessageRow {
    chat_id: ChatId,
    sequence: Sequence,
    message_id: MessageId,
    sender_id: UserId,
    client_message_id: ClientMessageId,
    content: String,
    content_type: ContentType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata>,
    created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    /// Absent if the message has no updates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<ExportStateRow>,
}

/// The state of an updated message.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportStateRow {
    revision: Sequence,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    edited_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    edit_count: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    reactions: Vec<ExportReactionCountRow>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportReactionCountRow {
    reaction: Reaction,
    count: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportUpdateRow {
    chat_id: ChatId,
    sequence: Sequence,
    update_id: MessageId,
    user_id: UserId,
    client_message_id: ClientMessageId,
    target_sequence: Sequence,
    /// `edited`, `deleted`, `reacted` or `unreacted`.
    change: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reaction: Option<Reaction>,
    created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportReactionsRow {
    chat_id: ChatId,
    sequence: Sequence,
    message_id: MessageId,
    user_id: UserId,
    reactions: Vec<Reaction>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportSendRow {
    chat_id: ChatId,
    sender_id: UserId,
    client_message_id: ClientMessageId,
    message_id: MessageId,
    sequence: Sequence,
    created_at: Timestamp,
    fingerprint: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportRestrictionRow {
    user_id: UserId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    suspension: Option<ExportSuspensionRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_before: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    denied: Vec<ExportDeniedTokenRow>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportSuspensionRow {
    since: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportDeniedTokenRow {
    token_id: String,
    denied_at: Timestamp,
    expires_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportInvitationRow {
    chat_id: ChatId,
    user_id: UserId,
    invited_by: UserId,
    created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    declined_at: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportPasskeyRow {
    passkey_id: PasskeyId,
    user_id: UserId,
    credential_id: String,
    public_key: String,
    sign_count: u32,
    is_backup_eligible: bool,
    is_backed_up: bool,
    name: String,
    created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_used_at: Option<Timestamp>,
}

impl From<&Moved> for ExportLine {
    fn from(moved: &Moved) -> Self {
        match moved {
            Moved::User(user) => Self::User(ExportUserRow {
                user_id: user.user_id,
                phone_number: user.phone_number.as_ref().map(|number| number.as_str().to_owned()),
                external_id: user.external_id.as_ref().map(|external_id| external_id.as_str().to_owned()),
                display_name: user.display_name.as_str().to_owned(),
                presence_visibility: user.presence_visibility,
                group_invites: user.group_invites,
                created_at: user.created_at,
                updated_at: user.updated_at,
                last_seen_at: user.last_seen_at,
                deleted_at: user.deleted_at,
            }),
            Moved::UserKey { key, user_id } => Self::UserKey(user_key_row(key, *user_id)),
            Moved::Block { user_id, blocked_id } => {
                Self::Block(ExportBlockRow { user_id: *user_id, blocked_id: *blocked_id })
            }
            Moved::Restriction { user_id, restrictions } => Self::Restriction(restriction_row(*user_id, restrictions)),
            Moved::Invitation(invitation) => Self::Invitation(ExportInvitationRow {
                chat_id: invitation.chat_id,
                user_id: invitation.user_id,
                invited_by: invitation.invited_by,
                created_at: invitation.created_at,
                declined_at: invitation.declined_at,
            }),
            Moved::Passkey(passkey) => Self::Passkey(ExportPasskeyRow {
                passkey_id: passkey.passkey_id,
                user_id: passkey.user_id,
                credential_id: hex(passkey.credential_id.as_bytes()),
                public_key: hex(&passkey.public_key),
                sign_count: passkey.sign_count,
                is_backup_eligible: passkey.is_backup_eligible,
                is_backed_up: passkey.is_backed_up,
                name: passkey.name.as_str().to_owned(),
                created_at: passkey.created_at,
                last_used_at: passkey.last_used_at,
            }),
            Moved::Contact { user_id, contact_id } => {
                Self::Contact(ExportContactRow { user_id: *user_id, contact_id: *contact_id })
            }
            Moved::Session(session) => Self::Session(session_row(session)),
            Moved::PushDevice(device) => Self::PushDevice(ExportPushDeviceRow {
                user_id: device.user_id,
                device_id: device.device_id,
                registered_at: device.registered_at,
                target: match &device.target {
                    PushTarget::Webhook(token) => ExportTargetRow::Webhook { token: token.as_str().to_owned() },
                    PushTarget::WebPush(subscription) => ExportTargetRow::WebPush {
                        endpoint: subscription.endpoint().to_owned(),
                        p256dh: hex(subscription.p256dh()),
                        auth: hex(subscription.auth()),
                    },
                },
            }),
            Moved::Chat { chat, head } => Self::Chat(chat_row(chat, head)),
            Moved::Pair { pair, chat_id } => Self::Pair(ExportPairRow { user_ids: pair.users(), chat_id: *chat_id }),
            Moved::Member { chat_id, member, delivery_state } => Self::Member(ExportMemberRow {
                chat_id: *chat_id,
                user_id: member.user_id,
                role: member.role,
                joined_at: member.joined_at,
                muted_until: member.muted_until,
                delivered: delivery_state.watermarks.delivered,
                delivered_at: delivery_state.delivered_at,
                read: delivery_state.watermarks.read,
                read_at: delivery_state.read_at,
            }),
            Moved::Message(message) => Self::Message(ExportMessageRow {
                chat_id: message.chat_id,
                sequence: message.sequence,
                message_id: message.message_id,
                sender_id: message.sender_id,
                client_message_id: message.client_message_id,
                content: message.body.content.as_str().to_owned(),
                content_type: message.body.content_type,
                metadata: message.body.metadata.clone(),
                created_at: message.created_at,
                expires_at: message.expires_at,
                state: state_row(&message.state),
            }),
            Moved::Update(update) => Self::Update(ExportUpdateRow {
                chat_id: update.chat_id,
                sequence: update.sequence,
                update_id: update.update_id,
                user_id: update.user_id,
                client_message_id: update.client_message_id,
                target_sequence: update.target,
                change: update.kind.as_str().to_owned(),
                reaction: update.kind.reaction().cloned(),
                created_at: update.created_at,
                expires_at: update.expires_at,
            }),
            Moved::Reactions { message, member } => Self::Reactions(ExportReactionsRow {
                chat_id: message.chat_id,
                sequence: message.sequence,
                message_id: message.message_id,
                user_id: member.user_id,
                reactions: member.reactions.clone(),
            }),
            Moved::Send(send) => Self::Send(ExportSendRow {
                chat_id: send.chat_id,
                sender_id: send.sender_id,
                client_message_id: send.client_message_id,
                message_id: send.receipt.message_id,
                sequence: send.receipt.sequence,
                created_at: send.receipt.created_at,
                fingerprint: hex(&send.fingerprint),
            }),
        }
    }
}

fn user_key_row(key: &UserKey, user_id: UserId) -> ExportUserKeyRow {
    let (phone_number, issuer, subject) = match key {
        UserKey::Phone(number) => (Some(number.as_str().to_owned()), None, None),
        UserKey::External { issuer, subject } => (None, Some(issuer.clone()), Some(subject.as_str().to_owned())),
    };
    ExportUserKeyRow { user_id, phone_number, issuer, subject }
}

fn restriction_row(user_id: UserId, restrictions: &Restrictions) -> ExportRestrictionRow {
    let suspension = restrictions.suspension.as_ref().map(|suspension| ExportSuspensionRow {
        since: suspension.since,
        reason: suspension.reason.as_ref().map(|reason| reason.as_str().to_owned()),
    });
    let denied = restrictions.denied.iter().map(|denied| ExportDeniedTokenRow {
        token_id: hex(&denied.token_id),
        denied_at: denied.denied_at,
        expires_at: denied.expires_at,
    });
    ExportRestrictionRow { user_id, suspension, not_before: restrictions.not_before, denied: denied.collect() }
}

fn session_row(session: &Session) -> ExportSessionRow {
    let spent = |spent: &SpentToken| ExportSpentRow {
        digest: hex(&spent.digest),
        spent_at: spent.spent_at,
        forgiven: spent.forgiven,
    };
    let chain = |chain: &TokenChain| ExportTokenChainRow {
        current: hex(&chain.current),
        spent: chain.spent.as_ref().map(spent),
    };
    ExportSessionRow {
        session_id: session.session_id,
        user_id: session.user_id,
        device_id: session.device_id,
        created_at: session.created_at,
        last_active_at: session.last_active_at,
        expires_at: session.expires_at,
        current: hex(&session.current),
        spent: session.spent.as_ref().map(spent),
        overtaken: session.overtaken.iter().map(chain).collect(),
    }
}

/// The row of a message's state; `None` if it has no updates.
fn state_row(state: &MessageState) -> Option<ExportStateRow> {
    let count = |known: &ReactionCount| ExportReactionCountRow { reaction: known.reaction.clone(), count: known.count };
    (*state != MessageState::default()).then(|| ExportStateRow {
        revision: state.revision,
        edited_at: state.edited.map(|edited| edited.at),
        edit_count: state.edited.map(|edited| edited.count),
        reactions: state.reactions.iter().map(count).collect(),
    })
}

fn chat_row(chat: &Chat, head: &Head) -> ExportChatRow {
    let last_message = |last: &LastMessage| ExportLastMessageRow {
        message_id: last.message_id,
        sequence: (last.sequence != head.sequence).then_some(last.sequence),
        sender_id: last.sender_id,
        preview: last.preview.as_ref().map(|preview| preview.as_str().to_owned()),
        created_at: last.created_at,
        expires_at: last.expires_at,
    };
    ExportChatRow {
        chat_id: chat.chat_id,
        chat_type: chat.chat_type,
        name: chat.name.as_ref().map(|name| name.as_str().to_owned()),
        created_by: chat.created_by,
        created_at: chat.created_at,
        updated_at: chat.updated_at,
        member_count: chat.member_count,
        message_ttl_seconds: chat.message_ttl.map(|ttl| ttl.as_duration().as_secs()),
        head: head.sequence,
        changes: head.changes,
        last_message: head.last_message.as_ref().map(last_message),
    }
}

/// A file of an earlier version has no number of changes.
fn is_zero(changes: &u64) -> bool {
    *changes == 0
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
