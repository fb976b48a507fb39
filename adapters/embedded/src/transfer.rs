//! Everything of the store that another one needs to take its place, and what such another one brings.

use async_trait::async_trait;
use domain::limits::RETENTION;
use domain::{Chat, ChatId, Member, PushDevice, Session, SessionId, Timestamp, User, UserId, Watermarks};
use fjall::Slice;
use ports::{
    Bookmark, BoxError, ExportSource, Head, ImportBegun, ImportId, ImportTarget, Moved, MovedKind, MovedPage,
    MovedSend, StoreError,
};

use crate::EmbeddedStore;
use crate::audit::{behind, behind_key, hex};
use crate::blocks;
use crate::error::unreadable;
use crate::keys::{self, Expiring};
use crate::records::{Place, SendKey, Stored, decode_message, encode_message};
use crate::sessions;
use crate::tables::{Table, View};
use crate::tx::Tx;

/// The key in [`Table::Meta`] of the import that was begun and is not finished.
const IMPORT: &[u8] = b"import";

/// The tables in which a store that takes an import has nothing.
const EMPTY: [Table; 12] = [
    Table::Users,
    Table::UserKeys,
    Table::Contacts,
    Table::Blocks,
    Table::Sessions,
    Table::PushDevices,
    Table::Chats,
    Table::DirectChats,
    Table::Members,
    Table::Messages,
    Table::SendKeys,
    Table::Log,
];

#[async_trait]
impl ExportSource for EmbeddedStore {
    async fn rows(
        &self,
        kind: MovedKind,
        after: Option<&Bookmark>,
        count: usize,
        at: Timestamp,
    ) -> Result<MovedPage, StoreError> {
        let (after, table) = (behind(after)?, table(kind));
        self.read(move |tables| {
            let view = tables.view();
            let (mut rows, mut last, mut passed) = (vec![], None, 0);
            for row in view.range(table, behind_key(after)).take(count) {
                let (key, row) = row?;
                let moved = moved(&view, kind, &key, &row, at).map_err(|error| unreadable(table, error))?;
                rows.extend(moved.and_then(|moved| moved.at(at)));
                passed += 1;
                last = Some(key);
            }
            let next = last.filter(|_| passed == count).map(|key| Bookmark(hex(&key)));
            Ok(MovedPage { rows, next })
        })
        .await
    }
}

#[async_trait]
impl ImportTarget for EmbeddedStore {
    async fn begin(&self, id: ImportId) -> Result<ImportBegun, StoreError> {
        self.write(move |tx| {
            match tx.get::<u64>(Table::Meta, IMPORT)? {
                Some(begun) if begun == id.0 => return Ok(ImportBegun::Again),
                Some(_) => return Ok(ImportBegun::Other),
                None => {}
            }
            let view = tx.committed();
            for table in EMPTY {
                if view.range::<&[u8]>(table, ..).next().transpose()?.is_some() {
                    return Ok(ImportBegun::NotEmpty { table: table.name() });
                }
            }
            tx.put(Table::Meta, IMPORT, &id.0);
            Ok(ImportBegun::Begun)
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

/// The table in which there is one row for each of a kind.
fn table(kind: MovedKind) -> Table {
    match kind {
        MovedKind::User => Table::Users,
        MovedKind::UserKey => Table::UserKeys,
        MovedKind::Contact => Table::Contacts,
        MovedKind::Session => Table::Sessions,
        MovedKind::PushDevice => Table::PushDevices,
        MovedKind::Chat => Table::Chats,
        MovedKind::Pair => Table::DirectChats,
        MovedKind::Member => Table::Members,
        MovedKind::Message => Table::Messages,
        MovedKind::Send => Table::SendKeys,
        MovedKind::Block => Table::Blocks,
    }
}

/// What a row of that table says, and what is kept beside it; `None` for a device whose login is over.
fn moved(view: &View<'_>, kind: MovedKind, key: &Slice, row: &Slice, at: Timestamp) -> Result<Option<Moved>, BoxError> {
    Ok(Some(match kind {
        MovedKind::User => Moved::User(User::decode(row)?),
        MovedKind::UserKey => Moved::UserKey { key: keys::parse_sign_in(key)?, user_id: UserId::decode(row)? },
        MovedKind::Contact => {
            let (user_id, contact_id) = keys::parse_contact_pair(key)?;
            Moved::Contact { user_id, contact_id }
        }
        MovedKind::Block => {
            let (user_id, blocked_id) = keys::parse_contact_pair(key)?;
            Moved::Block { user_id, blocked_id }
        }
        MovedKind::Session => Moved::Session(Session::decode(row)?),
        MovedKind::PushDevice => {
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
        MovedKind::Chat => {
            let chat = Chat::decode(row)?;
            let head: Option<Head> = view.get(Table::Heads, &keys::chat(chat.chat_id))?;
            let head = head.ok_or_else(|| format!("`{}` has no head row", chat.chat_id))?;
            Moved::Chat { chat, head }
        }
        MovedKind::Pair => Moved::Pair { pair: keys::parse_direct(key)?, chat_id: ChatId::decode(row)? },
        MovedKind::Member => {
            let (chat_id, user_id) = keys::parse_member(key)?;
            let watermarks: Option<Watermarks> = view.get(Table::Watermarks, &keys::membership(user_id, chat_id))?;
            // Lost ones count as 0 in every read.
            Moved::Member { chat_id, member: Member::decode(row)?, watermarks: watermarks.unwrap_or_default() }
        }
        MovedKind::Message => Moved::Message(decode_message(keys::parse_message(key)?, row)?),
        MovedKind::Send => {
            let (chat_id, sender_id, client_message_id) = keys::parse_send(key)?;
            let SendKey { receipt, fingerprint } = SendKey::decode(row)?;
            Moved::Send(MovedSend { chat_id, sender_id, client_message_id, receipt, fingerprint })
        }
    }))
}

/// Writes a row with all that is kept beside it, and no record of the log: nobody is to hear of it again.
fn take_in(tx: &mut Tx<'_>, row: &Moved) -> Result<(), StoreError> {
    match row {
        Moved::User(user) => tx.put(Table::Users, &keys::user(user.user_id), user),
        Moved::UserKey { key, user_id } => tx.put(Table::UserKeys, &keys::sign_in(key), user_id),
        Moved::Contact { user_id, contact_id } => {
            tx.put(Table::Contacts, &keys::contact(*user_id, *contact_id), &());
        }
        Moved::Session(session) => sessions::sign_in(tx, session),
        Moved::PushDevice(device) => {
            tx.put(Table::PushDevices, &keys::device(device.user_id, device.device_id), device);
        }
        Moved::Chat { chat, head } => {
            tx.put(Table::Chats, &keys::chat(chat.chat_id), chat);
            tx.put(Table::Heads, &keys::chat(chat.chat_id), head);
        }
        Moved::Pair { pair, chat_id } => tx.put(Table::DirectChats, &keys::direct(*pair), chat_id),
        Moved::Member { chat_id, member, watermarks } => {
            let of_user = keys::membership(member.user_id, *chat_id);
            tx.put(Table::Watermarks, &of_user, watermarks);
            tx.put(Table::Members, &keys::member(*chat_id, member.user_id), member);
            tx.put(Table::Memberships, &of_user, member);
        }
        Moved::Message(message) => {
            let place = Place { chat_id: message.chat_id, sequence: message.sequence };
            tx.put_new(Table::Messages, &keys::message(place), encode_message(message));
            tx.put(Table::MessagePlaces, &message.message_id.to_bytes(), &place);
            if let Some(expires_at) = message.expires_at {
                tx.expire(expires_at, Expiring::Message(place));
            }
        }
        Moved::Send(send) => {
            let MovedSend { chat_id, sender_id, client_message_id, receipt, fingerprint } = send;
            let key = keys::send(*chat_id, *sender_id, *client_message_id);
            tx.put(Table::SendKeys, &key, &SendKey { receipt: *receipt, fingerprint: *fingerprint });
            // Others go with their record of the log, and of this one there is none.
            tx.expire(receipt.created_at + RETENTION, Expiring::SendKey(key));
        }
        Moved::Block { user_id, blocked_id } => {
            // An import that is begun again finds some of them.
            if tx.get_bytes(Table::Blocks, &keys::block(*user_id, *blocked_id))?.is_none() {
                blocks::put(tx, *user_id, *blocked_id)?;
            }
        }
    }
    Ok(())
}
