use async_trait::async_trait;
use domain::{
    Chat, ChatChange, ChatCommand, ChatId, ChatRefusal, Member, MemberChange, Sequence, Timestamp, UserId, Watermarks,
    decide,
};
use ports::{ChatReader, ChatWriter, CreatedChat, Head, NewDirectChat, NewGroup, StoreError};

use crate::EmbeddedStore;
use crate::error::unreadable;
use crate::keys;
use crate::records::Stored;
use crate::tables::Table;
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
            let rows = view.prefix(Table::Members, &keys::chat(chat_id));
            rows.map(|row| Member::decode(&row?.1).map_err(|error| unreadable(Table::Members, error))).collect()
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
}

#[async_trait]
impl ChatWriter for EmbeddedStore {
    async fn create_direct(&self, new: NewDirectChat) -> Result<CreatedChat, StoreError> {
        self.write(move |tx| {
            let pair = keys::direct(new.pair);
            if let Some(chat_id) = tx.get::<ChatId>(Table::DirectChats, &pair)? {
                let chat = tx.get(Table::Chats, &keys::chat(chat_id))?;
                let chat = chat.ok_or_else(|| unreadable(Table::Chats, format!("direct chat {chat_id} has no row")))?;
                return Ok(CreatedChat::Existing(chat));
            }
            tx.put(Table::DirectChats, &pair, &new.chat_id);
            open(tx, new.opening())
        })
        .await
    }

    async fn create_group(&self, new: NewGroup) -> Result<CreatedChat, StoreError> {
        self.write(move |tx| match tx.get(Table::Chats, &keys::chat(new.chat_id))? {
            Some(chat) => Ok(CreatedChat::Existing(chat)),
            None => open(tx, new.opening()),
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
            let actor = member(actor)?;
            let target = command.target().map(member).transpose()?.flatten();
            let change = match decide(&chat, actor.as_ref(), target.as_ref(), &command, now) {
                Ok(change) => change,
                Err(refusal) => return Ok(Err(refusal)),
            };
            write_change(tx, &change)?;
            Ok(Ok(change))
        })
        .await
    }
}

fn open(tx: &mut Tx<'_>, opening: ChatChange) -> Result<CreatedChat, StoreError> {
    tx.put(Table::Heads, &keys::chat(opening.chat.chat_id), &Head::default());
    write_change(tx, &opening)?;
    Ok(CreatedChat::New(opening.chat))
}

fn write_change(tx: &mut Tx<'_>, change: &ChatChange) -> Result<(), StoreError> {
    let chat_id = change.chat.chat_id;
    tx.put(Table::Chats, &keys::chat(chat_id), &change.chat);
    for member in &change.members {
        match member {
            MemberChange::Added(member) => {
                let head = tx.sequence(chat_id)?.unwrap_or(Sequence::ZERO);
                put_member(tx, chat_id, member);
                tx.put(Table::Watermarks, &keys::membership(member.user_id, chat_id), &Watermarks::at(head));
            }
            MemberChange::Updated(member) => put_member(tx, chat_id, member),
            MemberChange::Removed(user_id) => {
                tx.delete(Table::Members, &keys::member(chat_id, *user_id));
                tx.delete(Table::Memberships, &keys::membership(*user_id, chat_id));
                tx.delete(Table::Watermarks, &keys::membership(*user_id, chat_id));
            }
        }
    }
    for event in &change.events {
        tx.log(event.clone());
    }
    Ok(())
}

fn put_member(tx: &mut Tx<'_>, chat_id: ChatId, member: &Member) {
    tx.put(Table::Members, &keys::member(chat_id, member.user_id), member);
    tx.put(Table::Memberships, &keys::membership(member.user_id, chat_id), member);
}
