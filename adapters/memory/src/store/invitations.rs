use async_trait::async_trait;
use domain::limits::INVITATIONS_PER_CHAT_MAX;
use domain::{ChatChange, ChatCommand, ChatId, ChatRefusal, Invitation, Role, Timestamp, UserId, decide};
use ports::{InvitationStore, StoreError};

use super::{MemoryStore, MemoryStoreState};

#[async_trait]
impl InvitationStore for MemoryStore {
    async fn invitations(&self, user_id: UserId, now: Timestamp) -> Result<Vec<Invitation>, StoreError> {
        let mut pending = self.transaction(|state| state.invitations_of(user_id));
        pending.retain(|invitation| invitation.is_pending(now));
        pending.sort_by_key(|invitation| std::cmp::Reverse((invitation.created_at, invitation.chat_id)));
        Ok(pending)
    }

    async fn accept(
        &self,
        chat_id: ChatId,
        user_id: UserId,
        now: Timestamp,
    ) -> Result<Result<ChatChange, ChatRefusal>, StoreError> {
        Ok(self.transaction(|state| {
            let invitation = state.invitations.get(&(user_id, chat_id)).filter(|it| it.is_pending(now));
            let invitation = invitation.ok_or(ChatRefusal::NotInvited)?;
            let chat = state.chats.get(&chat_id).ok_or(ChatRefusal::ChatNotFound)?;
            if state.has_blocked(user_id, invitation.invited_by) {
                return Err(ChatRefusal::Blocking);
            }
            let addition = ChatCommand::AddMember { user_id, role: Role::Member };
            let (inviter, member) = (chat.members.get(&invitation.invited_by), chat.members.get(&user_id));
            let change = decide(&chat.chat, inviter, member, &addition, now).map_err(ChatRefusal::of_acceptance)?;
            state.write(change.clone(), now);
            Ok(change)
        }))
    }

    async fn decline(&self, chat_id: ChatId, user_id: UserId, now: Timestamp) -> Result<(), StoreError> {
        self.transaction(|state| {
            let key = (user_id, chat_id);
            let Some(pending) = state.invitations.get(&key).filter(|it| it.is_pending(now)).copied() else { return };
            match pending.declined(&state.invitations_of(user_id), now) {
                Some(declined) => drop(state.invitations.insert(key, declined)),
                None => drop(state.invitations.remove(&key)),
            }
        });
        Ok(())
    }

    async fn erase_user(&self, user_id: UserId) -> Result<(), StoreError> {
        self.transaction(|state| state.invitations.retain(|(invited, _), _| *invited != user_id));
        Ok(())
    }
}

impl MemoryStoreState {
    /// Whether `actor` may add a user to a group at once.
    pub(super) fn consents(&self, user_id: UserId, actor: UserId) -> bool {
        let setting = self.users.get(&user_id).map(|user| user.group_invites).unwrap_or_default();
        setting.admits(self.contacts.get(&user_id).is_some_and(|contacts| contacts.contains(&actor)))
    }

    /// Whether a group has the maximum number of pending invitations to other users.
    pub(super) fn has_max_invitations(&self, chat_id: ChatId, user_id: UserId, now: Timestamp) -> bool {
        let of_chat = self.invitations.values().filter(|it| it.chat_id == chat_id && it.user_id != user_id);
        of_chat.filter(|it| it.is_pending(now)).count() >= INVITATIONS_PER_CHAT_MAX
    }

    /// Writes an invitation, unless it must not be kept.
    pub(super) fn invite(&mut self, invitation: Invitation, now: Timestamp) {
        if invitation.is_kept(&self.invitations_of(invitation.user_id), now) {
            self.invitations.insert((invitation.user_id, invitation.chat_id), invitation);
        }
    }

    fn invitations_of(&self, user_id: UserId) -> Vec<Invitation> {
        self.invitations.values().filter(|invitation| invitation.user_id == user_id).copied().collect()
    }
}
