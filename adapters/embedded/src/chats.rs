use std::collections::BTreeSet;

use async_trait::async_trait;
use domain::{
    Chat, ChatChange, ChatCommand, ChatId, ChatRefusal, DeliveryState, DirectPair, Invitation, Member, MemberChange,
    Sequence, Timestamp, UserId, Watermarks, decide,
};
use ports::{
    ChatReader, ChatWriter, CreatedChat, Head, InboxSelection, InboxStart, NewDirectChat, NewGroup, StoreError,
};

use crate::EmbeddedStore;
use crate::blocks;
use crate::error::unreadable;
use crate::inbox;
use crate::invitations;
use crate::keys;
use crate::records::Stored;
use crate::tables::{Table, View};
use crate::tx::Tx;

#[async_trait]
impl ChatReader for EmbeddedStore {
    async fn chat(&self, chat_id: ChatId) -> Result<Option<Chat>, StoreError> {
        self.tables().await?.get(Table::Chats, &keys::chat(chat_id))
    }

    async fn chats(&self, chat_ids: &[ChatId]) -> Result<Vec<Option<Chat>>, StoreError> {
        let chat_ids = chat_ids.to_vec();
        self.read(move |tables| {
            let view = tables.view();
            chat_ids.iter().map(|chat_id| view.get(Table::Chats, &keys::chat(*chat_id))).collect()
        })
        .await
    }

    async fn member(&self, chat_id: ChatId, user_id: UserId) -> Result<Option<Member>, StoreError> {
        self.tables().await?.get(Table::Members, &keys::member(chat_id, user_id))
    }

    async fn members(&self, chat_id: ChatId) -> Result<Vec<Member>, StoreError> {
        self.read(move |tables| {
            let view = tables.view();
            members(&view, chat_id).collect()
        })
        .await
    }

    async fn first_members(&self, chat_ids: &[ChatId], count: usize) -> Result<Vec<Vec<Member>>, StoreError> {
        let chat_ids = chat_ids.to_vec();
        self.read(move |tables| {
            let view = tables.view();
            chat_ids.iter().map(|chat_id| members(&view, *chat_id).take(count).collect()).collect()
        })
        .await
    }

    async fn memberships(&self, user_id: UserId) -> Result<Vec<(ChatId, Member)>, StoreError> {
        self.read(move |tables| {
            let view = tables.view();
            let rows = view.prefix(Table::Memberships, &keys::user(user_id));
            rows.map(|row| {
                let (key, row) = row?;
                let membership = keys::parse_membership(&key).and_then(|chat_id| Ok((chat_id, Member::decode(&row)?)));
                membership.map_err(|error| unreadable(Table::Memberships, error))
            })
            .collect()
        })
        .await
    }

    async fn memberships_in(&self, user_id: UserId, chat_ids: &[ChatId]) -> Result<Vec<Option<Member>>, StoreError> {
        let chat_ids = chat_ids.to_vec();
        self.read(move |tables| {
            let view = tables.view();
            let members = chat_ids.iter().map(|chat_id| view.get(Table::Members, &keys::member(*chat_id, user_id)));
            members.collect()
        })
        .await
    }

    async fn chat_count(&self, user_id: UserId, max: usize) -> Result<usize, StoreError> {
        self.read(move |tables| inbox::count(tables, user_id, max)).await
    }

    async fn direct_chat(&self, pair: DirectPair) -> Result<Option<ChatId>, StoreError> {
        self.tables().await?.get(Table::DirectChats, &keys::direct(pair))
    }

    /// Inboxes that are too small for the index are read in full, and are so cheap that they do not count.
    async fn inbox_rows(&self, _: UserId) -> Result<usize, StoreError> {
        Ok(0)
    }

    async fn inbox(&self, user_id: UserId, start: InboxStart, count: usize) -> Result<InboxSelection, StoreError> {
        self.read(move |tables| inbox::select(tables, user_id, start, count)).await
    }

    async fn blocked_chats(&self, chats: &[(ChatId, UserId)]) -> Result<Vec<bool>, StoreError> {
        let keys: Vec<_> = chats.iter().map(|(chat_id, _)| keys::chat(*chat_id)).collect();
        self.read(move |tables| {
            let view = tables.view();
            keys.iter().map(|key| Ok(view.get_bytes(Table::BlockedChats, key)?.is_some())).collect()
        })
        .await
    }
}

/// The members of a chat, by user id.
fn members<'a>(view: &'a View<'_>, chat_id: ChatId) -> impl Iterator<Item = Result<Member, StoreError>> + use<'a> {
    let rows = view.prefix(Table::Members, &keys::chat(chat_id));
    rows.map(|row| Member::decode(&row?.1).map_err(|error| unreadable(Table::Members, error)))
}

#[async_trait]
impl ChatWriter for EmbeddedStore {
    async fn create_direct(&self, new: NewDirectChat) -> Result<Result<CreatedChat, ChatRefusal>, StoreError> {
        self.write(move |tx| {
            let pair = keys::direct(new.pair);
            if let Some(chat_id) = tx.get::<ChatId>(Table::DirectChats, &pair)? {
                let chat = tx.get(Table::Chats, &keys::chat(chat_id))?;
                let chat = chat.ok_or_else(|| unreadable(Table::Chats, format!("direct chat {chat_id} has no row")))?;
                return Ok(Ok(CreatedChat::Existing(chat)));
            }
            for other in new.pair.users().into_iter().filter(|user_id| *user_id != new.created_by) {
                if blocks::has_blocked(tx, new.created_by, other)? {
                    return Ok(Err(ChatRefusal::Blocking));
                }
                if blocks::has_blocked(tx, other, new.created_by)? {
                    return Ok(Err(ChatRefusal::Blocked));
                }
            }
            tx.put(Table::DirectChats, &pair, &new.chat_id);
            open(tx, new.opening(), new.created_at).map(Ok)
        })
        .await
    }

    async fn create_group(&self, new: NewGroup) -> Result<CreatedChat, StoreError> {
        self.write(move |tx| match tx.get(Table::Chats, &keys::chat(new.chat_id))? {
            Some(chat) => Ok(CreatedChat::Existing(chat)),
            None => {
                let mut asked = BTreeSet::new();
                for user_id in new.members.iter().copied() {
                    if !invitations::consents(tx, user_id, new.created_by)? {
                        asked.insert(user_id);
                    }
                }
                open(tx, new.opening(|user_id| !asked.contains(&user_id)), new.created_at)
            }
        })
        .await
    }

    async fn apply(
        &self,
        chat_id: ChatId,
        actor: UserId,
        command: ChatCommand,
        now: Timestamp,
    ) -> Result<Result<ChatChange, ChatRefusal>, StoreError> {
        self.write(move |tx| {
            let Some(chat) = tx.get::<Chat>(Table::Chats, &keys::chat(chat_id))? else {
                return Ok(Err(ChatRefusal::ChatNotFound));
            };
            let member = |user_id| tx.get::<Member>(Table::Members, &keys::member(chat_id, user_id));
            let block = match command {
                ChatCommand::Update(_) => blocks::between(tx, chat_id, actor)?,
                _ => None,
            };
            let member_of_actor = member(actor)?;
            let target = command.target().map(member).transpose()?.flatten();
            let change = match decide(&chat, member_of_actor.as_ref(), target.as_ref(), &command, now) {
                Ok(change) => change,
                Err(refusal) => return Ok(Err(refusal)),
            };
            if let Some(block) = block {
                return Ok(Err(block.of_settings()));
            }
            let change = match command {
                ChatCommand::AddMember { user_id, .. } if !invitations::consents(tx, user_id, actor)? => {
                    if invitations::has_max(tx, chat_id, user_id)? {
                        return Ok(Err(ChatRefusal::TooManyInvitations));
                    }
                    ChatChange::invitation(&chat, Invitation::new(chat_id, user_id, actor, now))
                }
                _ => change,
            };
            write_change(tx, &change, now)?;
            if change.chat.message_ttl != chat.message_ttl {
                copy_message_ttl(tx, &change.chat)?;
            }
            Ok(Ok(change))
        })
        .await
    }
}

fn open(tx: &mut Tx<'_>, opening: ChatChange, now: Timestamp) -> Result<CreatedChat, StoreError> {
    tx.put(Table::Heads, &keys::chat(opening.chat.chat_id), &Head::default());
    write_change(tx, &opening, now)?;
    Ok(CreatedChat::New(opening.chat))
}

pub(crate) fn write_change(tx: &mut Tx<'_>, change: &ChatChange, now: Timestamp) -> Result<(), StoreError> {
    let chat_id = change.chat.chat_id;
    tx.put(Table::Chats, &keys::chat(chat_id), &change.chat);
    for member in &change.members {
        match member {
            MemberChange::Added(member) => {
                let head = tx.counter(chat_id)?.map_or(Sequence::ZERO, |counter| counter.sequence);
                invitations::forget(tx, member.user_id, chat_id)?;
                put_member(tx, chat_id, member);
                tx.put(
                    Table::Watermarks,
                    &keys::membership(member.user_id, chat_id),
                    &DeliveryState::from(Watermarks::at(head)),
                );
            }
            MemberChange::Updated(member) => put_member(tx, chat_id, member),
            MemberChange::Removed(user_id) => {
                tx.delete(Table::Members, &keys::member(chat_id, *user_id));
                tx.delete(Table::Memberships, &keys::membership(*user_id, chat_id));
                tx.delete(Table::Watermarks, &keys::membership(*user_id, chat_id));
            }
        }
    }
    for invitation in &change.invitations {
        invitations::invite(tx, invitation, now)?;
    }
    for event in &change.events {
        tx.log(event.clone())?;
    }
    Ok(())
}

/// Copies the message lifetime to the head row. A missing row stays missing: an operator repairs it.
fn copy_message_ttl(tx: &mut Tx<'_>, chat: &Chat) -> Result<(), StoreError> {
    let key = keys::chat(chat.chat_id);
    if let Some(head) = tx.get::<Head>(Table::Heads, &key)? {
        tx.put(Table::Heads, &key, &Head { message_ttl: chat.message_ttl, ..head });
    }
    Ok(())
}

fn put_member(tx: &mut Tx<'_>, chat_id: ChatId, member: &Member) {
    tx.put(Table::Members, &keys::member(chat_id, member.user_id), member);
    tx.put(Table::Memberships, &keys::membership(member.user_id, chat_id), member);
}
