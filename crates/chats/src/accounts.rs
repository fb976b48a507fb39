//! What a person has a right to: all that is theirs in one document, and an end of it.
//!
//! A deletion begins with one transaction that makes the person go. Everything else follows in steps that may be taken
//! again: whoever finds a deletion that has not ended, after a crash too, takes them all. Nothing of it needs to know how
//! far another has come.

mod export;

use std::sync::Arc;
use std::time::Duration;

use auth::{Auth, AuthError, Revoke};
use domain::{ChatCommand, ChatId, ChatRefusal, Member, Role, Sequence, Timestamp, UserId};
use ports::{
    AccountStore, BlockStore, ChatReader, ChatWriter, Clock, ContactStore, Deletion, Expiry, MemberCache,
    MessageExpirer, MessageReader, OwnMessages, Principal, PushDeviceStore, ReportStore, StoreError, UserReader,
    WatermarkStore,
};
use tokio::sync::Notify;
use tracing::{info, warn};

/// How often to look for deletions that another process has begun, or a crash has cut short.
const PERIOD: Duration = Duration::from_secs(10);
/// Deletions that are looked for at a time.
const DELETIONS_MAX: usize = 100;
/// Contacts that are forgotten at a time.
const CONTACTS_MAX: usize = 100;

/// Accounts as a whole, and what that takes.
pub struct Accounts {
    /// Ends sessions.
    pub auth: Auth,
    /// Remembers deletions.
    pub store: Arc<dyn AccountStore>,
    /// Has messages end.
    pub expirer: Arc<dyn MessageExpirer>,
    /// Reads users.
    pub users: Arc<dyn UserReader>,
    /// Reads chats and members.
    pub chats: Arc<dyn ChatReader>,
    /// Changes chats and members.
    pub chat_writer: Arc<dyn ChatWriter>,
    /// What is remembered of members, to be forgotten when they change.
    pub members: Arc<dyn MemberCache>,
    /// Reads messages.
    pub messages: Arc<dyn MessageReader>,
    /// Reads watermarks.
    pub watermarks: Arc<dyn WatermarkStore>,
    /// Keeps whom users have listed.
    pub contacts: Arc<dyn ContactStore>,
    /// Keeps whom users have blocked.
    pub blocks: Arc<dyn BlockStore>,
    /// Keeps what users report.
    pub reports: Arc<dyn ReportStore>,
    /// Keeps which devices are told of messages.
    pub push_devices: Arc<dyn PushDeviceStore>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Wakes whoever finishes deletions in this process.
    pub begun: Notify,
}

impl Accounts {
    /// Begins to delete an account: when it returns, the person is gone from it and signed out everywhere, and the rest
    /// follows by itself. `None` if there is no such user.
    pub async fn delete(&self, user_id: UserId, messages: OwnMessages) -> Result<Option<Deletion>, StoreError> {
        let deletion = Deletion { user_id, messages, begun_at: self.clock.now() };
        if !self.store.begin_deletion(deletion).await? {
            return Ok(None);
        }
        // What fails here is done by whoever finishes the deletion.
        if let Err(failure) = self.sign_out(user_id).await {
            warn!(error = &failure as &dyn std::error::Error, "a deleted account is signed out a little later");
        }
        self.begun.notify_one();
        Ok(Some(deletion))
    }

    /// Finishes deletions, for ever. It may be dropped at any moment, and run by any number of processes.
    pub async fn run(&self) {
        loop {
            if let Err(failure) = self.finish_all().await {
                warn!(error = &failure as &dyn std::error::Error, "deletions of accounts have to wait");
            }
            // A wake-up or the end of the period: whichever it was, there may be something to do.
            drop(tokio::time::timeout(PERIOD, self.begun.notified()).await);
        }
    }

    /// Has messages of a chat end, in steps, and says how many do so sooner than they would have.
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

    /// Has a member leave a group for good, which goes on with another owner if it was theirs.
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

    /// Has whoever pushes look the members of a chat up again.
    pub async fn forget_members(&self, chat_id: ChatId) {
        if let Err(failure) = self.members.invalidate(chat_id).await {
            let error: &dyn std::error::Error = &failure;
            warn!(error, "members are remembered until the event of their change comes");
        }
    }

    async fn finish_all(&self) -> Result<(), StoreError> {
        for deletion in self.store.deletions(DELETIONS_MAX).await? {
            // One that fails holds up none of the others. It is found again the next time.
            if let Err(failure) = self.finish(deletion).await {
                let (user_id, error) = (deletion.user_id, &failure as &dyn std::error::Error);
                warn!(%user_id, error, "the deletion of an account goes on later");
            }
        }
        Ok(())
    }

    async fn finish(&self, deletion: Deletion) -> Result<(), StoreError> {
        let Deletion { user_id, messages, .. } = deletion;
        self.sign_out(user_id).await?;
        // Whatever else is kept of a user is forgotten from here, each by one call that may be repeated.
        self.forget_contacts(user_id).await?;
        self.blocks.forget_user(user_id).await?;
        self.reports.forget_user(user_id).await?;
        for (chat_id, _) in self.chats.memberships(user_id).await? {
            // Before they leave: once they are no member, nothing leads from them to this chat.
            if messages == OwnMessages::Erase {
                self.expire(chat_id, Expiry { sender: Some(user_id), lifetime: None }).await?;
            }
            self.leave(chat_id, user_id).await?;
        }
        // Whoever was signing in while the account went has a session of the tombstone.
        self.sign_out(user_id).await?;
        self.store.end_deletion(user_id).await?;
        info!(%user_id, "an account was deleted");
        Ok(())
    }

    /// Ends all sessions of a user, closes their sockets, and forgets their devices.
    async fn sign_out(&self, user_id: UserId) -> Result<(), StoreError> {
        // Nobody asks, on no device of theirs.
        let as_user = Principal { user_id, session_id: None, device_id: None, token_expires_at: self.clock.now() };
        self.auth.forget(user_id);
        self.auth.revoke(&as_user, Revoke::All).await.map_err(|failure| match failure {
            AuthError::Unavailable(failure) => failure,
            other => StoreError::unavailable(other),
        })?;
        // Users of another system have devices without sessions.
        for device in self.push_devices.devices(&[user_id]).await? {
            self.push_devices.remove(user_id, device.device_id).await?;
        }
        Ok(())
    }

    /// Forgets whom a user has listed. Those who have listed them keep a row that leads to a tombstone, and are shown nobody.
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
            // A direct chat is of its two for ever, and the other one reads on.
            Ok(()) | Err(ChatRefusal::DirectIsImmutable | ChatRefusal::NotAMember | ChatRefusal::ChatNotFound) => {
                Ok(())
            }
            // The heir has gone in between.
            Err(refusal) => Err(StoreError::unavailable(refusal)),
        }
    }
}

/// Who goes on with a group when its owner goes: the admin who has been there longest, or else the member who has.
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
