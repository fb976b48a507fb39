use std::cmp::Reverse;

use async_trait::async_trait;
use domain::limits::INVITATIONS_PER_CHAT_MAX;
use domain::{ChatChange, ChatCommand, ChatId, ChatRefusal, GroupInvites, Invitation, Role, Timestamp, UserId, decide};
use ports::{InvitationStore, StoreError};

use crate::DynamoStore;
use crate::blocks::block_key;
use crate::chats::read_member;
use crate::contacts::contact_key;
use crate::db::{self, PartitionQuery};
use crate::item::{DynamoItem, ItemKey, ItemReader, item, text, ttl};
use crate::schema::{TTL, Table};
use crate::users::{GROUP_INVITES, group_invites_value, read_user, user_row};
use crate::write::{Condition, Write};

const INVITED_BY: &str = "invited_by";
const CREATED_AT: &str = "created_at";
const DECLINED_AT: &str = "declined_at";

#[async_trait]
impl InvitationStore for DynamoStore {
    async fn invitations(&self, user_id: UserId, now: Timestamp) -> Result<Vec<Invitation>, StoreError> {
        let mut pending = self.invitations_of(user_id).await?;
        pending.retain(|invitation| invitation.is_pending(now));
        pending.sort_by_key(|invitation| Reverse((invitation.created_at, invitation.chat_id)));
        Ok(pending)
    }

    async fn accept(
        &self,
        chat_id: ChatId,
        user_id: UserId,
        now: Timestamp,
    ) -> Result<Result<ChatChange, ChatRefusal>, StoreError> {
        db::undisturbed(|| async move {
            let stored = self.invitations_of(user_id).await?;
            let Some(invitation) = stored.into_iter().find(|it| it.chat_id == chat_id && it.is_pending(now)) else {
                return Ok(Some(Err(ChatRefusal::NotInvited)));
            };
            let Some((chat, version)) = self.versioned(chat_id).await? else {
                return Ok(Some(Err(ChatRefusal::ChatNotFound)));
            };
            let member_key = |user_id| ItemKey::of(Table::ChatMemberships, chat_id, user_id);
            let block = block_key(user_id, invitation.invited_by);
            let keys = [
                member_key(invitation.invited_by),
                member_key(user_id),
                ItemKey::one(Table::ChatCounters, chat_id),
                block.clone(),
            ];
            let items = self.db().get_many(&keys).await?;
            let [inviter, member, counter, blocked] = <[_; 4]>::try_from(items).expect("an answer for each key");
            if blocked.is_some() {
                return Ok(Some(Err(ChatRefusal::Blocking)));
            }
            let [inviter, member] = [inviter, member].map(|item| item.map(|item| read_member(&item)).transpose());
            let addition = ChatCommand::AddMember { user_id, role: Role::Member };
            let change = match decide(&chat, inviter?.as_ref(), member?.as_ref(), &addition, now) {
                Ok(change) => change,
                Err(refusal) => return Ok(Some(Err(refusal.of_acceptance()))),
            };
            // A concurrent decline, acceptance or block fails the commit or is failed by it.
            let more = || {
                let [of_user, of_chat] = keys_of(chat_id, user_id);
                let mut writes = vec![unchanged(Write::delete(of_user), Some(&invitation)), Write::delete(of_chat)];
                writes.push(Write::check_absent(block.clone()));
                writes
            };
            let is_committed = self.rewrite(&chat, version, counter.as_ref(), &change, now, more).await?;
            Ok(is_committed.then_some(Ok(change)))
        })
        .await
    }

    async fn decline(&self, chat_id: ChatId, user_id: UserId, now: Timestamp) -> Result<(), StoreError> {
        db::undisturbed(|| async move {
            let stored = self.invitations_of(user_id).await?;
            let Some(pending) = stored.iter().find(|it| it.chat_id == chat_id && it.is_pending(now)) else {
                return Ok(Some(()));
            };
            let declined = pending.declined(&stored, now);
            let writes = || {
                let [of_user, of_chat] = keys_of(chat_id, user_id);
                let of_user = match &declined {
                    Some(declined) => Write::put(of_user, invitation_item(declined)),
                    None => Write::delete(of_user),
                };
                vec![unchanged(of_user, Some(pending)), Write::delete(of_chat)]
            };
            Ok(self.db().transact(writes).await?.is_committed().then_some(()))
        })
        .await
    }

    async fn erase_user(&self, user_id: UserId) -> Result<(), StoreError> {
        for invitation in self.invitations_of(user_id).await? {
            self.db().transact(|| forget(invitation.chat_id, user_id).into()).await?;
        }
        Ok(())
    }
}

impl DynamoStore {
    /// All stored invitations of a user, including declined and expired ones.
    pub(crate) async fn invitations_of(&self, user_id: UserId) -> Result<Vec<Invitation>, StoreError> {
        let items = self.db().query(&PartitionQuery::partition(Table::Invitations, user_id), usize::MAX).await?;
        items.iter().filter_map(|item| read_invitation(item).transpose()).collect()
    }

    /// Whether a group has the maximum number of pending invitations to other users.
    pub(crate) async fn has_max_invitations(
        &self,
        chat_id: ChatId,
        user_id: UserId,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let query =
            PartitionQuery { attributes: &["place", TTL], ..PartitionQuery::partition(Table::Invitations, chat_id) };
        let mut others = 0;
        for item in self.db().query(&query, usize::MAX).await? {
            let row = ItemReader { table: Table::Invitations, item: &item };
            // The service deletes items up to some days after their end.
            let is_other = row.parsed::<UserId>("place")? != user_id && row.number(TTL)? > now.as_secs();
            others += usize::from(is_other);
        }
        Ok(others >= INVITATIONS_PER_CHAT_MAX)
    }

    /// The consents of users to be added by `actor`, in the order of the arguments.
    pub(crate) async fn consents(&self, user_ids: &[UserId], actor: UserId) -> Result<Vec<Consent>, StoreError> {
        let keys: Vec<ItemKey> = user_ids.iter().copied().map(user_row).collect();
        let mut consents = vec![];
        for (user_id, item) in user_ids.iter().zip(self.db().get_many(&keys).await?) {
            let user = item.map(|item| read_user(&item)).transpose()?;
            let setting = user.map(|user| user.group_invites).unwrap_or_default();
            consents.push(Consent { user_id: *user_id, actor, setting, is_contact: false });
        }
        let asking = || consents.iter().filter(|consent| consent.setting.asks_contacts());
        let keys: Vec<ItemKey> = asking().map(|consent| contact_key(consent.user_id, actor)).collect();
        let mut contacts = self.db().get_many(&keys).await?.into_iter();
        for consent in consents.iter_mut().filter(|consent| consent.setting.asks_contacts()) {
            consent.is_contact = contacts.next().flatten().is_some();
        }
        Ok(consents)
    }
}

/// A user's decisions about being added to chats by another user.
pub(crate) struct Consent {
    pub(crate) user_id: UserId,
    actor: UserId,
    setting: GroupInvites,
    /// Whether the user has listed the other one; known only if the setting depends on it.
    is_contact: bool,
}

impl Consent {
    /// Whether the user may be added at once.
    pub(crate) fn is_given(&self) -> bool {
        self.setting.admits(self.is_contact)
    }

    /// Requires that the decision is still the same.
    pub(crate) fn checks(&self) -> Vec<Write> {
        let setting = Condition::is(GROUP_INVITES, group_invites_value(self.setting));
        let setting = Write::require(user_row(self.user_id), setting);
        let contact = self.setting.asks_contacts().then(|| {
            let key = contact_key(self.user_id, self.actor);
            if self.is_contact { Write::check(key) } else { Write::check_absent(key) }
        });
        std::iter::once(setting).chain(contact).collect()
    }
}

/// The items of an invitation, in the list of its user and in that of its group.
pub(crate) fn keys_of(chat_id: ChatId, user_id: UserId) -> [ItemKey; 2] {
    [ItemKey::of(Table::Invitations, user_id, chat_id), ItemKey::of(Table::Invitations, chat_id, user_id)]
}

/// Writes a new invitation in place of an earlier one, which must not have changed.
pub(crate) fn invite(invitation: &Invitation, stored: &[Invitation]) -> [Write; 2] {
    let before = stored.iter().find(|it| it.chat_id == invitation.chat_id);
    let [of_user, of_chat] = keys_of(invitation.chat_id, invitation.user_id);
    let of_user = Write::put(of_user, invitation_item(invitation));
    [unchanged(of_user, before), Write::put(of_chat, listed_item(invitation))]
}

/// Deletes an invitation.
pub(crate) fn forget(chat_id: ChatId, user_id: UserId) -> [Write; 2] {
    keys_of(chat_id, user_id).map(Write::delete)
}

fn unchanged(write: Write, before: Option<&Invitation>) -> Write {
    let (created_at, declined_at) = before.map(|it| (it.created_at, it.declined_at)).unzip();
    write
        .when(Condition::is(CREATED_AT, created_at.map(text)))
        .when(Condition::is(DECLINED_AT, declined_at.flatten().map(text)))
}

/// The items of an invitation and their keys.
pub(crate) fn invitation_items(invitation: &Invitation) -> Vec<(ItemKey, DynamoItem)> {
    let [of_user, of_chat] = keys_of(invitation.chat_id, invitation.user_id);
    let listed = invitation.declined_at.is_none().then(|| (of_chat, listed_item(invitation)));
    std::iter::once((of_user, invitation_item(invitation))).chain(listed).collect()
}

/// The item in the list of the user.
fn invitation_item(invitation: &Invitation) -> DynamoItem {
    item([
        (INVITED_BY, Some(text(invitation.invited_by))),
        (CREATED_AT, Some(text(invitation.created_at))),
        (DECLINED_AT, invitation.declined_at.map(text)),
        (TTL, Some(ttl(invitation.ends_at()))),
    ])
}

/// The item in the list of the group, which counts pending invitations.
fn listed_item(invitation: &Invitation) -> DynamoItem {
    item([(TTL, Some(ttl(invitation.ends_at())))])
}

/// An invitation; `None` for an item in the list of its group.
pub(crate) fn read_invitation(item: &DynamoItem) -> Result<Option<Invitation>, StoreError> {
    let row = ItemReader { table: Table::Invitations, item };
    if !row.has(INVITED_BY) {
        return row.parsed::<ChatId>("list").and(row.parsed::<UserId>("place")).map(|_| None);
    }
    Ok(Some(Invitation {
        chat_id: row.parsed("place")?,
        user_id: row.parsed("list")?,
        invited_by: row.parsed(INVITED_BY)?,
        created_at: row.parsed(CREATED_AT)?,
        declined_at: row.maybe_parsed(DECLINED_AT)?,
    }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use domain::limits::INVITATION_LIFETIME;
    use ports::{ChatWriter, Clock, NewGroup, SystemClock};

    use super::*;
    use crate::item::number;
    use crate::testing::DynamoServer;

    fn user(n: usize) -> UserId {
        UserId::from_bytes(((n + 1) as u128).to_be_bytes())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_group_has_a_bounded_number_of_pending_invitations() {
        let server = DynamoServer::with_tables().await;
        let (store, now, chat_id) = (server.store(), SystemClock.now(), ChatId::from_bytes([7; 16]));
        let name = "group".to_owned().try_into().unwrap();
        let group = NewGroup { chat_id, name, created_by: user(0), members: vec![], created_at: now };
        store.create_group(group).await.unwrap();
        server.put(user_row(user(1)), asking_user()).await;
        let others = (2..2 + INVITATIONS_PER_CHAT_MAX).map(|n| Invitation::new(chat_id, user(n), user(0), now));
        let items = others.flat_map(|invitation| invitation_items(&invitation)).collect();
        store.db().put_many(&items).await.unwrap();
        let invite = || {
            let command = ChatCommand::AddMember { user_id: user(1), role: Role::Member };
            store.apply(chat_id, user(0), command, now)
        };
        assert_eq!(invite().await.unwrap(), Err(ChatRefusal::TooManyInvitations));
        // The service has not deleted it yet.
        let over = Invitation::new(chat_id, user(2), user(0), now.minus(INVITATION_LIFETIME + Duration::from_secs(2)));
        store.db().put_many(&invitation_items(&over).into_iter().collect()).await.unwrap();
        assert!(invite().await.unwrap().is_ok());
        assert!(invite().await.unwrap().is_ok(), "its own does not count");
    }

    fn asking_user() -> DynamoItem {
        let at = Timestamp::from_millis(1);
        item([
            ("display_name", Some(text("One"))),
            ("presence_visibility", Some(text("nobody"))),
            (GROUP_INVITES, Some(text("nobody"))),
            (CREATED_AT, Some(text(at))),
            ("updated_at", Some(text(at))),
            ("version", Some(number(1))),
        ])
    }
}
