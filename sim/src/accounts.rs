//! Deletions of accounts: the ports that they use, and what must be true when they are done.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use audit::history::{Client, Entry, HistoryOp};
use domain::{ChatId, DeviceId, Invariant, Role, Sequence, Timestamp, UserId};
use ports::{
    AccountStore, ChatIdPage, ChatReader, Clock, Expiry, ExpiryProgress, MessageDisposition, MessageExpirer,
    MessageReader, PageBookmark, PageBounds, PendingDeletion, StoreError, UserReader,
};

use crate::partitions::Load;
use crate::store::SimStore;
use crate::world::World;

const ALL: PageBounds = PageBounds { count: usize::MAX, bytes: usize::MAX };

/// The users with a begun deletion.
pub(crate) type Deletions = BTreeMap<UserId, BegunDeletion>;

/// A deletion that has begun.
#[derive(Clone)]
pub(crate) struct BegunDeletion {
    messages: MessageDisposition,
    /// The groups that the user has left by the deletion. Messages in others, which they had left or were removed from
    /// before, stay.
    departed: BTreeSet<ChatId>,
}

#[async_trait]
impl AccountStore for SimStore {
    async fn begin_deletion(&self, deletion: PendingDeletion) -> Result<bool, StoreError> {
        let (store, world) = (self.store.clone(), self.world.clone());
        let user_id = deletion.user_id;
        let load = Load::write("users", user_id).and(Load::write("deletions", user_id));
        self.on(load)
            .write("begin to delete an account", async move {
                let has_begun = store.begin_deletion(deletion).await?;
                if has_begun {
                    world.begun_deletion(deletion).await;
                }
                Ok(has_begun)
            })
            .await
    }

    async fn deletion(&self, user_id: UserId) -> Result<Option<PendingDeletion>, StoreError> {
        let store = self.store.clone();
        self.on(Load::read("deletions", user_id)).read(async move { store.deletion(user_id).await }).await
    }

    async fn deletions(&self, count: usize) -> Result<Vec<PendingDeletion>, StoreError> {
        let store = self.store.clone();
        self.read(async move { store.deletions(count).await }).await
    }

    async fn end_deletion(&self, user_id: UserId) -> Result<(), StoreError> {
        let store = self.store.clone();
        let load = Load::write("deletions", user_id);
        self.on(load).write("end the deletion of an account", async move { store.end_deletion(user_id).await }).await
    }
}

#[async_trait]
impl MessageExpirer for SimStore {
    async fn expire(
        &self,
        chat_id: ChatId,
        from: Sequence,
        which: Expiry,
        now: Timestamp,
    ) -> Result<ExpiryProgress, StoreError> {
        let (store, world) = (self.store.clone(), self.world.clone());
        let load = Load::read("messages", chat_id).and(Load::write("messages", chat_id));
        self.on(load)
            .write("expire messages", async move {
                let progress = store.expire(chat_id, from, which, now).await?;
                world.expired_earlier(chat_id).await;
                Ok(progress)
            })
            .await
    }

    async fn chat_ids(&self, after: Option<&PageBookmark>, count: usize) -> Result<ChatIdPage, StoreError> {
        let (store, after) = (self.store.clone(), after.cloned());
        self.read(async move { store.chat_ids(after.as_ref(), count).await }).await
    }
}

impl World {
    /// Records a begun deletion. From now on the user leaves their groups, and erased messages are gone.
    async fn begun_deletion(&self, deletion: PendingDeletion) {
        let PendingDeletion { user_id, messages, .. } = deletion;
        let (is_first, erases) = self.record_deletion(user_id, messages);
        if erases {
            self.observe_deleted(user_id, HistoryOp::Erasing { user_id });
        }
        if is_first {
            for (chat_id, _) in self.store.memberships(user_id).await.unwrap_or_default() {
                self.observe_deleted(user_id, HistoryOp::Leaving { chat_id, user_id });
            }
        }
        self.checks.privacy_changed(self);
    }

    /// Adds to the history what happens to a user whose account is deleted.
    fn observe_deleted(&self, user_id: UserId, op: HistoryOp) {
        let client = Client { user_id, device_id: DeviceId::from_bytes([0; 16]) };
        self.observe(&Entry { at: self.milliseconds(), client, op });
    }

    /// Reads the expiry times of a chat's messages again.
    async fn expired_earlier(&self, chat_id: ChatId) {
        // Nothing has expired at the beginning of time.
        let beginning = Timestamp::from_millis(0);
        if let Ok(page) = self.store.after(chat_id, Sequence::ZERO, ALL, beginning).await {
            let ends = page.messages.iter().map(|message| (message.sequence, message.expires_at));
            self.checks.expires(chat_id, ends);
        }
        self.checks.touch(chat_id);
    }

    /// Returns whether the deletion is new, and whether it has not erased messages so far and now does.
    fn record_deletion(&self, user_id: UserId, messages: MessageDisposition) -> (bool, bool) {
        let mut deletions = self.deletions();
        let is_first = !deletions.contains_key(&user_id);
        let begun = BegunDeletion { messages: MessageDisposition::Keep, departed: BTreeSet::new() };
        let deletion = deletions.entry(user_id).or_insert(begun);
        let erases = messages == MessageDisposition::Erase && deletion.messages == MessageDisposition::Keep;
        if erases {
            deletion.messages = messages;
        }
        (is_first, erases)
    }

    /// Records a group that a user has left by the deletion of their account.
    pub(crate) fn departed(&self, chat_id: ChatId, user_id: UserId) {
        if let Some(deletion) = self.deletions().get_mut(&user_id) {
            deletion.departed.insert(chat_id);
        }
    }

    /// Records in the history that a user whose account is deleted has left a chat.
    pub(crate) fn deleted_user_left(&self, chat_id: ChatId, user_id: UserId) {
        if self.deletions().contains_key(&user_id) {
            self.observe_deleted(user_id, HistoryOp::Left { chat_id, user_id });
        }
    }

    /// Checks at the end of a run that begun deletions are complete: no deleted user owns a group, and erased messages
    /// are in no read.
    pub(crate) async fn look_at_deletions(&self, chat_ids: &[ChatId]) {
        let deletions = self.deletions().clone();
        for (user_id, BegunDeletion { messages, departed }) in deletions {
            let user = self.store.users(&[user_id]).await.ok().and_then(|mut users| users.pop().flatten());
            let is_tombstone = user.is_some_and(|user| user.deleted_at.is_some());
            for chat_id in chat_ids {
                let member = self.store.member(*chat_id, user_id).await.ok().flatten();
                let is_reached = member.is_some() || departed.contains(chat_id);
                let is_owner = member.is_some_and(|member| member.role == Role::Owner);
                self.check(Invariant::OwnerAlwaysExists, !(is_tombstone && is_owner), || {
                    format!("{chat_id} belongs to {user_id}, whose account was deleted long ago")
                });
                if is_tombstone && messages == MessageDisposition::Erase && is_reached {
                    self.look_at_erased(*chat_id, user_id).await;
                }
            }
        }
    }

    async fn look_at_erased(&self, chat_id: ChatId, user_id: UserId) {
        let Ok(page) = self.store.after(chat_id, Sequence::ZERO, ALL, self.clock.now()).await else { return };
        let left = page.messages.iter().find(|message| message.sender_id == user_id).map(|message| message.sequence);
        self.check(Invariant::ExpiredNeverRead, left.is_none(), || {
            format!("{left:?} of {chat_id} is still read, and {user_id} has erased it")
        });
    }
}
