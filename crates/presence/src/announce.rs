use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use domain::{OnlineStatus, PresenceView, Timestamp, UserId};
use futures_util::future::join_all;
use metrics::{counter, gauge};
use ports::{GatewayId, PresenceLookup, PresenceTransition, StoreError, error_chain};
use tokio::time::{self, MissedTickBehavior};
use tracing::warn;

use crate::Presence;
use crate::presence::{HIDDEN, PresenceChange};
use crate::recipients::{UsersByGateway, all_users};

/// How often due presence transitions are claimed.
const CLAIM_INTERVAL: Duration = Duration::from_millis(200);
/// Transitions announced at a time. With the interval it limits this process to 1,000 per second: a burst of transitions
/// takes longer, but does not raise the load.
const CLAIM_LEN: usize = 200;
/// Transitions for which recipients are looked up concurrently.
const AT_ONCE: usize = 8;
/// How often the routes of dead gateways are swept, and how many in one sweep.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
const SWEEP_LEN: usize = 1000;

impl Presence {
    /// Announces presence transitions and sweeps the routes of dead gateways, until the task is aborted.
    ///
    /// Failed work is retried. Dropping the future is safe: another process claims its transitions after the claim expires.
    pub async fn run(&self) {
        tokio::join!(self.keep_announcing(), self.keep_sweeping(), self.keep_rechecking());
    }

    /// Stores the current time as last seen for all users of a gateway. The last gateway calls it on shutdown, because no
    /// process remains to announce its users.
    pub async fn note_all_at(&self, gateway: &GatewayId) {
        let now = self.clock.now();
        let noted = async {
            let routes = self.routes.on_gateway(gateway, usize::MAX).await?;
            let seen: Vec<_> = routes.into_iter().map(|route| (route.user_id, now)).collect();
            self.last_seen.update_last_seen(&seen).await
        };
        if let Err(failure) = noted.await {
            warn!(error = %error_chain(&failure), "last-seen times could not be stored");
        }
    }

    async fn keep_announcing(&self) {
        let mut ticks = time::interval(CLAIM_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(failure) = self.announce_due().await {
                warn!(
                    error = %error_chain(&failure),
                    "presence announcement failed; its transitions are claimed again"
                );
            }
        }
    }

    async fn keep_sweeping(&self) {
        let mut ticks = time::interval(SWEEP_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match self.transitions.sweep(SWEEP_LEN).await {
                Ok(swept) => {
                    counter!("tidings_presence_swept_total").increment(swept.deleted as u64);
                    gauge!("tidings_presence_stale_entries").set(swept.remaining as f64);
                }
                Err(failure) => {
                    warn!(
                        error = %error_chain(&failure),
                        "sweep of dead gateways' routes failed; retrying at next interval"
                    );
                }
            }
        }
    }

    /// Announces the transitions that are due. A user whose lookup fails delays no other user and is claimed again.
    async fn announce_due(&self) -> Result<(), StoreError> {
        let claimed = self.transitions.claim(CLAIM_LEN).await?;
        if claimed.is_empty() {
            return Ok(());
        }
        // Store last seen first, so that a client that receives the offline change can ask for the time. Online
        // transitions are stored too: if all processes crash, only the time since then is lost.
        let now = self.clock.now();
        let seen: Vec<(UserId, Timestamp)> =
            claimed.iter().map(|change| (change.user_id, last_seen(change, now))).collect();
        self.last_seen.update_last_seen(&seen).await?;
        let (mut updates, mut announced) = (vec![], vec![]);
        for changes in claimed.chunks(AT_ONCE) {
            let looked_into = join_all(changes.iter().map(|change| self.change_of(change))).await;
            for (change, outcome) in changes.iter().zip(looked_into) {
                match outcome {
                    Ok(of_change) => {
                        updates.extend(of_change);
                        announced.push(change.clone());
                    }
                    Err(failure) => {
                        warn!(
                            error = %error_chain(&failure),
                            "recipient lookup of a presence transition failed; it is claimed again"
                        );
                    }
                }
            }
        }
        self.notify_gateways(&updates).await?;
        self.retract(&updates).await?;
        self.transitions.settle(&announced).await?;
        for change in announced.iter().filter(|change| change.is_change) {
            let status = if change.standing == OnlineStatus::Online { "online" } else { "offline" };
            counter!("tidings_presence_transitions_total", "status" => status).increment(1);
        }
        Ok(())
    }

    /// The change to announce for a transition; `None` if the user is visible to no other user. A transition that reverts an
    /// unannounced one has no recipients. It still goes to the gateways, because a re-check may have shown a subscriber the
    /// state in between.
    async fn change_of(&self, change: &PresenceTransition) -> Result<Option<PresenceChange>, StoreError> {
        let user_id = change.user_id;
        let user = self.users.users(&[user_id]).await?.into_iter().flatten().next();
        let Some(user) = user.filter(|user| user.presence_visibility.shows_anybody()) else { return Ok(None) };
        let recipients = match change.is_change {
            true => self.recipients(user_id, user.presence_visibility).await?,
            false => UsersByGateway::new(),
        };
        Ok(Some(PresenceChange { user_id, view: change.standing.into(), recipients }))
    }

    /// Looks up the recipients of online announcements again, and sends an offline change to those that may no longer see the
    /// user. Their visibility changed while the announcement was in progress, and it overtook the change of that setting.
    async fn retract(&self, updates: &[PresenceChange]) -> Result<(), StoreError> {
        let of_online = updates.iter().filter(|updates| updates.view == PresenceView::Online);
        let lookups: BTreeSet<PresenceLookup> = of_online
            .flat_map(|updates| {
                all_users(&updates.recipients)
                    .into_iter()
                    .map(|viewer| PresenceLookup { viewer, user_id: updates.user_id })
            })
            .collect();
        if lookups.is_empty() {
            return Ok(());
        }
        let lookups = Vec::from_iter(lookups);
        let visible = self.visible(&lookups).await?;
        let hidden: HashSet<PresenceLookup> =
            lookups.into_iter().zip(visible).filter_map(|(look, user)| user.is_none().then_some(look)).collect();
        let taken_back = updates.iter().filter_map(|PresenceChange { user_id, recipients, .. }| {
            let mut recipients = recipients.clone();
            for viewers in recipients.values_mut() {
                viewers.retain(|viewer| hidden.contains(&PresenceLookup { viewer: *viewer, user_id: *user_id }));
            }
            recipients.retain(|_, viewers| !viewers.is_empty());
            (!recipients.is_empty()).then_some(PresenceChange { user_id: *user_id, view: HIDDEN, recipients })
        });
        self.notify_gateways(&taken_back.collect::<Vec<_>>()).await
    }
}

fn last_seen(change: &PresenceTransition, now: Timestamp) -> Timestamp {
    match change.standing {
        OnlineStatus::Online => now,
        OnlineStatus::Offline { last_seen } => last_seen,
    }
}
