//! Exports and deletes whole accounts.
//!
//! A deletion begins with one transaction that turns the user into a tombstone. Everything else follows in idempotent
//! steps. A process that finds an unfinished deletion, for example after a crash, runs all steps from the start, so no
//! step depends on the progress of another process.

mod export;

use std::sync::Arc;
use std::time::Duration;

use auth::{Auth, AuthError, Revoke};
use domain::{ChatCommand, ChatId, ChatRefusal, Member, RestrictionChange, Role, Sequence, Timestamp, UserId};
use ports::{
    AccountStore, BlockStore, ChatReader, ChatWriter, Clock, ContactStore, Expiry, InvitationStore, MemberCache,
    MessageDisposition, MessageExpirer, MessageReader, PasskeyStore, PendingDeletion, Principal, PushDeviceStore,
    ReportStore, SecurityEvent, SecurityEventKind, SecurityEvents, StoreError, UserReader, WatermarkStore, error_chain,
};
use tokio::sync::Notify;
use tracing::{info, warn};

/// Interval of the search for deletions that another process has begun or a crash has interrupted.
const PERIOD: Duration = Duration::from_secs(10);
/// Maximum number of deletions in one search.
const DELETIONS_MAX: usize = 100;
/// Maximum number of contacts that are removed at a time.
const CONTACTS_MAX: usize = 100;

/// Exports and deletes accounts, over these ports.
pub struct Accounts {
    /// Ends sessions.
    pub auth: Auth,
    /// Stores unfinished deletions.
    pub store: Arc<dyn AccountStore>,
    /// Expires messages.
    pub expirer: Arc<dyn MessageExpirer>,
    /// Reads users.
    pub users: Arc<dyn UserReader>,
    /// Reads chats and members.
    pub chats: Arc<dyn ChatReader>,
    /// Changes chats and members.
    pub chat_writer: Arc<dyn ChatWriter>,
    /// Cache of chat members, invalidated when they change.
    pub members: Arc<dyn MemberCache>,
    /// Reads messages.
    pub messages: Arc<dyn MessageReader>,
    /// Reads watermarks.
    pub watermarks: Arc<dyn WatermarkStore>,
    /// Stores contacts.
    pub contacts: Arc<dyn ContactStore>,
    /// Stores blocks.
    pub blocks: Arc<dyn BlockStore>,
    /// Stores invitations to groups.
    pub invitations: Arc<dyn InvitationStore>,
    /// Stores reports.
    pub reports: Arc<dyn ReportStore>,
    /// Stores passkeys.
    pub passkeys: Arc<dyn PasskeyStore>,
    /// Stores the devices that receive notifications.
    pub push_devices: Arc<dyn PushDeviceStore>,
    /// Records deletions.
    pub security: Arc<dyn SecurityEvents>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Wakes [`run`](Self::run) in this process.
    pub begun: Notify,
}

impl Accounts {
    /// Begins to delete an account. When it returns, the user is a tombstone and, unless that failed, signed out
    /// everywhere; [`run`](Self::run) does the rest. `None` if there is no such user.
    pub async fn delete(
        &self,
        user_id: UserId,
        messages: MessageDisposition,
    ) -> Result<Option<PendingDeletion>, StoreError> {
        let deletion = PendingDeletion { user_id, messages, begun_at: self.clock.now() };
        if !self.store.begin_deletion(deletion).await? {
            return Ok(None);
        }
        self.security.record(SecurityEvent::of(SecurityEventKind::AccountDeleted).user(user_id));
        // If this fails, `run` repeats it when it finishes the deletion.
        if let Err(failure) = self.sign_out(user_id).await {
            warn!(
                error = %error_chain(&failure),
                "could not sign out a deleted account; the deletion task retries"
            );
        }
        self.begun.notify_one();
        Ok(Some(deletion))
    }

    /// Finishes deletions until it is dropped, which is safe at any time. Any number of processes may run it.
    pub async fn run(&self) {
        loop {
            if let Err(failure) = self.finish_all().await {
                warn!(
                    error = %error_chain(&failure),
                    "could not list account deletions; retrying at next interval"
                );
            }
            // Either a wake-up or the end of the period: in both cases there may be work.
            drop(tokio::time::timeout(PERIOD, self.begun.notified()).await);
        }
    }

    /// Expires messages of a chat in steps, and returns how many now expire earlier than before.
    pub async fn expire(&self, chat_id: ChatId, which: Expiry) -> Result<usize, StoreError> {
        let (now, mut from, mut messages) = (self.clock.now(), Sequence::ZERO, 0);
        loop {
            let step = self.expirer.expire(chat_id, from, which, now).await?;
            messages += step.messages;
            match step.next {
                Some(next) => from = next,
                None => return Ok(messages),
            }
        }
    }

    /// Removes a member from a group permanently. If they owned the group, it gets another owner.
    pub async fn depart(
        &self,
        chat_id: ChatId,
        user_id: UserId,
        now: Timestamp,
    ) -> Result<Result<(), ChatRefusal>, StoreError> {
        let heir = heir(&self.chats.members(chat_id).await?, user_id);
        let departed = self.chat_writer.apply(chat_id, user_id, ChatCommand::Depart { heir }, now).await?;
        self.forget_members(chat_id).await;
        Ok(departed.map(drop))
    }

    /// Invalidates fanout's cache of the members of a chat.
    pub async fn forget_members(&self, chat_id: ChatId) {
        if let Err(failure) = self.members.invalidate(chat_id).await {
            let error = error_chain(&failure);
            warn!(%error, "could not invalidate the member cache; it is stale until the change event arrives");
        }
    }

    async fn finish_all(&self) -> Result<(), StoreError> {
        for deletion in self.store.deletions(DELETIONS_MAX).await? {
            // A deletion that fails does not block the others. The next search finds it again.
            if let Err(failure) = self.finish(deletion).await {
                let (user_id, error) = (deletion.user_id, error_chain(&failure));
                warn!(%user_id, %error, "could not finish the deletion of an account; retrying at next interval");
            }
        }
        Ok(())
    }

    async fn finish(&self, deletion: PendingDeletion) -> Result<(), StoreError> {
        let PendingDeletion { user_id, messages, .. } = deletion;
        // Without them, no passkey signs the user in again.
        self.passkeys.erase_user(user_id).await?;
        self.sign_out(user_id).await?;
        // All other data of the user is removed here, by calls that may be repeated.
        self.forget_contacts(user_id).await?;
        self.blocks.erase_user(user_id).await?;
        self.invitations.erase_user(user_id).await?;
        self.reports.erase_user(user_id).await?;
        for (chat_id, _) in self.chats.memberships(user_id).await? {
            // Before they leave: without the membership, a retry would not find this chat.
            if messages == MessageDisposition::Erase {
                self.expire(chat_id, Expiry { sender: Some(user_id), lifetime: None }).await?;
            }
            self.leave(chat_id, user_id).await?;
        }
        // A sign-in during the deletion may have created a session for the tombstone.
        self.sign_out(user_id).await?;
        self.store.end_deletion(user_id).await?;
        info!(%user_id, "an account was deleted");
        Ok(())
    }

    /// Ends all sessions of a user, closes their sockets, and removes their devices.
    async fn sign_out(&self, user_id: UserId) -> Result<(), StoreError> {
        // This call has no session and no device of its own.
        let as_user = Principal {
            user_id,
            session_id: None,
            device_id: None,
            token_expires_at: self.clock.now(),
            assertion: None,
        };
        self.auth.forget(user_id);
        // Users with tokens of another system have no sessions. The suspension closes their sockets, and ingest refuses
        // their sends in direct chats, in which they stay a member.
        let deleted = RestrictionChange::Suspend { reason: "the account was deleted".to_owned().try_into().ok() };
        // Only a list of denied tokens can be full.
        self.auth.restrict(user_id, deleted).await.map_err(unavailable)?.map_err(StoreError::unavailable)?;
        self.auth.revoke(&as_user, Revoke::All).await.map_err(unavailable)?;
        // Users with tokens of another system have devices without sessions.
        for device in self.push_devices.devices(&[user_id]).await? {
            self.push_devices.remove(user_id, device.device_id).await?;
        }
        Ok(())
    }

    /// Removes the contacts of a user. Rows of users who listed them stay and lead to a tombstone, which lists omit.
    async fn forget_contacts(&self, user_id: UserId) -> Result<(), StoreError> {
        loop {
            let contacts = self.contacts.contacts(user_id, None, CONTACTS_MAX).await?;
            if contacts.is_empty() {
                return Ok(());
            }
            for contact_id in contacts {
                self.contacts.remove(user_id, contact_id).await?;
            }
        }
    }

    async fn leave(&self, chat_id: ChatId, user_id: UserId) -> Result<(), StoreError> {
        match self.depart(chat_id, user_id, self.clock.now()).await? {
            // A direct chat keeps both members, so that the other one can still read it.
            Ok(()) | Err(ChatRefusal::DirectIsImmutable | ChatRefusal::NotAMember | ChatRefusal::ChatNotFound) => {
                Ok(())
            }
            // The heir has left in between; the next attempt chooses another.
            Err(refusal) => Err(StoreError::unavailable(refusal)),
        }
    }
}

fn unavailable(failure: AuthError) -> StoreError {
    match failure {
        AuthError::Unavailable(failure) => failure,
        other => StoreError::unavailable(other),
    }
}

/// The next owner of a group: the longest-standing admin, or else the longest-standing member.
fn heir(members: &[Member], leaving: UserId) -> Option<UserId> {
    let others = members.iter().filter(|member| member.user_id != leaving);
    let longest_there = |member: &&Member| (member.role != Role::Admin, member.joined_at, member.user_id);
    others.min_by_key(longest_there).map(|member| member.user_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(n: u8, role: Role, joined_at: u64) -> Member {
        Member::new(UserId::from_bytes([n; 16]), role, Timestamp::from_millis(joined_at))
    }

    #[test]
    fn the_oldest_admin_is_the_heir_or_else_the_oldest_member() {
        let owner = member(1, Role::Owner, 1);
        let heir_of = |others: &[Member]| {
            let members = [std::slice::from_ref(&owner), others].concat();
            heir(&members, owner.user_id).map(|user_id| user_id.to_bytes()[0])
        };
        let (old, young) = (member(2, Role::Member, 2), member(3, Role::Member, 3));
        assert_eq!(heir_of(&[]), None);
        assert_eq!(heir_of(&[young.clone(), old.clone()]), Some(2));
        assert_eq!(heir_of(&[old.clone(), member(4, Role::Admin, 9), member(5, Role::Admin, 8), young]), Some(5));
    }
}
