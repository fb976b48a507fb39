use std::collections::BTreeMap;

use async_trait::async_trait;
use domain::{
    Chat, ChatChange, ChatCommand, ChatId, ChatRefusal, DirectPair, Invitation, Member, MemberChange, Timestamp,
    UserId, Watermarks, decide,
};
use ports::{
    ChatReader, ChatWriter, CreatedChat, Head, InboxSelection, InboxSelector, InboxStart, NewDirectChat, NewGroup,
    StoreError,
};

use super::{ChatState, MemoryStore, MemoryStoreState};

#[async_trait]
impl ChatReader for MemoryStore {
    async fn chat(&self, chat_id: ChatId) -> Result<Option<Chat>, StoreError> {
        Ok(self.transaction(|state| state.chat(chat_id)))
    }

    async fn chats(&self, chat_ids: &[ChatId]) -> Result<Vec<Option<Chat>>, StoreError> {
        Ok(self.transaction(|state| chat_ids.iter().map(|chat_id| state.chat(*chat_id)).collect()))
    }

    async fn member(&self, chat_id: ChatId, user_id: UserId) -> Result<Option<Member>, StoreError> {
        Ok(self.transaction(|state| state.chats.get(&chat_id)?.members.get(&user_id).cloned()))
    }

    async fn members(&self, chat_id: ChatId) -> Result<Vec<Member>, StoreError> {
        Ok(self.transaction(|state| {
            state.chats.get(&chat_id).map(|chat| chat.members.values().cloned().collect()).unwrap_or_default()
        }))
    }

    async fn first_members(&self, chat_ids: &[ChatId], count: usize) -> Result<Vec<Vec<Member>>, StoreError> {
        let first = |state: &MemoryStoreState, chat_id| {
            let members = state.chats.get(chat_id).into_iter().flat_map(|chat| chat.members.values());
            members.take(count).cloned().collect()
        };
        Ok(self.transaction(|state| chat_ids.iter().map(|chat_id| first(state, chat_id)).collect()))
    }

    async fn memberships(&self, user_id: UserId) -> Result<Vec<(ChatId, Member)>, StoreError> {
        Ok(self.transaction(|state| {
            let chat_ids = state.memberships.get(&user_id).into_iter().flatten();
            chat_ids.map(|chat_id| (*chat_id, state.chats[chat_id].members[&user_id].clone())).collect()
        }))
    }

    async fn memberships_in(&self, user_id: UserId, chat_ids: &[ChatId]) -> Result<Vec<Option<Member>>, StoreError> {
        let member = |state: &MemoryStoreState, chat_id| state.chats.get(chat_id)?.members.get(&user_id).cloned();
        Ok(self.transaction(|state| chat_ids.iter().map(|chat_id| member(state, chat_id)).collect()))
    }

    async fn chat_count(&self, user_id: UserId, max: usize) -> Result<usize, StoreError> {
        Ok(self.transaction(|state| state.memberships.get(&user_id).map_or(0, |chats| chats.len().min(max))))
    }

    async fn direct_chat(&self, pair: DirectPair) -> Result<Option<ChatId>, StoreError> {
        Ok(self.transaction(|state| state.direct_chats.get(&pair).copied()))
    }

    async fn inbox_rows(&self, user_id: UserId) -> Result<usize, StoreError> {
        self.chat_count(user_id, usize::MAX).await
    }

    async fn inbox(&self, user_id: UserId, start: InboxStart, count: usize) -> Result<InboxSelection, StoreError> {
        Ok(self.transaction(|state| {
            let mut selector = InboxSelector::new(start, count);
            for chat_id in state.memberships.get(&user_id).into_iter().flatten() {
                let ChatState { chat, head, .. } = &state.chats[chat_id];
                let activity = head.as_ref().map_or(chat.created_at, |head| head.activity(chat.created_at));
                selector.add(activity, *chat_id);
            }
            selector.finish()
        }))
    }

    async fn blocked_chats(&self, chats: &[(ChatId, UserId)]) -> Result<Vec<bool>, StoreError> {
        Ok(self.transaction(|state| {
            let is_blocked = |(chat_id, user_id): &(ChatId, UserId)| {
                state.chats.get(chat_id).is_some_and(|chat| state.block_between(chat, *user_id).is_some())
            };
            chats.iter().map(is_blocked).collect()
        }))
    }
}

#[async_trait]
impl ChatWriter for MemoryStore {
    async fn create_direct(&self, chat: NewDirectChat) -> Result<Result<CreatedChat, ChatRefusal>, StoreError> {
        Ok(self.transaction(|state| {
            if let Some(existing) = state.direct_chats.get(&chat.pair).and_then(|chat_id| state.chat(*chat_id)) {
                return Ok(CreatedChat::Existing(existing));
            }
            for other in chat.pair.users().into_iter().filter(|user_id| *user_id != chat.created_by) {
                if state.has_blocked(chat.created_by, other) {
                    return Err(ChatRefusal::Blocking);
                }
                if state.has_blocked(other, chat.created_by) {
                    return Err(ChatRefusal::Blocked);
                }
            }
            state.direct_chats.insert(chat.pair, chat.chat_id);
            Ok(state.open(chat.opening(), chat.created_at))
        }))
    }

    async fn create_group(&self, group: NewGroup) -> Result<CreatedChat, StoreError> {
        Ok(self.transaction(|state| match state.chat(group.chat_id) {
            Some(existing) => CreatedChat::Existing(existing),
            None => {
                let opening = group.opening(|user_id| state.consents(user_id, group.created_by));
                state.open(opening, group.created_at)
            }
        }))
    }

    async fn apply(
        &self,
        chat_id: ChatId,
        actor: UserId,
        command: ChatCommand,
        now: Timestamp,
    ) -> Result<Result<ChatChange, ChatRefusal>, StoreError> {
        Ok(self.transaction(|state| {
            let chat = state.chats.get(&chat_id).ok_or(ChatRefusal::ChatNotFound)?;
            let target = command.target().and_then(|user_id| chat.members.get(&user_id));
            let change = decide(&chat.chat, chat.members.get(&actor), target, &command, now)?;
            if matches!(command, ChatCommand::Update(_))
                && let Some(block) = state.block_between(chat, actor)
            {
                return Err(block.of_settings());
            }
            let change = match command {
                ChatCommand::AddMember { user_id, .. } if !state.consents(user_id, actor) => {
                    if state.has_max_invitations(chat_id, user_id, now) {
                        return Err(ChatRefusal::TooManyInvitations);
                    }
                    ChatChange::invitation(&chat.chat, Invitation::new(chat_id, user_id, actor, now))
                }
                _ => change,
            };
            state.write(change.clone(), now);
            Ok(change)
        }))
    }
}

impl MemoryStoreState {
    fn chat(&self, chat_id: ChatId) -> Option<Chat> {
        self.chats.get(&chat_id).map(|state| state.chat.clone())
    }

    fn open(&mut self, opening: ChatChange, now: Timestamp) -> CreatedChat {
        let chat = opening.chat.clone();
        self.write(opening, now);
        CreatedChat::New(chat)
    }

    /// Applies a chat change, and creates the chat if it does not exist.
    pub(super) fn write(&mut self, change: ChatChange, now: Timestamp) {
        let chat_id = change.chat.chat_id;
        let state = self.chats.entry(chat_id).or_insert_with(|| ChatState {
            chat: change.chat.clone(),
            members: BTreeMap::new(),
            delivery_states: BTreeMap::new(),
            head: Some(Head::default()),
            messages: BTreeMap::new(),
            updates: BTreeMap::new(),
            reactions: BTreeMap::new(),
            sends: BTreeMap::new(),
        });
        state.chat = change.chat;
        if let Some(head) = &mut state.head {
            head.message_ttl = state.chat.message_ttl;
        }
        let head = state.head_sequence();
        for member in change.members {
            match member {
                MemberChange::Added(member) => {
                    self.invitations.remove(&(member.user_id, chat_id));
                    self.memberships.entry(member.user_id).or_default().insert(chat_id);
                    state.delivery_states.insert(member.user_id, Watermarks::at(head).into());
                    state.members.insert(member.user_id, member);
                }
                MemberChange::Updated(member) => {
                    state.members.insert(member.user_id, member);
                }
                MemberChange::Removed(user_id) => {
                    self.memberships.entry(user_id).or_default().remove(&chat_id);
                    state.delivery_states.remove(&user_id);
                    state.members.remove(&user_id);
                }
            }
        }
        for invitation in change.invitations {
            self.invite(invitation, now);
        }
        for event in change.events {
            self.record(now, event);
        }
    }
}
