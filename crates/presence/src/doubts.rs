use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::UserId;
use metrics::counter;
use tokio::time::{self, MissedTickBehavior};
use tracing::warn;

use crate::Presence;
use crate::presence::{HIDDEN, News};

/// How often those are tried again who could not be told of.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Users in doubt, at the most. Beyond them it is best effort: whoever asks sees what is true.
const USERS_MAX: usize = 10_000;

/// Users of whom others may see something else than before, and whose watchers could not be told so.
#[derive(Default)]
pub struct Doubts(Mutex<BTreeSet<UserId>>);

impl Doubts {
    fn note(&self, user_ids: impl IntoIterator<Item = UserId>) {
        let mut doubted = self.lock();
        for user_id in user_ids {
            if doubted.len() < USERS_MAX {
                doubted.insert(user_id);
            } else {
                counter!("tidings_presence_doubts_dropped_total").increment(1);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<UserId>> {
        // Each change leaves the set whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Users who come into doubt when this is dropped before it is [over](Self::over).
#[must_use = "they come into doubt when it is dropped"]
pub struct Doubting<'a, const N: usize> {
    doubts: &'a Doubts,
    user_ids: Option<[UserId; N]>,
}

impl<const N: usize> Doubting<'_, N> {
    /// What was to be changed is changed, and whoever watches was told so.
    pub fn over(mut self) {
        self.user_ids = None;
    }
}

impl<const N: usize> Drop for Doubting<'_, N> {
    fn drop(&mut self) {
        self.doubts.note(self.user_ids.into_iter().flatten());
    }
}

impl Presence {
    /// Has everybody who watches these users look at them again, soon: something of what may be seen of them has changed, or
    /// may have.
    pub fn doubt(&self, user_ids: impl IntoIterator<Item = UserId>) {
        self.doubts.note(user_ids);
    }

    /// The same when the answer is dropped before it is over: for whoever is about to change something and may be cut off, or
    /// not hear whether it was changed.
    pub fn doubting<const N: usize>(&self, user_ids: [UserId; N]) -> Doubting<'_, N> {
        Doubting { doubts: &self.doubts, user_ids: Some(user_ids) }
    }

    /// Tells gateways of users in doubt until they have heard it, for ever.
    pub(crate) async fn keep_reassuring(&self) {
        let mut beat = time::interval(RETRY_INTERVAL);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beat.tick().await;
            let doubted = std::mem::take(&mut *self.doubts.lock());
            // Nobody is told unasked, so what is seen of them does not matter: gateways ask for each who watches.
            let news =
                doubted.iter().map(|user_id| News { user_id: *user_id, view: HIDDEN, recipients: BTreeMap::new() });
            if let Err(failure) = self.tell(&news.collect::<Vec<_>>()).await {
                warn!(error = &failure as &dyn std::error::Error, "watchers were not told to look again");
                self.doubts.note(doubted);
            }
        }
    }
}
