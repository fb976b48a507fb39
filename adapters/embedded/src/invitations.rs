use std::cmp::Reverse;

use async_trait::async_trait;
use domain::limits::INVITATIONS_PER_CHAT_MAX;
use domain::{
    Chat, ChatChange, ChatCommand, ChatId, ChatRefusal, Invitation, Member, Role, Timestamp, User, UserId, decide,
};
use fjall::Slice;
use ports::{InvitationStore, StoreError};

use crate::EmbeddedStore;
use crate::blocks;
use crate::chats::write_change;
use crate::error::unreadable;
use crate::keys;
use crate::records::Stored;
use crate::tables::{Table, Tables};
use crate::tx::Tx;

#[async_trait]
impl InvitationStore for EmbeddedStore {
    async fn invitations(&self, user_id: UserId, now: Timestamp) -> Result<Vec<Invitation>, StoreError> {
        self.read(move |tables| {
            let view = tables.view();
            let rows = view.prefix(Table::Invitations, &keys::user(user_id));
            let all =
                rows.map(|row| Invitation::decode(&row?.1).map_err(|error| unreadable(Table::Invitations, error)));
            let mut pending: Vec<Invitation> = all.collect::<Result<_, _>>()?;
            pending.retain(|invitation| invitation.is_pending(now));
            pending.sort_by_key(|invitation| Reverse((invitation.created_at, invitation.chat_id)));
            Ok(pending)
        })
        .await
    }

    async fn accept(
        &self,
        chat_id: ChatId,
        user_id: UserId,
        now: Timestamp,
    ) -> Result<Result<ChatChange, ChatRefusal>, StoreError> {
        self.write(move |tx| {
            let invitation = stored(tx, user_id, chat_id)?.filter(|invitation| invitation.is_pending(now));
            let Some(Invitation { invited_by, .. }) = invitation else { return Ok(Err(ChatRefusal::NotInvited)) };
            let Some(chat) = tx.get::<Chat>(Table::Chats, &keys::chat(chat_id))? else {
                return Ok(Err(ChatRefusal::ChatNotFound));
            };
            if blocks::has_blocked(tx, user_id, invited_by)? {
                return Ok(Err(ChatRefusal::Blocking));
            }
            let member = |user_id| tx.get::<Member>(Table::Members, &keys::member(chat_id, user_id));
            let addition = ChatCommand::AddMember { user_id, role: Role::Member };
            match decide(&chat, member(invited_by)?.as_ref(), member(user_id)?.as_ref(), &addition, now) {
                Err(refusal) => Ok(Err(refusal.of_acceptance())),
                Ok(change) => {
                    write_change(tx, &change, now)?;
                    Ok(Ok(change))
                }
            }
        })
        .await
    }

    async fn decline(&self, chat_id: ChatId, user_id: UserId, now: Timestamp) -> Result<(), StoreError> {
        self.write(move |tx| {
            let pending = stored(tx, user_id, chat_id)?.filter(|invitation| invitation.is_pending(now));
            let Some(pending) = pending else { return Ok(()) };
            match pending.declined(&of_user(tx, user_id)?, now) {
                Some(declined) => put(tx, &declined),
                None => forget(tx, user_id, chat_id),
            }
        })
        .await
    }

    async fn erase_user(&self, user_id: UserId) -> Result<(), StoreError> {
        self.write(move |tx| {
            of_user(tx, user_id)?.iter().try_for_each(|invitation| forget(tx, user_id, invitation.chat_id))
        })
        .await
    }
}

/// Whether `actor` may add a user to a group at once.
pub(crate) fn consents(tx: &Tx<'_>, user_id: UserId, actor: UserId) -> Result<bool, StoreError> {
    let user: Option<User> = tx.get(Table::Users, &keys::user(user_id))?;
    let setting = user.map(|user| user.group_invites).unwrap_or_default();
    let is_contact =
        setting.asks_contacts() && tx.get_bytes(Table::Contacts, &keys::contact(user_id, actor))?.is_some();
    Ok(setting.admits(is_contact))
}

/// Whether a group has the maximum number of pending invitations to other users. Expired ones count until their purge.
pub(crate) fn has_max(tx: &Tx<'_>, chat_id: ChatId, user_id: UserId) -> Result<bool, StoreError> {
    let mut others = tx.keys(Table::InvitationIndex, &keys::invitations_to(chat_id))?;
    others.remove(&Slice::from(&keys::invitation_to(chat_id, user_id)[..]));
    Ok(others.len() >= INVITATIONS_PER_CHAT_MAX)
}

/// Writes an invitation, unless it must not be kept.
pub(crate) fn invite(tx: &mut Tx<'_>, invitation: &Invitation, now: Timestamp) -> Result<(), StoreError> {
    match invitation.is_kept(&of_user(tx, invitation.user_id)?, now) {
        true => put(tx, invitation),
        false => Ok(()),
    }
}

/// Writes an invitation with its index rows, in place of an earlier one.
pub(crate) fn put(tx: &mut Tx<'_>, invitation: &Invitation) -> Result<(), StoreError> {
    let Invitation { chat_id, user_id, .. } = *invitation;
    forget(tx, user_id, chat_id)?;
    tx.put(Table::Invitations, &keys::membership(user_id, chat_id), invitation);
    tx.put(Table::InvitationIndex, &keys::invitation_end(invitation.ends_at(), user_id, chat_id), &());
    if invitation.declined_at.is_none() {
        tx.put(Table::InvitationIndex, &keys::invitation_to(chat_id, user_id), &());
    }
    Ok(())
}

/// Deletes an invitation and its index rows; without one it changes nothing.
pub(crate) fn forget(tx: &mut Tx<'_>, user_id: UserId, chat_id: ChatId) -> Result<(), StoreError> {
    let Some(invitation) = stored(tx, user_id, chat_id)? else { return Ok(()) };
    tx.delete(Table::Invitations, &keys::membership(user_id, chat_id));
    tx.delete(Table::InvitationIndex, &keys::invitation_end(invitation.ends_at(), user_id, chat_id));
    tx.delete(Table::InvitationIndex, &keys::invitation_to(chat_id, user_id));
    Ok(())
}

/// Index keys of invitations that have ended.
pub(crate) fn over(tables: &Tables, now: Timestamp, count: usize) -> Result<Vec<Slice>, StoreError> {
    let view = tables.view();
    view.range(Table::InvitationIndex, keys::invitations_over(now)).take(count).map(|row| Ok(row?.0)).collect()
}

/// Deletes the given invitations that have ended at the time of the commit, and returns their number. It keeps the index
/// row of one that has not, so that a later search finds it again.
pub(crate) fn purge(tx: &mut Tx<'_>, over: &[Slice]) -> Result<usize, StoreError> {
    let mut purged = 0;
    for key in over {
        let parsed = keys::parse_invitation(key);
        let (user_id, chat_id) = parsed.map_err(|error| unreadable(Table::InvitationIndex, error))?;
        match stored(tx, user_id, chat_id)? {
            Some(invitation) if invitation.is_over(tx.now()) => forget(tx, user_id, chat_id)?,
            // A later invitation has its own index row.
            Some(invitation) if keys::invitation_end(invitation.ends_at(), user_id, chat_id)[..] == **key => continue,
            Some(_) | None => {}
        }
        tx.delete(Table::InvitationIndex, key);
        purged += 1;
    }
    Ok(purged)
}

fn stored(tx: &Tx<'_>, user_id: UserId, chat_id: ChatId) -> Result<Option<Invitation>, StoreError> {
    tx.get(Table::Invitations, &keys::membership(user_id, chat_id))
}

fn of_user(tx: &Tx<'_>, user_id: UserId) -> Result<Vec<Invitation>, StoreError> {
    let keys = tx.keys(Table::Invitations, &keys::user(user_id))?;
    let rows = keys.iter().map(|key| tx.get(Table::Invitations, key));
    rows.filter_map(Result::transpose).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use domain::GroupInvites;
    use domain::limits::INVITATION_LIFETIME;
    use memory::ManualClock;
    use ports::{ChatWriter, NewGroup, NewUser, RandomIds, UserKey, UserWriter};

    use super::*;
    use crate::{Config, trim};

    fn user(n: usize) -> UserId {
        UserId::from_bytes(((n + 1) as u128).to_be_bytes())
    }

    fn chat() -> ChatId {
        ChatId::from_bytes([7; 16])
    }

    /// A store with a group of user 0, and user 1 who wants to be asked.
    async fn store(clock: Arc<ManualClock>, now: Timestamp) -> (tempfile::TempDir, EmbeddedStore) {
        let directory = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(directory.path(), Config::default(), clock, Arc::new(RandomIds)).unwrap();
        let name = "group".to_owned().try_into().unwrap();
        let group = NewGroup { chat_id: chat(), name, created_by: user(0), members: vec![], created_at: now };
        store.create_group(group).await.unwrap();
        let key = UserKey::External { issuer: "https://id.example".to_owned(), subject: "one".parse().unwrap() };
        let new = NewUser {
            user_id: user(1),
            display_name: "One".to_owned().try_into().unwrap(),
            group_invites: GroupInvites::Nobody,
            created_at: now,
            proven_at: now,
        };
        store.find_or_create(key, new).await.unwrap();
        (directory, store)
    }

    async fn rows(store: &EmbeddedStore) -> (usize, usize) {
        let count = |tables: &Tables, table| tables.view().range::<&[u8]>(table, ..).count();
        let rows =
            store.read(move |tables| Ok([Table::Invitations, Table::InvitationIndex].map(|it| count(tables, it))));
        rows.await.unwrap().into()
    }

    #[tokio::test]
    async fn of_an_invitation_that_is_over_nothing_is_left() {
        let now = Timestamp::from_millis(1_000_000);
        let clock = Arc::new(ManualClock::at(now));
        let (_directory, store) = store(clock.clone(), now).await;
        let invite = ChatCommand::AddMember { user_id: user(1), role: Role::Member };
        let later = Timestamp::from_millis(2_000_000);
        for at in [now, later] {
            store.apply(chat(), user(0), invite.clone(), at).await.unwrap().unwrap();
            assert_eq!(rows(&store).await, (1, 2), "a later one replaces it with its index rows");
        }
        let purge = async |at| {
            clock.set(at);
            trim::purge_all(store.link().clone(), Arc::new(ManualClock::at(at))).await;
            rows(&store).await
        };
        assert_eq!(purge(now + INVITATION_LIFETIME).await, (1, 2));
        store.decline(chat(), user(1), later).await.unwrap();
        assert_eq!(rows(&store).await, (1, 1), "a declined one does not count for its chat");
        assert_eq!(purge(later + INVITATION_LIFETIME).await, (0, 0));
    }

    #[tokio::test]
    async fn a_group_has_a_bounded_number_of_pending_invitations() {
        let now = Timestamp::from_millis(1_000_000);
        let (_directory, store) = store(Arc::new(ManualClock::at(now)), now).await;
        let invite =
            || store.apply(chat(), user(0), ChatCommand::AddMember { user_id: user(1), role: Role::Member }, now);
        let others = 2..2 + INVITATIONS_PER_CHAT_MAX;
        let all = store.write(move |tx| {
            let mut others = others.map(|n| Invitation::new(chat(), user(n), user(0), now));
            others.try_for_each(|invitation| put(tx, &invitation))
        });
        all.await.unwrap();
        assert_eq!(invite().await.unwrap(), Err(ChatRefusal::TooManyInvitations));
        store.decline(chat(), user(2), now).await.unwrap();
        assert!(invite().await.unwrap().is_ok());
        assert!(invite().await.unwrap().is_ok(), "its own does not count");
    }
}
