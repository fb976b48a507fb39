use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use domain::{PresenceView, Standing, Timestamp, UserId};
use futures_util::future::join_all;
use metrics::{counter, gauge};
use ports::{GatewayId, Look, StoreError, Transition};
use tokio::time::{self, MissedTickBehavior};
use tracing::warn;

use crate::Presence;
use crate::presence::{HIDDEN, News};
use crate::reach::{ByGateway, people};

/// How often those who have come and gone are looked for.
const CLAIM_INTERVAL: Duration = Duration::from_millis(200);
/// How many are announced at a time. With the interval it is the pace of this process, 1,000 in a second: a storm takes
/// longer and does not take more.
const CLAIM_LEN: usize = 200;
/// How many are looked into at once.
const AT_ONCE: usize = 8;
/// How often the routes of dead gateways are looked for, and how many of them are forgotten then.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
const SWEEP_LEN: usize = 1000;

impl Presence {
    /// Announces who comes and goes, and sweeps up after dead gateways, for ever.
    ///
    /// What fails is tried again. It may be dropped at any moment: what it has claimed is claimed by another then.
    pub async fn run(&self) {
        tokio::join!(self.keep_announcing(), self.keep_sweeping(), self.keep_reassuring());
    }

    /// Writes down that everybody at a gateway is seen now: for one that goes when nobody is left to announce its users.
    pub async fn note_all_at(&self, gateway: &GatewayId) {
        let now = self.clock.now();
        let noted = async {
            let routes = self.routes.on_gateway(gateway, usize::MAX).await?;
            let seen: Vec<_> = routes.into_iter().map(|route| (route.user_id, now)).collect();
            self.last_seen.saw(&seen).await
        };
        if let Err(failure) = noted.await {
            warn!(error = &failure as &dyn std::error::Error, "when users were last seen is not written down");
        }
    }

    async fn keep_announcing(&self) {
        let mut beat = time::interval(CLAIM_INTERVAL);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beat.tick().await;
            if let Err(failure) = self.announce_due().await {
                warn!(error = &failure as &dyn std::error::Error, "presence was not announced; it is claimed again");
            }
        }
    }

    async fn keep_sweeping(&self) {
        let mut beat = time::interval(SWEEP_INTERVAL);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beat.tick().await;
            match self.transitions.sweep(SWEEP_LEN).await {
                Ok(swept) => {
                    counter!("tidings_presence_swept_total").increment(swept.forgotten as u64);
                    gauge!("tidings_presence_stale_entries").set(swept.left as f64);
                }
                Err(failure) => {
                    warn!(error = &failure as &dyn std::error::Error, "the routes of dead gateways were not swept");
                }
            }
        }
    }

    /// Announces some of those who are due. One who cannot be looked into holds up nobody, and is claimed again.
    async fn announce_due(&self) -> Result<(), StoreError> {
        let claimed = self.transitions.claim(CLAIM_LEN).await?;
        if claimed.is_empty() {
            return Ok(());
        }
        // Written down first: who hears that somebody is gone can ask since when. Coming is written down too, so that a
        // death of everything loses no more than the time since.
        let now = self.clock.now();
        let seen: Vec<(UserId, Timestamp)> =
            claimed.iter().map(|change| (change.user_id, last_seen(change, now))).collect();
        self.last_seen.saw(&seen).await?;
        let (mut news, mut announced) = (vec![], vec![]);
        for changes in claimed.chunks(AT_ONCE) {
            let looked_into = join_all(changes.iter().map(|change| self.news_of(change))).await;
            for (change, outcome) in changes.iter().zip(looked_into) {
                match outcome {
                    Ok(of_change) => {
                        news.extend(of_change);
                        announced.push(change.clone());
                    }
                    Err(failure) => {
                        warn!(
                            error = &failure as &dyn std::error::Error,
                            "a user is not announced; they are claimed again"
                        );
                    }
                }
            }
        }
        self.tell(&news).await?;
        self.take_back(&news).await?;
        self.transitions.settle(&announced).await?;
        for change in announced.iter().filter(|change| change.is_news) {
            let status = if change.standing == Standing::Online { "online" } else { "offline" };
            counter!("tidings_presence_transitions_total", "status" => status).increment(1);
        }
        Ok(())
    }

    /// What is told of a transition; nothing of somebody whom nobody may see. Where nobody was told otherwise, nobody is told
    /// unasked; but a watcher for whom a gateway has looked meanwhile may have been shown it.
    async fn news_of(&self, change: &Transition) -> Result<Option<News>, StoreError> {
        let user_id = change.user_id;
        let user = self.users.users(&[user_id]).await?.into_iter().flatten().next();
        let Some(user) = user.filter(|user| user.presence_visibility.shows_anybody()) else { return Ok(None) };
        let recipients = match change.is_news {
            true => self.recipients(user_id, user.presence_visibility).await?,
            false => ByGateway::new(),
        };
        Ok(Some(News { user_id, view: change.standing.into(), recipients }))
    }

    /// Looks once more for those who were told that somebody is there. Who may not see it any more was told by a change
    /// of the setting, or of contacts, that this has overtaken.
    async fn take_back(&self, news: &[News]) -> Result<(), StoreError> {
        let of_online = news.iter().filter(|news| news.view == PresenceView::Online);
        let looks: BTreeSet<Look> = of_online
            .flat_map(|news| people(&news.recipients).into_iter().map(|viewer| Look { viewer, user_id: news.user_id }))
            .collect();
        if looks.is_empty() {
            return Ok(());
        }
        let looks = Vec::from_iter(looks);
        let visible = self.visible(&looks).await?;
        let hidden: HashSet<Look> =
            looks.into_iter().zip(visible).filter_map(|(look, user)| user.is_none().then_some(look)).collect();
        let taken_back = news.iter().filter_map(|News { user_id, recipients, .. }| {
            let mut recipients = recipients.clone();
            for viewers in recipients.values_mut() {
                viewers.retain(|viewer| hidden.contains(&Look { viewer: *viewer, user_id: *user_id }));
            }
            recipients.retain(|_, viewers| !viewers.is_empty());
            (!recipients.is_empty()).then_some(News { user_id: *user_id, view: HIDDEN, recipients })
        });
        self.tell(&taken_back.collect::<Vec<_>>()).await
    }
}

fn last_seen(change: &Transition, now: Timestamp) -> Timestamp {
    match change.standing {
        Standing::Online => now,
        Standing::Offline { last_seen } => last_seen,
    }
}
