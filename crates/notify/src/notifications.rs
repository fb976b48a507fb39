use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use domain::limits::GROUP_MEMBERS_MAX;
use domain::{ChatId, DeviceId, EventBody, Member, Message, Sequence, Timestamp, UserId};
use ports::{
    ChatReader, Clock, DeadLetterStore, EventLog, Ids, MemberCache, MessageReader, Notice, NoticeStore, Notifier,
    PushDeviceStore, Record, Routes, StoreError, UserReader, WatermarkStore,
};
use quick_cache::sync::Cache;
use tokio::sync::Notify;
use tracing::warn;

use crate::Backoff;
use crate::wait::{consumer, wait_out};

/// How long somebody is not looked up again to whom nothing is owed, without a device or with the chat muted.
const NOTHING_OWED_PAUSE: Duration = Duration::from_secs(1);
/// How long the store is asked for the members of a chat after they have changed. Whatever fanout remembers from before
/// the change is forgotten by then, however far behind it is.
const CHANGED_PAUSE: Duration = Duration::from_secs(600);
/// Chats whose change is remembered, at the most.
const CHANGED_MAX: usize = 10_000;
/// Members of chats that are remembered as not to be looked up, at the most. Who is forgotten is looked up again.
const QUIET_MAX: usize = 100_000;

/// Tells members who are away that something waits for them.
///
/// A message makes notices: one for each device of each member who is away and has not muted the chat. A notice is due
/// after a delay, in which its user may come back, and what it says is decided then. Of a burst of messages in a chat a
/// device hears once.
pub struct Notifications {
    pub(crate) ports: NotificationPorts,
    pub(crate) config: NotificationsConfig,
    /// Until when a member of a chat need not be looked up: a notice is owed already, or there is no device to owe it to.
    quiet_until: Cache<(UserId, ChatId), Timestamp>,
    /// Until when what fanout remembers of the members of a chat may be older than a change that was seen here.
    changed_until: Cache<ChatId, Timestamp>,
    /// Wakes whoever tells when notices are owed.
    pub(crate) owed: Notify,
}

/// What notifications need from the world.
pub struct NotificationPorts {
    pub chats: Arc<dyn ChatReader>,
    /// What fanout remembers of members. It is read here and never filled.
    pub members: Arc<dyn MemberCache>,
    pub messages: Arc<dyn MessageReader>,
    pub watermarks: Arc<dyn WatermarkStore>,
    pub users: Arc<dyn UserReader>,
    pub routes: Arc<dyn Routes>,
    pub devices: Arc<dyn PushDeviceStore>,
    pub notices: Arc<dyn NoticeStore>,
    pub dead_letters: Arc<dyn DeadLetterStore>,
    pub notifier: Arc<dyn Notifier>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
}

/// What the operator decides about notifications.
#[derive(Clone, Copy, Debug)]
pub struct NotificationsConfig {
    /// How long a user has to come back before being told.
    pub delay: Duration,
    /// How long a device that was told about a chat hears no more about it.
    pub silence: Duration,
    /// Whether the start of a message is part of what is told.
    pub previews: bool,
    /// The pauses between tries.
    pub backoff: Backoff,
    /// Tries after which a device is given up.
    pub tries_max: u32,
}

impl Default for NotificationsConfig {
    fn default() -> Self {
        Self {
            delay: Duration::from_secs(1),
            silence: Duration::from_secs(30),
            previews: true,
            backoff: Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(300) },
            tries_max: 10,
        }
    }
}

/// A member who may be away, and the first message that would be news.
struct Candidate {
    user_id: UserId,
    chat_id: ChatId,
    from: Sequence,
}

impl Notifications {
    /// The name under which all who notify share the log.
    pub const GROUP: &'static str = "notify";

    pub fn new(ports: NotificationPorts, config: NotificationsConfig) -> Self {
        let (quiet_until, changed_until) = (Cache::new(QUIET_MAX), Cache::new(CHANGED_MAX));
        Self { ports, config, quiet_until, changed_until, owed: Notify::new() }
    }

    /// Consumes the log and tells what is due, for ever. Failures of the log and of the store are waited out. It may be
    /// dropped at any moment; the next run repeats what was not committed or settled.
    pub async fn run(&self, log: Arc<dyn EventLog>) {
        tokio::join!(self.owe_all(log), self.tell_all());
    }

    /// Owes notices again to the members of a chat who are away, for its messages from a sequence on, and says how many.
    /// Who was told a moment ago, or has received them meanwhile, is not told.
    pub async fn replay(&self, chat_id: ChatId, from: Sequence) -> Result<usize, StoreError> {
        let now = self.ports.clock.now();
        let members = self.ports.chats.members(chat_id).await?;
        let candidates = members.iter().map(|member| Candidate { user_id: member.user_id, chat_id, from }).collect();
        self.owe(candidates, now, now).await
    }

    /// Owes one notice that is due at once.
    pub(crate) async fn owe_at_once(
        &self,
        user_id: UserId,
        chat_id: ChatId,
        device_id: DeviceId,
        from: Sequence,
    ) -> Result<(), StoreError> {
        let due_at = self.ports.clock.now();
        self.ports.notices.owe(vec![Notice { user_id, chat_id, device_id, from, due_at, attempts: 0 }]).await?;
        self.owed.notify_one();
        Ok(())
    }

    async fn owe_all(&self, log: Arc<dyn EventLog>) {
        let mut consumer = consumer(&*log, Self::GROUP).await;
        loop {
            let records = match consumer.next().await {
                Ok(records) => records,
                Err(failure) => {
                    wait_out(failure).await;
                    continue;
                }
            };
            while let Err(failure) = self.owe_for(&records).await {
                wait_out(failure).await;
            }
            // The place is kept only now, behind the notices: a crash before this owes them again, which changes nothing.
            if let Err(failure) = consumer.commit().await {
                warn!(error = &failure as &dyn std::error::Error, "the place in the log was not kept");
            }
        }
    }

    /// Owes the notices of some events, all of them or, if the store fails, none.
    async fn owe_for(&self, records: &[Record]) -> Result<(), StoreError> {
        let now = self.ports.clock.now();
        let mut messages: BTreeMap<ChatId, Vec<&Message>> = BTreeMap::new();
        for record in records {
            match &record.event.body {
                EventBody::MessagePersisted { message, .. } if !message.is_expired(now) => {
                    messages.entry(message.chat_id).or_default().push(message);
                }
                EventBody::MembershipChanged { chat_id, .. } => {
                    self.changed_until.insert(*chat_id, now + CHANGED_PAUSE);
                }
                _ => {}
            }
        }
        let mut candidates = vec![];
        for (chat_id, messages) in messages {
            for &user_id in &*self.members(chat_id, now).await? {
                let news = messages.iter().find(|message| message.sender_id != user_id);
                let is_quiet = self.quiet_until.get(&(user_id, chat_id)).is_some_and(|until| until > now);
                if let Some(news) = news.filter(|_| !is_quiet) {
                    candidates.push(Candidate { user_id, chat_id, from: news.sequence });
                }
            }
        }
        self.owe(candidates, now, now + self.config.delay).await?;
        Ok(())
    }

    /// The members of a chat, as fanout remembers them or as the store has them. In a busy chat whose members are all
    /// there, this is all that a message costs here: no row is read.
    async fn members(&self, chat_id: ChatId, now: Timestamp) -> Result<Arc<[UserId]>, StoreError> {
        let changed = self.changed_until.get(&chat_id).is_some_and(|until| until > now);
        if !changed && let Some(members) = self.ports.members.members(chat_id).await? {
            return Ok(members);
        }
        Ok(self.ports.chats.members(chat_id).await?.iter().map(|member| member.user_id).collect())
    }

    /// Owes notices to the devices of those candidates who are away, and says how many.
    async fn owe(
        &self,
        mut candidates: Vec<Candidate>,
        now: Timestamp,
        due_at: Timestamp,
    ) -> Result<usize, StoreError> {
        if candidates.is_empty() {
            return Ok(0);
        }
        let mut users: BTreeSet<UserId> = candidates.iter().map(|candidate| candidate.user_id).collect();
        let gateways = self.ports.routes.gateways(&users.iter().copied().collect::<Vec<_>>()).await?;
        for online in gateways.into_values().flatten() {
            users.remove(&online);
        }
        candidates.retain(|candidate| users.contains(&candidate.user_id));
        let mut devices: BTreeMap<UserId, Vec<DeviceId>> = BTreeMap::new();
        for device in self.ports.devices.devices(&users.into_iter().collect::<Vec<_>>()).await? {
            devices.entry(device.user_id).or_default().push(device.device_id);
        }
        let reachable = candidates.iter().filter(|candidate| devices.contains_key(&candidate.user_id)).collect();
        let owed = self.unmuted(reachable, now).await?;
        let notices = |&&Candidate { user_id, chat_id, from }: &&Candidate| {
            let devices = devices.get(&user_id).into_iter().flatten();
            devices.map(move |&device_id| Notice { user_id, chat_id, device_id, from, due_at, attempts: 0 })
        };
        let notices: Vec<Notice> = owed.iter().flat_map(notices).collect();
        let count = notices.len();
        if count > 0 {
            self.ports.notices.owe(notices).await?;
            self.owed.notify_one();
        }
        for Candidate { user_id, chat_id, .. } in &candidates {
            self.quiet_until.insert((*user_id, *chat_id), now + NOTHING_OWED_PAUSE);
        }
        for Candidate { user_id, chat_id, .. } in owed {
            self.quiet_until.insert((*user_id, *chat_id), due_at);
        }
        Ok(count)
    }

    /// Those candidates who are members that have not muted their chat. Only few come so far, so their chats are read.
    async fn unmuted<'a>(
        &self,
        candidates: Vec<&'a Candidate>,
        now: Timestamp,
    ) -> Result<Vec<&'a Candidate>, StoreError> {
        let chat_ids: BTreeSet<ChatId> = candidates.iter().map(|candidate| candidate.chat_id).collect();
        let chat_ids: Vec<ChatId> = chat_ids.into_iter().collect();
        let members = self.ports.chats.first_members(&chat_ids, GROUP_MEMBERS_MAX).await?;
        let awake: BTreeSet<(ChatId, UserId)> = chat_ids
            .into_iter()
            .zip(members)
            .flat_map(|(chat_id, members)| members.into_iter().map(move |member| (chat_id, member)))
            .filter(|(_, member)| !is_muted(member, now))
            .map(|(chat_id, member)| (chat_id, member.user_id))
            .collect();
        let is_awake = |candidate: &&Candidate| awake.contains(&(candidate.chat_id, candidate.user_id));
        Ok(candidates.into_iter().filter(is_awake).collect())
    }
}

pub(crate) fn is_muted(member: &Member, now: Timestamp) -> bool {
    member.muted_until.is_some_and(|until| until > now)
}
