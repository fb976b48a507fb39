use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use domain::{ChatId, SessionId, UserId};
use metrics::counter;
use ports::{Delivery, GatewayId, MemberCache, Peer, Peers, ProcessRole, Push, Route, Routes, StoreError};
use protocol::frame::Resync;
use tokio::time::{self, Instant};
use tracing::{info, warn};

/// How long what is shared is not believed after its last failure. Routes that it has lost are registered again within
/// this time; before that, no route means nothing.
const REBUILD: Duration = Duration::from_secs(15);
/// How often the gateways are looked up, and an outage is looked at for its end.
const REFRESH: Duration = Duration::from_secs(5);
/// Chats still to be forgotten by the member cache, at the most. Beyond them an invalidation is an error, which the
/// consumer of the log waits out.
const OWED_MAX: usize = 100_000;
/// Users whom one push has sync, so that a gateway full of them fits into calls of a bounded size.
const SYNCING_MAX: usize = 4096;

/// What processes share, and lose all at once.
pub struct Shared {
    pub routes: Arc<dyn Routes>,
    pub cache: Arc<dyn MemberCache>,
    pub delivery: Arc<dyn Delivery>,
    /// Gateways among them have the names under which routes know them.
    pub peers: Arc<dyn Peers>,
}

/// Keeps pushes going while what processes share is away (C8).
///
/// From its first failure on, what is shared is not asked any more, so that an outage costs one timeout and not one for
/// each message. Every push goes directly to every gateway that was last known, with all its recipients: a gateway
/// ignores those it has no connection of. Members come from the store. This ends 15 s after the last failure; once what
/// is shared answers again, which gateways there are is asked for each push, because new ones may hold connections. Where
/// it begins and ends a push may come twice, or before an earlier one, which clients know from its sequence.
///
/// A gateway that nobody knew of until what is shared answered again may have connections that pushes have passed by, of
/// which it knows nothing: it has found everything in order. So all its clients are told to sync. If this process dies
/// before that, they find the hole with the next message of the chat.
///
/// Its routes are for pushes alone: in an outage everybody seems to be at every gateway.
///
/// Invalidations of the member cache that fail are made up for before it is read again. A crash meanwhile costs what a
/// lost invalidation costs: the cache is wrong until it forgets by itself.
pub struct Fallback {
    shared: Shared,
    direct: Arc<dyn Delivery>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The gateways that were last known.
    gateways: BTreeSet<GatewayId>,
    /// Those of them that became known while what is shared was not believed, until their clients are told to sync.
    newcomers: BTreeSet<GatewayId>,
    /// When what is shared may be believed again, while it is not.
    away_until: Option<Instant>,
    /// Whether it has answered since its last failure.
    answers: bool,
    /// Chats whose members have changed and may still be remembered. As long as there are any, nothing is believed.
    owed: BTreeSet<ChatId>,
}

impl Fallback {
    /// Asks `shared` while it answers, and delivers by `direct` while it does not. [`run`](Self::run) has to run too.
    pub fn new(shared: Shared, direct: Arc<dyn Delivery>) -> Self {
        Self { shared, direct, state: Mutex::default() }
    }

    /// Keeps in mind which gateways there are, and finds the end of an outage, for ever.
    pub async fn run(&self) {
        let mut beat = time::interval(REFRESH);
        beat.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
        loop {
            beat.tick().await;
            if let Err(failure) = self.refresh().await {
                self.note(&failure);
            }
        }
    }

    async fn refresh(&self) -> Result<(), StoreError> {
        self.look_up_gateways().await?;
        while let Some(chat_id) = self.take_owed() {
            if let Err(failure) = self.shared.cache.invalidate(chat_id).await {
                self.lock().owed.insert(chat_id);
                return Err(failure);
            }
        }
        self.tell_newcomers().await?;
        let mut state = self.lock();
        if state.owed.is_empty() && state.away_until.is_some_and(|until| until <= Instant::now()) {
            state.away_until = None;
            info!("what processes share is back");
        }
        Ok(())
    }

    async fn look_up_gateways(&self) -> Result<(), StoreError> {
        let peers = self.shared.peers.peers(ProcessRole::Gateway).await?;
        self.learn(peers);
        Ok(())
    }

    /// Has the clients of newcomers sync. One that does not take it is told the next time, until its routes are gone too.
    async fn tell_newcomers(&self) -> Result<(), StoreError> {
        let newcomers = self.lock().newcomers.clone();
        for gateway in newcomers {
            let routes = self.shared.routes.on_gateway(&gateway, usize::MAX).await?;
            let users: Vec<UserId> =
                BTreeSet::from_iter(routes.iter().map(|route| route.user_id)).into_iter().collect();
            let mut told = Ok(());
            for recipients in users.chunks(SYNCING_MAX) {
                let recipients = recipients.to_vec();
                let push = Push { recipients, except: None, frame: Resync::missed_pushes(), trace: None };
                told = told.and(self.direct.deliver(&gateway, &[push]).await);
            }
            if let Err(failure) = told {
                let (error, gateway) = (&failure as &dyn std::error::Error, &*gateway.0);
                warn!(error, gateway, "clients of a new gateway cannot be told to sync yet");
            } else {
                self.lock().newcomers.remove(&gateway);
            }
        }
        Ok(())
    }

    /// The gateways to push to while what is shared is not believed.
    async fn known_gateways(&self) -> BTreeSet<GatewayId> {
        let answers = self.lock().answers;
        if answers && let Err(failure) = self.look_up_gateways().await {
            self.note(&failure);
        }
        self.lock().gateways.clone()
    }

    fn learn(&self, peers: Vec<Peer>) {
        let mut state = self.lock();
        state.answers = true;
        let peers = BTreeSet::from_iter(peers.into_iter().map(|peer| GatewayId(peer.id)));
        // What was wiped, or comes back from an outage, may know few of those that are there, or none.
        if state.away_until.is_some() {
            let newcomers: Vec<_> = peers.difference(&state.gateways).cloned().collect();
            state.newcomers.extend(newcomers);
            state.gateways.extend(peers);
        } else if !peers.is_empty() {
            state.gateways = peers;
        }
    }

    fn take_owed(&self) -> Option<ChatId> {
        self.lock().owed.pop_first()
    }

    /// The answer of what is shared, or nothing while it is away.
    async fn ask<T>(&self, answer: impl Future<Output = Result<T, StoreError>>) -> Option<T> {
        if self.lock().away_until.is_some() {
            return None;
        }
        match answer.await {
            Ok(answer) => Some(answer),
            Err(failure) => {
                self.note(&failure);
                None
            }
        }
    }

    fn note(&self, failure: &StoreError) {
        let mut state = self.lock();
        state.answers = false;
        let before = state.away_until.replace(Instant::now() + REBUILD);
        drop(state);
        if before.is_none() {
            let error = failure as &dyn std::error::Error;
            warn!(error, "what processes share is away; pushes go directly to every gateway");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change leaves the state whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Routes for Fallback {
    async fn routes(&self, user_id: UserId) -> Result<Vec<Route>, StoreError> {
        let routes = self.ask(self.shared.routes.routes(user_id)).await;
        routes.ok_or_else(|| StoreError::unavailable("what processes share is away"))
    }

    async fn gateways(&self, user_ids: &[UserId]) -> Result<BTreeMap<GatewayId, Vec<UserId>>, StoreError> {
        if let Some(gateways) = self.ask(self.shared.routes.gateways(user_ids)).await {
            return Ok(gateways);
        }
        if user_ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        Ok(self.known_gateways().await.into_iter().map(|gateway| (gateway, user_ids.to_vec())).collect())
    }

    async fn live_gateways(&self) -> Result<Vec<GatewayId>, StoreError> {
        match self.ask(self.shared.routes.live_gateways()).await {
            Some(live) => Ok(live),
            None => Ok(self.known_gateways().await.into_iter().collect()),
        }
    }

    // Who administers is told what is there and not what was last known.
    async fn on_gateway(&self, gateway: &GatewayId, limit: usize) -> Result<Vec<Route>, StoreError> {
        self.shared.routes.on_gateway(gateway, limit).await
    }
}

#[async_trait]
impl Delivery for Fallback {
    async fn deliver(&self, gateway: &GatewayId, pushes: &[Push]) -> Result<(), StoreError> {
        if self.ask(self.shared.delivery.deliver(gateway, pushes)).await.is_some() {
            return Ok(());
        }
        counter!("tidings_fanout_fallback_total").increment(1);
        self.direct.deliver(gateway, pushes).await
    }

    async fn revoke(&self, session_id: SessionId) -> Result<(), StoreError> {
        if self.ask(self.shared.delivery.revoke(session_id)).await.is_some() {
            return Ok(());
        }
        counter!("tidings_fanout_fallback_total").increment(1);
        self.direct.revoke(session_id).await
    }
}

#[async_trait]
impl MemberCache for Fallback {
    async fn members(&self, chat_id: ChatId) -> Result<Option<Arc<[UserId]>>, StoreError> {
        Ok(self.ask(self.shared.cache.members(chat_id)).await.flatten())
    }

    async fn fill(&self, chat_id: ChatId, members: Arc<[UserId]>) -> Result<(), StoreError> {
        // What is not remembered is asked for again.
        self.ask(self.shared.cache.fill(chat_id, members)).await;
        Ok(())
    }

    async fn invalidate(&self, chat_id: ChatId) -> Result<(), StoreError> {
        if self.ask(self.shared.cache.invalidate(chat_id)).await.is_some() {
            return Ok(());
        }
        let mut state = self.lock();
        if state.owed.len() >= OWED_MAX && !state.owed.contains(&chat_id) {
            return Err(StoreError::unavailable(format!("{OWED_MAX} chats wait to be forgotten already")));
        }
        state.owed.insert(chat_id);
        Ok(())
    }
}
