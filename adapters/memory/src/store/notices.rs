use async_trait::async_trait;
use domain::{ChatId, DeviceId, Timestamp, UserId};
use ports::{Notice, NoticeStore, Settled, StoreError};

use super::MemoryStore;

/// The recipient and the chat of a notice.
pub(super) type NoticeTarget = (UserId, ChatId, DeviceId);

/// State of the notice of a chat for a device.
#[derive(Clone)]
pub(super) enum MemoryNotice {
    Pending(Notice),
    Told { silent_until: Timestamp },
}

#[async_trait]
impl NoticeStore for MemoryStore {
    async fn add_notices(&self, notices: Vec<Notice>) -> Result<(), StoreError> {
        self.transaction(|state| {
            for notice in notices {
                let stays = match state.notices.get(&key(&notice)) {
                    Some(MemoryNotice::Pending(_)) => true,
                    // A quiet period that ends before the notice is due does not suppress it, even if no scan has
                    // removed it yet.
                    Some(MemoryNotice::Told { silent_until }) => notice.due_at < *silent_until,
                    None => false,
                };
                if !stays {
                    state.notices.insert(key(&notice), MemoryNotice::Pending(notice));
                }
            }
        });
        Ok(())
    }

    async fn take_due(&self, now: Timestamp, again_at: Timestamp, count: usize) -> Result<Vec<Notice>, StoreError> {
        Ok(self.transaction(|state| {
            state.notices.retain(|_, notice| match notice {
                MemoryNotice::Pending(_) => true,
                MemoryNotice::Told { silent_until } => *silent_until > now,
            });
            let mut due: Vec<_> = state.notices.values_mut().filter_map(|notice| notice.due(now)).collect();
            due.sort_by_key(|notice| notice.due_at);
            let put_off = |notice: &mut Notice| {
                let taken = notice.clone();
                notice.due_at = again_at;
                taken
            };
            due.into_iter().take(count).map(put_off).collect()
        }))
    }

    async fn settle(&self, notice: &Notice, settled: Settled) -> Result<(), StoreError> {
        self.transaction(|state| {
            let Some(MemoryNotice::Pending(pending)) = state.notices.get_mut(&key(notice)) else { return };
            // A notice that starts at another message was added after this one had been settled elsewhere.
            if pending.from != notice.from {
                return;
            }
            match settled {
                Settled::Notified { silent_until } => {
                    state.notices.insert(key(notice), MemoryNotice::Told { silent_until });
                }
                Settled::Again { at } => {
                    pending.due_at = at;
                    pending.attempts += 1;
                }
                Settled::Dropped => {
                    state.notices.remove(&key(notice));
                }
            }
        });
        Ok(())
    }
}

impl MemoryNotice {
    fn due(&mut self, now: Timestamp) -> Option<&mut Notice> {
        match self {
            Self::Pending(notice) => (notice.due_at <= now).then_some(notice),
            Self::Told { .. } => None,
        }
    }
}

fn key(notice: &Notice) -> NoticeTarget {
    (notice.user_id, notice.chat_id, notice.device_id)
}
