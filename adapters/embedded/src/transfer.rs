//! Exports all data that a replacement store needs, and imports it.

use async_trait::async_trait;
use domain::limits::RETENTION;
use domain::{
    Chat, ChatId, DeliveryState, Invitation, Member, Passkey, PushDevice, Restrictions, Session, SessionId, Timestamp,
    User, UserId,
};
use fjall::Slice;
use ports::{
    BoxError, ExportKind, ExportPage, ExportSource, ExportedSend, Head, ImportAdmission, ImportId, ImportTarget,
    MemberReactions, MessageKey, Moved, PageBookmark, StoreError,
};

use crate::EmbeddedStore;
use crate::blocks;
use crate::bookmark::{hex, range_after, start_after};
use crate::error::unreadable;
use crate::invitations;
use crate::keys::{self, Expiring};
use crate::passkeys;
use crate::records::{MessageLocation, SendKey, Stored, decode_message, decode_update, encode_message, encode_update};
use crate::sessions;
use crate::tables::{Table, View};
use crate::tx::Tx;

/// The key in [`Table::Meta`] of an unfinished import.
const IMPORT: &[u8] = b"import";

#[async_trait]
impl ExportSource for EmbeddedStore {
    async fn rows(
        &self,
        kind: ExportKind,
        after: Option<&PageBookmark>,
        count: usize,
        at: Timestamp,
    ) -> Result<ExportPage, StoreError> {
        let (after, table) = (start_after(after)?, Table::exported(kind));
        self.read(move |tables| {
            let view = tables.view();
            let (mut rows, mut last, mut passed) = (vec![], None, 0);
            for row in view.range(table, range_after(after)).take(count) {
                let (key, row) = row?;
                let moved = moved(&view, kind, &key, &row, at).map_err(|error| unreadable(table, error))?;
                rows.extend(moved.and_then(|moved| moved.at(at)));
                passed += 1;
                last = Some(key);
            }
            let next = last.filter(|_| passed == count).map(|key| PageBookmark(hex(&key)));
            Ok(ExportPage { rows, next })
        })
        .await
    }
}

#[async_trait]
impl ImportTarget for EmbeddedStore {
    async fn begin(&self, id: ImportId) -> Result<ImportAdmission, StoreError> {
        self.write(move |tx| {
            match tx.get::<u64>(Table::Meta, IMPORT)? {
                Some(begun) if begun == id.0 => return Ok(ImportAdmission::Again),
                Some(_) => return Ok(ImportAdmission::Other),
                None => {}
            }
            let view = tx.committed();
            for table in ExportKind::ALL.map(Table::exported).into_iter().chain([Table::Log]) {
                if view.range::<&[u8]>(table, ..).next().transpose()?.is_some() {
                    return Ok(ImportAdmission::NotEmpty { table: table.name() });
                }
            }
            tx.put(Table::Meta, IMPORT, &id.0);
            Ok(ImportAdmission::Begun)
        })
        .await
    }

    async fn write(&self, rows: Vec<Moved>) -> Result<(), StoreError> {
        self.write(move |tx| rows.iter().try_for_each(|row| take_in(tx, row))).await
    }

    async fn finish(&self) -> Result<(), StoreError> {
        self.write(|tx| {
            tx.delete(Table::Meta, IMPORT);
            Ok(())
        })
        .await
    }

    async fn is_unfinished(&self) -> Result<bool, StoreError> {
        Ok(self.tables().await?.get::<u64>(Table::Meta, IMPORT)?.is_some())
    }
}

/// The exported form of a row with its dependent rows; `None` for a device whose session has ended, and for reactions to
/// a message that has expired.
pub(crate) fn moved(
    view: &View<'_>,
    kind: ExportKind,
    key: &Slice,
    row: &Slice,
    at: Timestamp,
) -> Result<Option<Moved>, BoxError> {
    Ok(Some(match kind {
        ExportKind::User => Moved::User(User::decode(row)?),
        ExportKind::UserKey => Moved::UserKey { key: keys::parse_sign_in(key)?, user_id: UserId::decode(row)? },
        ExportKind::Contact => {
            let (user_id, contact_id) = keys::parse_contact_pair(key)?;
            Moved::Contact { user_id, contact_id }
        }
        ExportKind::Block => {
            let (user_id, blocked_id) = keys::parse_contact_pair(key)?;
            Moved::Block { user_id, blocked_id }
        }
        ExportKind::Restriction => {
            let user_id = keys::parse_user(key.as_ref().try_into()?);
            Moved::Restriction { user_id, restrictions: Restrictions::decode(row)? }
        }
        ExportKind::Invitation => Moved::Invitation(Invitation::decode(row)?),
        ExportKind::Passkey => Moved::Passkey(Passkey::decode(row)?),
        ExportKind::Session => Moved::Session(Session::decode(row)?),
        ExportKind::PushDevice => {
            let device = PushDevice::decode(row)?;
            let session_id: Option<SessionId> =
                view.get(Table::Devices, &keys::device(device.user_id, device.device_id))?;
            let session: Option<Session> = match session_id {
                Some(session_id) => view.get(Table::Sessions, &session_id.to_bytes())?,
                None => None,
            };
            if session.is_some_and(|session| session.expires_at <= at) {
                return Ok(None);
            }
            Moved::PushDevice(device)
        }
        ExportKind::Chat => {
            let chat = Chat::decode(row)?;
            let head: Option<Head> = view.get(Table::Heads, &keys::chat(chat.chat_id))?;
            let head = head.ok_or_else(|| format!("`{}` has no head row", chat.chat_id))?;
            Moved::Chat { chat, head }
        }
        ExportKind::Pair => Moved::Pair { pair: keys::parse_direct(key)?, chat_id: ChatId::decode(row)? },
        ExportKind::Member => {
            let (chat_id, user_id) = keys::parse_member(key)?;
            let state: Option<DeliveryState> = view.get(Table::Watermarks, &keys::membership(user_id, chat_id))?;
            // Missing watermarks read as 0 everywhere.
            Moved::Member { chat_id, member: Member::decode(row)?, delivery_state: state.unwrap_or_default() }
        }
        ExportKind::Update => Moved::Update(decode_update(keys::parse_message(key)?, row)?),
        ExportKind::Reactions => {
            let (location, user_id) = keys::parse_reactions(key)?;
            let message = view.get_bytes(Table::Messages, &keys::message(location))?;
            let Some(message) = message else { return Ok(None) };
            let message = decode_message(location, &message)?;
            if message.is_expired(at) {
                return Ok(None);
            }
            Moved::Reactions {
                message: (&message).into(),
                member: MemberReactions { user_id, reactions: Stored::decode(row)? },
            }
        }
        ExportKind::Message => Moved::Message(decode_message(keys::parse_message(key)?, row)?),
        ExportKind::Send => {
            let (chat_id, sender_id, client_message_id) = keys::parse_send(key)?;
            let SendKey { receipt, fingerprint } = SendKey::decode(row)?;
            Moved::Send(ExportedSend { chat_id, sender_id, client_message_id, receipt, fingerprint })
        }
    }))
}

/// Writes a row with its dependent rows, but no log record: consumers must not process it again.
pub(crate) fn take_in(tx: &mut Tx<'_>, row: &Moved) -> Result<(), StoreError> {
    match row {
        Moved::User(user) => tx.put(Table::Users, &keys::user(user.user_id), user),
        Moved::UserKey { key, user_id } => tx.put(Table::UserKeys, &keys::sign_in(key), user_id),
        Moved::Contact { user_id, contact_id } => {
            tx.put(Table::Contacts, &keys::contact(*user_id, *contact_id), &());
        }
        Moved::Restriction { user_id, restrictions } => {
            tx.put(Table::Restrictions, &keys::user(*user_id), restrictions);
        }
        Moved::Invitation(invitation) => invitations::put(tx, invitation)?,
        Moved::Passkey(passkey) => passkeys::put(tx, passkey),
        Moved::Session(session) => sessions::sign_in(tx, session),
        Moved::PushDevice(device) => {
            tx.put(Table::PushDevices, &keys::device(device.user_id, device.device_id), device);
        }
        Moved::Chat { chat, head } => {
            tx.put(Table::Chats, &keys::chat(chat.chat_id), chat);
            tx.put(Table::Heads, &keys::chat(chat.chat_id), head);
        }
        Moved::Pair { pair, chat_id } => tx.put(Table::DirectChats, &keys::direct(*pair), chat_id),
        Moved::Member { chat_id, member, delivery_state } => {
            let of_user = keys::membership(member.user_id, *chat_id);
            tx.put(Table::Watermarks, &of_user, delivery_state);
            tx.put(Table::Members, &keys::member(*chat_id, member.user_id), member);
            tx.put(Table::Memberships, &of_user, member);
        }
        Moved::Message(message) => {
            let location = MessageLocation { chat_id: message.chat_id, sequence: message.sequence };
            tx.put_new(Table::Messages, &keys::message(location), encode_message(message));
            tx.put(Table::MessagePlaces, &message.message_id.to_bytes(), &location);
            if let Some(expires_at) = message.expires_at {
                tx.expire(expires_at, Expiring::Message(location));
            }
        }
        Moved::Update(update) => {
            let location = MessageLocation { chat_id: update.chat_id, sequence: update.sequence };
            tx.put_new(Table::Updates, &keys::message(location), encode_update(update));
            if let Some(expires_at) = update.expires_at {
                tx.expire(expires_at, Expiring::Update(location));
            }
        }
        Moved::Reactions { message: MessageKey { chat_id, sequence, .. }, member } => {
            let location = MessageLocation { chat_id: *chat_id, sequence: *sequence };
            tx.put(Table::Reactions, &keys::reactions(location, member.user_id), &member.reactions);
        }
        Moved::Send(send) => {
            let ExportedSend { chat_id, sender_id, client_message_id, receipt, fingerprint } = send;
            let key = keys::send(*chat_id, *sender_id, *client_message_id);
            tx.put(Table::SendKeys, &key, &SendKey { receipt: *receipt, fingerprint: *fingerprint });
            // Other send keys are purged with their log record; this one has none.
            tx.expire(receipt.created_at + RETENTION, Expiring::SendKey(key));
        }
        Moved::Block { user_id, blocked_id } => {
            // A restarted import finds some of them.
            if tx.get_bytes(Table::Blocks, &keys::block(*user_id, *blocked_id))?.is_none() {
                blocks::put(tx, *user_id, *blocked_id)?;
            }
        }
    }
    Ok(())
}
