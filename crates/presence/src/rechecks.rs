use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use domain::UserId;
use metrics::counter;
use ports::{error_chain, lock};
use tokio::time::{self, MissedTickBehavior};
use tracing::warn;

use crate::Presence;
use crate::presence::{HIDDEN, PresenceChange};

/// How often pending re-checks are sent.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Most users with a pending re-check. Beyond it, re-checks are dropped; lookups still return the current presence.
const USERS_MAX: usize = 10_000;

/// Users with a pending presence re-check: their visibility has changed, but the notification of subscribers failed.
#[derive(Default)]
pub struct PendingRechecks(Mutex<BTreeSet<UserId>>);

impl PendingRechecks {
    fn note(&self, user_ids: impl IntoIterator<Item = UserId>) {
        let mut to_recheck = self.lock();
        for user_id in user_ids {
            if to_recheck.len() < USERS_MAX {
                to_recheck.insert(user_id);
            } else {
                counter!("tidings_presence_doubts_dropped_total").increment(1);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<UserId>> {
        lock(&self.0)
    }
}

/// Guard that marks users for a presence re-check when it is dropped before [`over`](Self::over).
#[must_use = "dropping it marks the users for a re-check"]
pub struct RecheckGuard<'a, const N: usize> {
    rechecks: &'a PendingRechecks,
    user_ids: Option<[UserId; N]>,
}

impl<const N: usize> RecheckGuard<'_, N> {
    /// Completes the change: it is stored and the subscribers were notified, so no re-check is needed.
    pub fn over(mut self) {
        self.user_ids = None;
    }
}

impl<const N: usize> Drop for RecheckGuard<'_, N> {
    fn drop(&mut self) {
        self.rechecks.note(self.user_ids.into_iter().flatten());
    }
}

impl Presence {
    /// Marks users for a presence re-check. Gateways soon look them up again for every subscriber. Use it after the
    /// visibility of the users has changed, or may have changed.
    pub fn recheck(&self, user_ids: impl IntoIterator<Item = UserId>) {
        self.rechecks.note(user_ids);
    }

    /// Returns a guard that marks users for a re-check when it is dropped before `over`. Create it before a change that
    /// may be cancelled or may have an unknown outcome.
    pub fn recheck_guard<const N: usize>(&self, user_ids: [UserId; N]) -> RecheckGuard<'_, N> {
        RecheckGuard { rechecks: &self.rechecks, user_ids: Some(user_ids) }
    }

    /// Sends pending re-checks to the gateways, with retries, until the task is aborted.
    pub(crate) async fn keep_rechecking(&self) {
        let mut ticks = time::interval(RETRY_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let to_recheck = std::mem::take(&mut *self.rechecks.lock());
            // The change has no recipients, so its view is unused: gateways look the user up again for each subscriber.
            let updates = to_recheck.iter().map(|user_id| PresenceChange {
                user_id: *user_id,
                view: HIDDEN,
                recipients: BTreeMap::new(),
            });
            if let Err(failure) = self.notify_gateways(&updates.collect::<Vec<_>>()).await {
                warn!(
                    error = %error_chain(&failure),
                    "presence re-check could not be sent; retrying at next interval"
                );
                self.rechecks.note(to_recheck);
            }
        }
    }
}
