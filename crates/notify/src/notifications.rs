use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use domain::limits::GROUP_MEMBERS_MAX;
use domain::{Backoff, ChatId, DeviceId, EventBody, Member, Message, Sequence, Timestamp, UserId};
use ports::{
    ChatReader, Clock, DeadLetterStore, EventLog, Ids, MemberCache, MessageReader, Notice, NoticeStore, Notifier,
    PushDeviceStore, Record, Routes, StoreError, UserReader, WatermarkStore, error_chain,
};
use quick_cache::sync::Cache;
use tokio::sync::Notify;
use tracing::warn;

use crate::wait::{consumer, wait_out};

/// How long a member without a device, or with the chat muted, is not looked up again.
const NO_NOTICE_PAUSE: Duration = Duration::from_secs(1);
/// How long members are read from the store after a membership change. By then fanout has invalidated its cached list, even
/// if fanout lags.
const CHANGED_PAUSE: Duration = Duration::from_secs(600);
/// Most chats with a remembered membership change.
const CHANGED_MAX: usize = 10_000;
/// Most members that are cached as not to look up. An evicted member is looked up again.
const QUIET_MAX: usize = 100_000;

/// Notifies the devices of offline members about new messages.
///
/// A message queues one notice for each device of each member who is offline and has not muted the chat. A notice is due
/// after a delay, in which the user may come back online. Its content is determined when it is due, so a burst of messages
/// in a chat causes one notification per device.
pub struct Notifications {
    pub(crate) ports: NotificationPorts,
    pub(crate) config: NotificationsConfig,
    /// Time until which a member of a chat is not looked up: a notice is already queued, or the member has no device.
    quiet_until: Cache<(UserId, ChatId), Timestamp>,
    /// Time until which fanout's cached member list may be older than a change seen here.
    changed_until: Cache<ChatId, Timestamp>,
    /// Wakes the delivery loop after notices were queued.
    pub(crate) pending: Notify,
}

/// Dependencies of notifications.
pub struct NotificationPorts {
    pub chats: Arc<dyn ChatReader>,
    /// Fanout's member cache. It is only read here, never filled.
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

/// Configuration of notifications.
#[derive(Clone, Copy, Debug)]
pub struct NotificationsConfig {
    /// Delay before a notification, in which the user may come back online.
    pub delay: Duration,
    /// Shortest time between two notifications about one chat on one device.
    pub silence: Duration,
    /// Whether a notification contains the start of the message.
    pub previews: bool,
    /// The pauses between attempts.
    pub backoff: Backoff,
    /// Attempts after which a notification is given up.
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

/// A member who may be offline, and the first message to notify about.
struct Candidate {
    user_id: UserId,
    chat_id: ChatId,
    from: Sequence,
}

impl Notifications {
    /// The consumer group of all processes that notify.
    pub const GROUP: &'static str = "notify";

    pub fn new(ports: NotificationPorts, config: NotificationsConfig) -> Self {
        let (quiet_until, changed_until) = (Cache::new(QUIET_MAX), Cache::new(CHANGED_MAX));
        Self { ports, config, quiet_until, changed_until, pending: Notify::new() }
    }

    /// Consumes the log and delivers due notices, until the task is aborted. It retries failures of the log and the store.
    /// Dropping the future is safe: the next run repeats uncommitted events and unsettled notices.
    pub async fn run(&self, log: Arc<dyn EventLog>) {
        tokio::join!(self.queue_all(log), self.deliver_all());
    }

    /// Queues notices again for the offline members of a chat, for its messages from a sequence on. Returns their number.
    /// Devices that were just notified, or have received the messages meanwhile, are skipped.
    pub async fn replay(&self, chat_id: ChatId, from: Sequence) -> Result<usize, StoreError> {
        let now = self.ports.clock.now();
        let members = self.ports.chats.members(chat_id).await?;
        let candidates = members.iter().map(|member| Candidate { user_id: member.user_id, chat_id, from }).collect();
        self.add_notices(candidates, now, now).await
    }

    /// Queues one notice that is due immediately.
    pub(crate) async fn queue_at_once(
        &self,
        user_id: UserId,
        chat_id: ChatId,
        device_id: DeviceId,
        from: Sequence,
    ) -> Result<(), StoreError> {
        let due_at = self.ports.clock.now();
        self.ports.notices.add_notices(vec![Notice { user_id, chat_id, device_id, from, due_at, attempts: 0 }]).await?;
        self.pending.notify_one();
        Ok(())
    }

    async fn queue_all(&self, log: Arc<dyn EventLog>) {
        let mut consumer = consumer(&*log, Self::GROUP).await;
        loop {
            let records = match consumer.next().await {
                Ok(records) => records,
                Err(failure) => {
                    wait_out(failure).await;
                    continue;
                }
            };
            while let Err(failure) = self.queue_for(&records).await {
                wait_out(failure).await;
            }
            // Commit after the notices are stored: a crash before this point stores them again, which has no effect.
            if let Err(failure) = consumer.commit().await {
                warn!(
                    error = %error_chain(&failure),
                    "offset commit failed; the notices are queued again after a restart"
                );
            }
        }
    }

    /// Queues the notices of these events: all of them, or none if the store fails.
    async fn queue_for(&self, records: &[Record]) -> Result<(), StoreError> {
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
        self.add_notices(candidates, now, now + self.config.delay).await?;
        Ok(())
    }

    /// The members of a chat, from fanout's cache or else from the store. In a busy chat with all members online, a message
    /// costs only this lookup and no read of the store.
    async fn members(&self, chat_id: ChatId, now: Timestamp) -> Result<Arc<[UserId]>, StoreError> {
        let changed = self.changed_until.get(&chat_id).is_some_and(|until| until > now);
        if !changed && let Some(members) = self.ports.members.members(chat_id).await? {
            return Ok(members);
        }
        Ok(self.ports.chats.members(chat_id).await?.iter().map(|member| member.user_id).collect())
    }

    /// Queues notices for the devices of offline candidates and returns their number.
    async fn add_notices(
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
        let pending = self.unmuted(reachable, now).await?;
        let notices = |&&Candidate { user_id, chat_id, from }: &&Candidate| {
            let devices = devices.get(&user_id).into_iter().flatten();
            devices.map(move |&device_id| Notice { user_id, chat_id, device_id, from, due_at, attempts: 0 })
        };
        let notices: Vec<Notice> = pending.iter().flat_map(notices).collect();
        let count = notices.len();
        if count > 0 {
            self.ports.notices.add_notices(notices).await?;
            self.pending.notify_one();
        }
        for Candidate { user_id, chat_id, .. } in &candidates {
            self.quiet_until.insert((*user_id, *chat_id), now + NO_NOTICE_PAUSE);
        }
        for Candidate { user_id, chat_id, .. } in pending {
            self.quiet_until.insert((*user_id, *chat_id), due_at);
        }
        Ok(count)
    }

    /// The candidates who are still members and have not muted the chat. Few candidates remain here, so reading their
    /// chats is cheap.
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
