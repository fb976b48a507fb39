use std::time::Duration;

use domain::{Message, PushDevice, PushTarget, Sequence};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use metrics::counter;
use ports::{DeadLetter, Notice, Notification, NotifyError, Settled, StoreError, Undelivered, UnreadQuery};
use tracing::{error, warn};

use crate::dead_letters::bury;
use crate::notifications::{Notifications, NotificationsConfig, is_muted};
use crate::wait::wait_out;

/// Devices that are told at the same time, at the most.
const TELLING_MAX: usize = 32;
/// How long a notice is nobody else's once it is taken: longer than a try can take.
const LEASE: Duration = Duration::from_secs(120);
/// How long nobody looks for due notices unless somebody owes one.
const IDLE_PAUSE: Duration = Duration::from_secs(1);
/// Messages that are read at a time to find the newest that is not the member's own.
const PAGE_LEN: usize = 10;

/// What a failed try means.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// The device is gone.
    Forget,
    /// No more tries.
    GiveUp,
    /// Another try after a pause.
    Again(Duration),
}

impl Notifications {
    /// Tells what is due, for ever.
    pub(crate) async fn tell_all(&self) {
        let mut telling = FuturesUnordered::new();
        loop {
            let free = TELLING_MAX - telling.len();
            if free > 0 {
                let now = self.ports.clock.now();
                match self.ports.notices.take_due(now, now + LEASE, free).await {
                    Ok(due) => telling.extend(due.into_iter().map(|notice| self.tell(notice))),
                    Err(failure) => wait_out(failure).await,
                }
            }
            tokio::select! {
                biased;
                Some(()) = telling.next() => {}
                () = self.owed.notified(), if free > 0 => {}
                () = tokio::time::sleep(IDLE_PAUSE), if free > 0 => {}
            }
        }
    }

    /// Settles a notice. If the store fails it stays owed, and is due again when its lease is over.
    async fn tell(&self, notice: Notice) {
        if let Err(failure) = self.try_tell(&notice).await {
            error!(error = &failure as &dyn std::error::Error, chat_id = %notice.chat_id, "a notice is not settled");
        }
    }

    async fn try_tell(&self, notice: &Notice) -> Result<(), StoreError> {
        let head = self.head(notice).await?;
        let Some((device, notification)) = self.news(notice, head).await? else {
            return self.drop_notice(notice, head).await;
        };
        let told = self.ports.notifier.notify(&device, &notification).await;
        count(&device, &told);
        let now = self.ports.clock.now();
        let settled = match told {
            Ok(()) => Settled::Told { silent_until: now + self.config.silence },
            Err(error) => {
                let tries = notice.attempts + 1;
                warn!(error = &error as &dyn std::error::Error, chat_id = %notice.chat_id, tries, "a device was not told");
                match verdict(&error, tries, &self.config, rand::random()) {
                    Verdict::Again(pause) => Settled::Again { at: now + pause },
                    Verdict::Forget if self.forget(&device).await? => Settled::Dropped,
                    Verdict::Forget => Settled::Again { at: now },
                    Verdict::GiveUp => {
                        self.give_up(notice, tries, &error).await?;
                        Settled::Dropped
                    }
                }
            }
        };
        self.ports.notices.settle(notice, settled).await
    }

    /// What a notice says now, and to which device; nothing if it is not needed any more.
    async fn news(&self, notice: &Notice, head: Sequence) -> Result<Option<(PushDevice, Notification)>, StoreError> {
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
        let unread_count = self.ports.messages.unread(&[unread], now).await?.into_iter().sum();
        let sender = self.ports.users.users(&[message.sender_id]).await?.into_iter().flatten().next();
        let notification = Notification {
            chat_id,
            chat_type: chat.chat_type,
            chat_name: chat.name,
            message_id: message.message_id,
            sequence: message.sequence,
            sender_id: message.sender_id,
            // Every sender has a name; should the store have lost it, the id is still true.
            sender_name: sender
                .map_or_else(|| message.sender_id.to_string(), |user| user.display_name.as_str().to_owned()),
            preview: message.preview().filter(|_| self.config.previews),
            created_at: message.created_at,
            unread_count,
        };
        Ok(Some((device, notification)))
    }

    /// The newest message from a sequence on that somebody else has sent.
    async fn newest(&self, notice: &Notice, from: Sequence, head: Sequence) -> Result<Option<Message>, StoreError> {
        let now = self.ports.clock.now();
        let mut before = head.next();
        while before > from {
            let page = self.ports.messages.before(notice.chat_id, before, PAGE_LEN, now).await?;
            let Some(oldest) = page.last().map(|message| message.sequence) else { return Ok(None) };
            let mut recent = page.into_iter().take_while(|message| message.sequence >= from);
            if let Some(newest) = recent.find(|message| message.sender_id != notice.user_id) {
                return Ok(Some(newest));
            }
            before = oldest;
        }
        Ok(None)
    }

    /// Drops a notice that is not needed, as far as the messages up to `head` go.
    async fn drop_notice(&self, notice: &Notice, head: Sequence) -> Result<(), StoreError> {
        self.ports.notices.settle(notice, Settled::Dropped).await?;
        // For a message that came meanwhile nothing was owed, because this notice still was.
        if self.head(notice).await? > head {
            let due_at = self.ports.clock.now() + self.config.delay;
            let again = Notice { from: head.next(), due_at, attempts: 0, ..notice.clone() };
            self.ports.notices.owe(vec![again]).await?;
        }
        Ok(())
    }

    async fn head(&self, notice: &Notice) -> Result<Sequence, StoreError> {
        Ok(self.ports.messages.head(notice.chat_id).await?.map(|head| head.sequence).unwrap_or_default())
    }

    /// Forgets a device that is gone; `false` if it was registered anew meanwhile, as a browser does whose subscription has
    /// ended.
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
            what: Undelivered::Notification {
                user_id: notice.user_id,
                device_id: notice.device_id,
                chat_id: notice.chat_id,
                from: notice.from,
            },
            attempts,
            reason: reason(error),
            dead_at: self.ports.clock.now(),
        };
        bury(&*self.ports.dead_letters, letter).await
    }
}

fn verdict(error: &NotifyError, tries: u32, config: &NotificationsConfig, random: f64) -> Verdict {
    match error {
        NotifyError::Gone => Verdict::Forget,
        NotifyError::Refused(_) => Verdict::GiveUp,
        NotifyError::Unavailable { .. } if tries >= config.tries_max => Verdict::GiveUp,
        NotifyError::Unavailable { retry_after, .. } => {
            Verdict::Again(config.backoff.pause(tries, random, *retry_after))
        }
    }
}

/// What the receiver said: the error beneath, if there is one.
fn reason(error: &NotifyError) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

fn count(device: &PushDevice, told: &Result<(), NotifyError>) {
    let provider = match device.target {
        PushTarget::Webhook(_) => "webhook",
        PushTarget::WebPush(_) => "webpush",
    };
    let outcome = match told {
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
    fn what_a_failed_try_means() {
        let config = NotificationsConfig::default();
        let of = |error, tries| verdict(&error, tries, &config, 0.5);
        assert_eq!(of(NotifyError::Gone, 1), Verdict::Forget);
        assert_eq!(of(NotifyError::Refused("no".into()), 1), Verdict::GiveUp);
        assert_eq!(of(unavailable(None), 1), Verdict::Again(Duration::from_secs(1)));
        assert_eq!(of(unavailable(None), 9), Verdict::Again(Duration::from_secs(256)));
        assert_eq!(of(unavailable(Some(600)), 9), Verdict::Again(Duration::from_secs(600)));
        assert_eq!(of(unavailable(Some(600)), 10), Verdict::GiveUp);
    }

    #[test]
    fn the_reason_is_what_the_receiver_said() {
        assert_eq!(reason(&unavailable(None)), "asleep");
        assert_eq!(reason(&NotifyError::Gone), "the device is no longer registered with its push service");
    }
}
