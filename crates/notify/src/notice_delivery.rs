use std::time::Duration;

use domain::{Message, PushDevice, PushTarget, Sequence};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use metrics::counter;
use ports::{
    DeadLetter, Notice, Notification, NotifyError, Settled, StoreError, UndeliveredItem, UnreadCount, UnreadQuery,
    error_chain,
};
use tracing::{error, warn};

use crate::dead_letters::add_dead_letter;
use crate::notifications::{Notifications, NotificationsConfig, is_muted};
use crate::wait::{jitter, wait_out};

/// Most concurrent notifications.
const DELIVERIES_MAX: usize = 32;
/// Lease of a claimed notice, longer than an attempt can take.
const LEASE: Duration = Duration::from_secs(120);
/// Longest pause between lookups of due notices when no new ones are queued.
const IDLE_PAUSE: Duration = Duration::from_secs(1);
/// Messages read at a time to find the newest one of another sender.
const MESSAGES_LEN: usize = 10;

/// Next step after a failed attempt.
#[derive(Debug, PartialEq)]
enum NotifyFailureAction {
    /// Remove the device, because it is no longer registered with its push service.
    RemoveDevice,
    /// Stop retrying.
    GiveUp,
    /// Retry after a pause.
    Retry(Duration),
}

impl Notifications {
    /// Delivers due notices until the task is aborted.
    pub(crate) async fn deliver_all(&self) {
        let mut deliveries = FuturesUnordered::new();
        loop {
            let free = DELIVERIES_MAX - deliveries.len();
            if free > 0 {
                let now = self.ports.clock.now();
                match self.ports.notices.take_due(now, now + LEASE, free).await {
                    Ok(due) => deliveries.extend(due.into_iter().map(|notice| self.deliver(notice))),
                    Err(failure) => wait_out(failure).await,
                }
            }
            tokio::select! {
                biased;
                Some(()) = deliveries.next() => {}
                () = self.pending.notified(), if free > 0 => {}
                () = tokio::time::sleep(IDLE_PAUSE), if free > 0 => {}
            }
        }
    }

    /// Delivers and settles a notice. If the store fails, the notice stays queued and is due again when its lease expires.
    async fn deliver(&self, notice: Notice) {
        if let Err(failure) = self.try_deliver(&notice).await {
            error!(error = %error_chain(&failure), chat_id = %notice.chat_id, "notice could not be settled; it is due again when its lease expires");
        }
    }

    async fn try_deliver(&self, notice: &Notice) -> Result<(), StoreError> {
        let head = self.head(notice).await?;
        let Some((device, notification)) = self.content(notice, head).await? else {
            return self.drop_notice(notice, head).await;
        };
        let outcome = self.ports.notifier.notify(&device, &notification).await;
        count(&device, &outcome);
        let now = self.ports.clock.now();
        let settled = match outcome {
            Ok(()) => Settled::Notified { silent_until: now + self.config.silence },
            Err(error) => {
                let tries = notice.attempts + 1;
                warn!(error = %error_chain(&error), chat_id = %notice.chat_id, tries, "notification of a device failed");
                let random = jitter((notice.user_id, notice.chat_id, notice.device_id, tries));
                match failure_action(&error, tries, &self.config, random) {
                    NotifyFailureAction::Retry(pause) => Settled::Again { at: now + pause },
                    NotifyFailureAction::RemoveDevice if self.forget(&device).await? => Settled::Dropped,
                    NotifyFailureAction::RemoveDevice => Settled::Again { at: now },
                    NotifyFailureAction::GiveUp => {
                        self.give_up(notice, tries, &error).await?;
                        Settled::Dropped
                    }
                }
            }
        };
        self.ports.notices.settle(notice, settled).await
    }

    /// The current content of a notice and its device; `None` if the notice is obsolete.
    async fn content(&self, notice: &Notice, head: Sequence) -> Result<Option<(PushDevice, Notification)>, StoreError> {
        let Notice { user_id, chat_id, device_id, .. } = *notice;
        let now = self.ports.clock.now();
        let Some(member) = self.ports.chats.member(chat_id, user_id).await? else { return Ok(None) };
        if is_muted(&member, now) || !self.ports.routes.gateways(&[user_id]).await?.is_empty() {
            return Ok(None);
        }
        let devices = self.ports.devices.devices(&[user_id]).await?;
        let Some(device) = devices.into_iter().find(|device| device.device_id == device_id) else { return Ok(None) };
        let Some(chat) = self.ports.chats.chat(chat_id).await? else { return Ok(None) };
        let watermarks = self.ports.watermarks.watermarks(&[(user_id, chat_id)]).await?;
        let watermarks = watermarks.first().copied().unwrap_or_default();
        let from = notice.from.max(watermarks.delivered.next());
        let Some(message) = self.newest(notice, from, head).await? else { return Ok(None) };
        let unread = UnreadQuery { chat_id, reader: user_id, read: watermarks.read };
        let unread = self.ports.messages.unread(&[unread], now).await?.into_iter().next().unwrap_or(UnreadCount::NONE);
        let sender = self.ports.users.users(&[message.sender_id]).await?.into_iter().flatten().next();
        let notification = Notification {
            chat_id,
            chat_type: chat.chat_type,
            chat_name: chat.name,
            message_id: message.message_id,
            sequence: message.sequence,
            sender_id: message.sender_id,
            // Every sender has a name. If the store has lost it, fall back to the id.
            sender_name: sender
                .map_or_else(|| message.sender_id.to_string(), |user| user.display_name.as_str().to_owned()),
            preview: message.body.preview().filter(|_| self.config.previews),
            created_at: message.created_at,
            unread,
        };
        Ok(Some((device, notification)))
    }

    /// The newest message from another sender, at or above a sequence.
    async fn newest(&self, notice: &Notice, from: Sequence, head: Sequence) -> Result<Option<Message>, StoreError> {
        let now = self.ports.clock.now();
        let mut before = head.next();
        while before > from {
            let page = self.ports.messages.before(notice.chat_id, before, MESSAGES_LEN, now).await?;
            let Some(oldest) = page.last().map(|message| message.sequence) else { return Ok(None) };
            let mut recent = page.into_iter().take_while(|message| message.sequence >= from);
            if let Some(newest) = recent.find(|message| message.sender_id != notice.user_id) {
                return Ok(Some(newest));
            }
            before = oldest;
        }
        Ok(None)
    }

    /// Drops an obsolete notice, for the messages up to `head`.
    async fn drop_notice(&self, notice: &Notice, head: Sequence) -> Result<(), StoreError> {
        self.ports.notices.settle(notice, Settled::Dropped).await?;
        // A message that arrived meanwhile queued no notice, because this one was still queued.
        if self.head(notice).await? > head {
            let due_at = self.ports.clock.now() + self.config.delay;
            let again = Notice { from: head.next(), due_at, attempts: 0, ..notice.clone() };
            self.ports.notices.add_notices(vec![again]).await?;
        }
        Ok(())
    }

    async fn head(&self, notice: &Notice) -> Result<Sequence, StoreError> {
        Ok(self.ports.messages.head(notice.chat_id).await?.map(|head| head.sequence).unwrap_or_default())
    }

    /// Removes a device that is no longer registered with its push service. Returns `false` if the user has registered it
    /// again meanwhile, as a browser does after its subscription has ended.
    async fn forget(&self, device: &PushDevice) -> Result<bool, StoreError> {
        let is_the_same = self.ports.devices.devices(&[device.user_id]).await?.contains(device);
        if is_the_same {
            self.ports.devices.remove(device.user_id, device.device_id).await?;
        }
        Ok(is_the_same)
    }

    async fn give_up(&self, notice: &Notice, attempts: u32, error: &NotifyError) -> Result<(), StoreError> {
        let letter = DeadLetter {
            id: self.ports.ids.ulid(),
            what: UndeliveredItem::Notification {
                user_id: notice.user_id,
                device_id: notice.device_id,
                chat_id: notice.chat_id,
                from: notice.from,
            },
            attempts,
            reason: reason(error),
            dead_at: self.ports.clock.now(),
        };
        add_dead_letter(&*self.ports.dead_letters, letter).await
    }
}

fn failure_action(error: &NotifyError, tries: u32, config: &NotificationsConfig, random: f64) -> NotifyFailureAction {
    match error {
        NotifyError::Gone => NotifyFailureAction::RemoveDevice,
        NotifyError::Refused(_) => NotifyFailureAction::GiveUp,
        NotifyError::Unavailable { .. } if tries >= config.tries_max => NotifyFailureAction::GiveUp,
        NotifyError::Unavailable { retry_after, .. } => {
            let delay = config.backoff.jittered_delay(tries, random);
            NotifyFailureAction::Retry(delay.max(retry_after.unwrap_or_default()))
        }
    }
}

/// The receiver's error: the source, if there is one.
fn reason(error: &NotifyError) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

fn count(device: &PushDevice, outcome: &Result<(), NotifyError>) {
    let provider = match device.target {
        PushTarget::Webhook(_) => "webhook",
        PushTarget::WebPush(_) => "webpush",
    };
    let outcome = match outcome {
        Ok(()) => "told",
        Err(NotifyError::Gone) => "gone",
        Err(NotifyError::Refused(_)) => "refused",
        Err(NotifyError::Unavailable { .. }) => "unavailable",
    };
    counter!("tidings_notify_notifications_total", "provider" => provider, "outcome" => outcome).increment(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unavailable(retry_after: Option<u64>) -> NotifyError {
        NotifyError::Unavailable { source: "asleep".into(), retry_after: retry_after.map(Duration::from_secs) }
    }

    #[test]
    fn a_failed_attempt_maps_to_its_next_step() {
        let config = NotificationsConfig::default();
        let of = |error, tries| failure_action(&error, tries, &config, 0.5);
        assert_eq!(of(NotifyError::Gone, 1), NotifyFailureAction::RemoveDevice);
        assert_eq!(of(NotifyError::Refused("no".into()), 1), NotifyFailureAction::GiveUp);
        assert_eq!(of(unavailable(None), 1), NotifyFailureAction::Retry(Duration::from_secs(1)));
        assert_eq!(of(unavailable(None), 9), NotifyFailureAction::Retry(Duration::from_secs(256)));
        assert_eq!(of(unavailable(Some(600)), 9), NotifyFailureAction::Retry(Duration::from_secs(600)));
        assert_eq!(of(unavailable(Some(600)), 10), NotifyFailureAction::GiveUp);
    }

    #[test]
    fn the_reason_is_the_answer_of_the_receiver() {
        assert_eq!(reason(&unavailable(None)), "asleep");
        assert_eq!(reason(&NotifyError::Gone), "the device is no longer registered with its push service");
    }
}
