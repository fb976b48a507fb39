use async_trait::async_trait;
use domain::{ChatId, DeviceId, Timestamp, UserId};
use ports::{Notice, NoticeStore, Settled, StoreError};

use super::MemoryStore;

/// Whom a notice is for, and about which chat.
pub(super) type Key = (UserId, ChatId, DeviceId);

/// What a device is owed about a chat.
#[derive(Clone)]
pub(super) enum NoticeState {
    Owed(Notice),
    Told { silent_until: Timestamp },
}

#[async_trait]
impl NoticeStore for MemoryStore {
    async fn owe(&self, notices: Vec<Notice>) -> Result<(), StoreError> {
        self.transaction(|state| {
            for notice in notices {
                let stays = match state.notices.get(&key(&notice)) {
                    Some(NoticeState::Owed(_)) => true,
                    // A silence that is over when the notice is due hides nothing, even if nobody has ended it yet.
                    Some(NoticeState::Told { silent_until }) => notice.due_at < *silent_until,
                    None => false,
                };
                if !stays {
                    state.notices.insert(key(&notice), NoticeState::Owed(notice));
                }
            }
        });
        Ok(())
    }

    async fn take_due(&self, now: Timestamp, again_at: Timestamp, count: usize) -> Result<Vec<Notice>, StoreError> {
        Ok(self.transaction(|state| {
            state.notices.retain(|_, notice| match notice {
                NoticeState::Owed(_) => true,
                NoticeState::Told { silent_until } => *silent_until > now,
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
            let Some(NoticeState::Owed(owed)) = state.notices.get_mut(&key(notice)) else { return };
            // One that is for other messages was owed after this one had been settled by somebody else.
            if owed.from != notice.from {
                return;
            }
            match settled {
                Settled::Told { silent_until } => {
                    state.notices.insert(key(notice), NoticeState::Told { silent_until });
                }
                Settled::Again { at } => {
                    owed.due_at = at;
                    owed.attempts += 1;
                }
                Settled::Dropped => {
                    state.notices.remove(&key(notice));
                }
            }
        });
        Ok(())
    }
}

impl NoticeState {
    fn due(&mut self, now: Timestamp) -> Option<&mut Notice> {
        match self {
            Self::Owed(notice) => (notice.due_at <= now).then_some(notice),
            Self::Told { .. } => None,
        }
    }
}

fn key(notice: &Notice) -> Key {
    (notice.user_id, notice.chat_id, notice.device_id)
}
