use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use domain::{ConnectionId, PresenceView, UserId};
use metrics::counter;
use ports::{PresenceLookup, StoreError, error_chain, lock};
use protocol::frame::{Presence, PresenceStatus, ServerFrame};
use tokio::sync::Notify;
use tokio::time;
use tracing::warn;

use crate::Gateway;
use crate::peer::ConnectionPeer;
use crate::socket::TextFrame;

/// Presence subscriptions that one connection can have.
pub(crate) const SUBSCRIPTIONS_MAX: usize = 1000;
/// Presence lookups in one call.
const LOOKUPS_MAX: usize = 1000;
/// Debounce of presence re-checks: a user with a rapidly changing state is looked up at most ten times a second.
const RECHECK_DEBOUNCE: Duration = Duration::from_millis(100);
/// Pause before failed lookups are retried.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
const SHARDS: usize = 64;
/// Heartbeats after a loss of routes at which all subscribed users are re-checked. Other gateways rewrite their routes
/// within one heartbeat interval. Until then their users look offline, and no announcement corrects that.
const RECHECKS_AFTER_LOSS: u32 = 2;

/// Presence subscriptions of this gateway's connections, with the view that each client was last sent.
///
/// A presence change marks the user for a re-check, which looks the user up again for every subscriber. The gateway never
/// derives a view itself: the presence plane applies the privacy rules to each lookup.
pub(crate) struct PresenceSubscriptions {
    /// The subscriptions to each user, by the subscribing connection.
    shards: Vec<Mutex<HashMap<UserId, BTreeMap<ConnectionId, PresenceSubscription>>>>,
    hasher: RandomState,
    /// Users to re-check. Each has a subscriber, or had one recently.
    to_recheck: Mutex<BTreeSet<UserId>>,
    recheck_requested: Notify,
    /// Number of upcoming heartbeats that re-check all subscribed users.
    rechecks_left: AtomicU32,
}

/// The subscription of one connection to one user.
struct PresenceSubscription {
    peer: Arc<ConnectionPeer>,
    /// The view last sent to the client; `None` if that push may have been lost.
    shown: Option<PresenceView>,
    /// Whether the snapshot lookup is in progress and nothing newer has been shown since it started.
    awaits_snapshot: bool,
}

/// The users that a connection subscribes to; empty after the connection has ended.
#[derive(Default)]
pub(crate) struct SubscribedUsers(Mutex<SubscribedUserSet>);

#[derive(Default)]
struct SubscribedUserSet {
    user_ids: HashSet<UserId>,
    has_ended: bool,
}

/// The connection would exceed its limit of subscriptions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooManySubscriptions {
    pub(crate) watched: usize,
}

impl Default for PresenceSubscriptions {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            to_recheck: Mutex::default(),
            recheck_requested: Notify::new(),
            rechecks_left: AtomicU32::new(0),
        }
    }
}

impl PresenceSubscriptions {
    /// Subscribes a connection to all of these users, or to none if they exceed the limit. Existing subscriptions stay. The
    /// caller must send a snapshot next.
    pub(crate) fn subscribe_peer(
        &self,
        peer: &Arc<ConnectionPeer>,
        user_ids: &[UserId],
    ) -> Result<(), TooManySubscriptions> {
        // Locked to the end, so that a connection that ends meanwhile leaves no subscription.
        let mut subscribed = peer.subscribed_users.lock();
        let new = user_ids.iter().filter(|user_id| !subscribed.user_ids.contains(*user_id)).count();
        let watched = subscribed.user_ids.len() + new;
        if watched > SUBSCRIPTIONS_MAX {
            return Err(TooManySubscriptions { watched });
        }
        if subscribed.has_ended {
            return Ok(());
        }
        for user_id in user_ids {
            subscribed.user_ids.insert(*user_id);
            let mut shard = self.shard(*user_id);
            // A client that has not subscribed to a user shows the user as unknown.
            let first = || PresenceSubscription {
                peer: peer.clone(),
                shown: Some(PresenceView::Unknown),
                awaits_snapshot: false,
            };
            let subscriptions = shard.entry(*user_id).or_default();
            subscriptions.entry(peer.connection_id).or_insert_with(first).awaits_snapshot = true;
        }
        Ok(())
    }

    pub(crate) fn unsubscribe_peer(&self, peer: &ConnectionPeer, user_ids: &[UserId]) {
        let mut subscribed = peer.subscribed_users.lock();
        for user_id in user_ids {
            if subscribed.user_ids.remove(user_id) {
                self.remove(*user_id, peer.connection_id);
            }
        }
    }

    /// Removes all subscriptions of an ended connection.
    pub(crate) fn end(&self, peer: &ConnectionPeer) {
        let mut subscribed = peer.subscribed_users.lock();
        subscribed.has_ended = true;
        for user_id in std::mem::take(&mut subscribed.user_ids) {
            self.remove(user_id, peer.connection_id);
        }
    }

    fn remove(&self, user_id: UserId, connection_id: ConnectionId) {
        let mut shard = self.shard(user_id);
        if let Some(subscriptions) = shard.get_mut(&user_id) {
            subscriptions.remove(&connection_id);
            if subscriptions.is_empty() {
                shard.remove(&user_id);
            }
        }
    }

    /// Records the view that a snapshot shows. If a newer view was shown since its lookup started, the user is re-checked.
    pub(crate) fn handle_snapshot(&self, peer: &ConnectionPeer, user_id: UserId, view: PresenceView) {
        let mut shard = self.shard(user_id);
        let subscribe_peer =
            shard.get_mut(&user_id).and_then(|subscriptions| subscriptions.get_mut(&peer.connection_id));
        let Some(subscribe_peer) = subscribe_peer else { return };
        subscribe_peer.shown = Some(view);
        let is_overtaken = !std::mem::take(&mut subscribe_peer.awaits_snapshot);
        drop(shard);
        if is_overtaken {
            self.recheck([user_id]);
        }
    }

    /// Pushes a presence change to the recipients, except those already shown this view, and marks the user for a re-check
    /// for all other subscribers.
    pub(crate) fn push_change(&self, user_id: UserId, view: PresenceView, recipients: &[Arc<ConnectionPeer>]) {
        let mut frame = LastFrame::default();
        let mut shard = self.shard(user_id);
        let mut subscriptions = shard.get_mut(&user_id);
        for peer in recipients {
            match subscriptions.as_mut().and_then(|subscriptions| subscriptions.get_mut(&peer.connection_id)) {
                Some(subscribe_peer) => subscribe_peer.show(user_id, view, &mut frame),
                // Without a subscription, a push is best effort.
                None => {
                    frame.push(peer, user_id, None, view);
                }
            }
        }
        let is_watched = subscriptions.is_some();
        drop(shard);
        if is_watched {
            self.recheck([user_id]);
        }
    }

    /// Re-checks all users of a client that has missed pushes. It gets the refused views again, or all views if queued ones
    /// were dropped. All of them may not fit into its mailbox at once, so what fitted is not sent again.
    pub(crate) fn handle_missed(&self, peer: &ConnectionPeer) {
        let user_ids: Vec<UserId> = peer.subscribed_users.lock().user_ids.iter().copied().collect();
        let shown = if peer.mailbox.take_unwritten_dropped() { &user_ids[..] } else { &[] };
        for user_id in shown {
            let mut shard = self.shard(*user_id);
            if let Some(subscribe_peer) =
                shard.get_mut(user_id).and_then(|subscriptions| subscriptions.get_mut(&peer.connection_id))
            {
                subscribe_peer.shown = None;
            }
        }
        self.recheck(user_ids);
    }

    /// Handles a loss of routes, which may include routes of other gateways.
    pub(crate) fn handle_loss(&self) {
        self.rechecks_left.store(RECHECKS_AFTER_LOSS, Ordering::Relaxed);
        self.recheck_all();
    }

    /// Re-checks all users if a recent loss of routes requires it at this heartbeat.
    pub(crate) fn handle_heartbeat(&self) {
        let owed = self.rechecks_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |owed| owed.checked_sub(1));
        if owed.is_ok() {
            self.recheck_all();
        }
    }

    /// Marks all subscribed users for a re-check, because presence changes may have been lost.
    pub(crate) fn recheck_all(&self) {
        for index in 0..SHARDS {
            let user_ids: Vec<UserId> = self.lock(index).keys().copied().collect();
            self.recheck(user_ids);
        }
    }

    pub(crate) fn recheck(&self, user_ids: impl IntoIterator<Item = UserId>) {
        self.to_recheck().extend(user_ids);
        self.recheck_requested.notify_one();
    }

    /// Takes all users that are marked for a re-check.
    fn take_rechecks(&self) -> BTreeSet<UserId> {
        std::mem::take(&mut *self.to_recheck())
    }

    /// Takes users from the front and returns their subscriptions: up to `LOOKUPS_MAX`, or more if the last user has many.
    fn take_looks(&self, user_ids: &mut BTreeSet<UserId>) -> Vec<(Arc<ConnectionPeer>, UserId)> {
        let mut lookups = vec![];
        while lookups.len() < LOOKUPS_MAX {
            let Some(user_id) = user_ids.pop_first() else { break };
            let shard = self.shard(user_id);
            let subscriptions = shard.get(&user_id).into_iter().flat_map(BTreeMap::values);
            lookups.extend(subscriptions.map(|subscribe_peer| (subscribe_peer.peer.clone(), user_id)));
        }
        lookups
    }

    /// Sends the looked-up views to subscribers. Skips users that were marked again meanwhile: their next lookup is newer.
    fn show(&self, lookups: &[(Arc<ConnectionPeer>, UserId)], views: Vec<PresenceView>) {
        let mut frame = LastFrame::default();
        for ((peer, user_id), view) in lookups.iter().zip(views) {
            if self.to_recheck().contains(user_id) {
                continue;
            }
            let mut shard = self.shard(*user_id);
            if let Some(subscribe_peer) =
                shard.get_mut(user_id).and_then(|subscriptions| subscriptions.get_mut(&peer.connection_id))
            {
                subscribe_peer.show(*user_id, view, &mut frame);
            }
        }
    }

    fn shard(&self, user_id: UserId) -> MutexGuard<'_, HashMap<UserId, BTreeMap<ConnectionId, PresenceSubscription>>> {
        self.lock(self.hasher.hash_one(user_id) as usize % SHARDS)
    }

    fn lock(&self, index: usize) -> MutexGuard<'_, HashMap<UserId, BTreeMap<ConnectionId, PresenceSubscription>>> {
        lock(&self.shards[index])
    }

    fn to_recheck(&self) -> MutexGuard<'_, BTreeSet<UserId>> {
        lock(&self.to_recheck)
    }
}

impl PresenceSubscription {
    fn show(&mut self, user_id: UserId, view: PresenceView, frame: &mut LastFrame) {
        self.awaits_snapshot = false;
        if self.shown != Some(view) {
            // A refused push is repeated when the client is asked about missed ones.
            let is_queued = frame.push(&self.peer, user_id, self.shown, view);
            self.shown = is_queued.then_some(view);
        }
    }
}

impl SubscribedUsers {
    fn lock(&self) -> MutexGuard<'_, SubscribedUserSet> {
        lock(&self.0)
    }
}

/// The last encoded frame, reused for consecutive recipients of the same change.
#[derive(Default)]
struct LastFrame(Option<(Presence, TextFrame)>);

impl LastFrame {
    /// Pushes the change from `before`, if known, to `now`. Returns `false` if there is no room for it.
    fn push(
        &mut self,
        peer: &ConnectionPeer,
        user_id: UserId,
        before: Option<PresenceView>,
        now: PresenceView,
    ) -> bool {
        let Some(presence) = change(user_id, before, now) else { return true };
        let frame = match self.0.take() {
            Some((last, frame)) if last == presence => frame,
            _ => TextFrame::new(ServerFrame::PresenceChanged(presence.clone()).encode(None)),
        };
        let is_queued = peer.mailbox.push(frame.clone());
        counter!("tidings_gateway_presence_pushes_total").increment(1);
        self.0 = Some((presence, frame));
        is_queued
    }
}

/// The change to push for a new view of a user. A user who became invisible to the client looks offline, without a last-seen
/// time. There is nothing to push if the client did not show the user as online.
fn change(user_id: UserId, before: Option<PresenceView>, now: PresenceView) -> Option<Presence> {
    match (before, now) {
        (Some(PresenceView::Offline { .. } | PresenceView::Unknown), PresenceView::Unknown) => None,
        (_, PresenceView::Unknown) => Some(Presence { user_id, status: PresenceStatus::Offline, last_seen: None }),
        (_, now) => Some((user_id, now).into()),
    }
}

impl Gateway {
    /// Re-checks marked users and pushes changes to their subscribers. Runs until the task is aborted.
    pub async fn watch_presence(&self) {
        let subscriptions = &self.hub.subscriptions;
        loop {
            subscriptions.recheck_requested.notified().await;
            time::sleep(RECHECK_DEBOUNCE).await;
            let mut to_recheck = subscriptions.take_rechecks();
            while !to_recheck.is_empty() {
                let lookups = subscriptions.take_looks(&mut to_recheck);
                if let Err(failure) = self.look_again(&lookups).await {
                    warn!(error = %error_chain(&failure), "presence lookup failed; retrying after a pause");
                    // All of them are re-checked, including those already looked up: `show` does not push an unchanged
                    // view again.
                    subscriptions
                        .recheck(lookups.iter().map(|(_, user_id)| *user_id).chain(std::mem::take(&mut to_recheck)));
                    time::sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    /// Looks up the subscribed users and pushes changed views.
    async fn look_again(&self, lookups: &[(Arc<ConnectionPeer>, UserId)]) -> Result<(), StoreError> {
        for chunk in lookups.chunks(LOOKUPS_MAX) {
            let lookups: Vec<PresenceLookup> = chunk
                .iter()
                .map(|(peer, user_id)| PresenceLookup { viewer: peer.user_id, user_id: *user_id })
                .collect();
            self.hub.subscriptions.show(chunk, self.presences.lookup(&lookups).await?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use domain::{Quota, Timestamp};
    use ports::{PresenceNotifier, PresenceUpdate};
    use protocol::frame::{Outbound, PushClass, RequestId};
    use protocol::{Command, ErrorCode};

    use super::*;
    use crate::Limits;
    use crate::hub::Admitted;
    use crate::mailbox::QueuedPush;
    use crate::test_world::{World, pushed};

    fn presence(user_id: UserId, view: PresenceView) -> Presence {
        (user_id, view).into()
    }

    const SOON: Duration = Duration::from_millis(150);
    const ONLINE: PresenceView = PresenceView::Online;
    const OFFLINE: PresenceView = PresenceView::Offline { last_seen: None };

    fn offline_since(millis: u64) -> PresenceView {
        PresenceView::Offline { last_seen: Some(Timestamp::from_millis(millis)) }
    }

    /// Subscribes and returns the snapshot's presences, or the error code.
    async fn subscribe(world: &World, connection: &Admitted, user_ids: &[UserId]) -> Result<Vec<Presence>, ErrorCode> {
        let request_id = RequestId::new("r1").unwrap();
        let command = Command::PresenceSubscribe { request_id: request_id.clone(), user_ids: user_ids.to_vec() };
        let finished = world.gateway.begin(&connection.peer, command).await.await;
        assert_eq!(finished.request_id, Some(request_id.clone()));
        let answer = finished.outcome.map_err(|error| error.code)?.expect("a snapshot");
        let answer = Outbound::parse(str::from_utf8(&answer).unwrap()).unwrap();
        assert_eq!(answer.request_id, Some(request_id));
        match answer.frame {
            ServerFrame::PresenceSnapshot(snapshot) => Ok(snapshot.presences),
            other => panic!("{other:?}"),
        }
    }

    async fn unsubscribe(world: &World, connection: &Admitted, user_ids: &[UserId]) {
        let command = Command::PresenceUnsubscribe { user_ids: user_ids.to_vec() };
        let finished = world.gateway.begin(&connection.peer, command).await.await;
        assert_eq!(finished.outcome, Ok(None));
    }

    /// Changes a user's presence, with a change that names no recipients.
    async fn change_presence(world: &World, viewers: &[UserId], user_id: UserId, view: PresenceView) {
        world.others.show(viewers, user_id, view);
        notify(world, user_id, view, &[]).await;
    }

    async fn notify(world: &World, user_id: UserId, view: PresenceView, recipients: &[UserId]) {
        let updates = PresenceUpdate { user_id, view, recipients: recipients.to_vec() };
        world.gateway.hub.notify(world.gateway.hub.id(), vec![updates]).await.unwrap();
    }

    /// The presence changes that were pushed to a connection.
    fn changes(connection: &Admitted) -> Vec<Presence> {
        let change = |frame| match frame {
            ServerFrame::PresenceChanged(presence) => presence,
            other => panic!("{other:?}"),
        };
        pushed(&connection.peer).into_iter().map(change).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_snapshot_shows_each_user_once_in_the_order_asked() {
        let world = World::start().await;
        let ann = world.connect(world.user()).await;
        let (bob, cyd, dan) = (world.user(), world.user(), world.user());
        world.others.show(&[ann.peer.user_id], bob, ONLINE);
        world.others.show(&[ann.peer.user_id], cyd, offline_since(7));
        let snapshot = subscribe(&world, &ann, &[cyd, dan, bob, cyd, dan]).await;
        let shown = [(cyd, offline_since(7)), (dan, PresenceView::Unknown), (bob, ONLINE)];
        assert_eq!(snapshot, Ok(shown.map(|(user_id, view)| presence(user_id, view)).to_vec()));
        time::sleep(SOON).await;
        assert_eq!(changes(&ann), [], "it was shown all of it");
        assert_eq!(world.others.take_looks(), [3]);
    }

    #[tokio::test(start_paused = true)]
    async fn only_subscribers_that_may_see_a_change_receive_it() {
        let world = World::start().await;
        let (ann, bob, cyd) =
            (world.connect(world.user()).await, world.connect(world.user()).await, world.connect(world.user()).await);
        let dan = world.user();
        for watcher in [&ann, &bob] {
            subscribe(&world, watcher, &[dan]).await.unwrap();
        }
        change_presence(&world, &[ann.peer.user_id, cyd.peer.user_id], dan, ONLINE).await;
        time::sleep(SOON).await;
        assert_eq!(changes(&ann), [presence(dan, ONLINE)]);
        assert_eq!(
            (changes(&bob), changes(&cyd)),
            (vec![], vec![]),
            "one may not see it, the other has no subscription"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_push_depends_on_the_view_last_shown() {
        let world = World::start().await;
        let ann = world.connect(world.user()).await;
        let bob = world.user();
        subscribe(&world, &ann, &[bob]).await.unwrap();
        for (view, told) in [
            (PresenceView::Unknown, None),
            (ONLINE, Some(ONLINE)),
            (ONLINE, None),
            // A user who became invisible looks offline, without a last-seen time.
            (PresenceView::Unknown, Some(OFFLINE)),
            (PresenceView::Unknown, None),
            (offline_since(7), Some(offline_since(7))),
            (offline_since(8), Some(offline_since(8))),
            (PresenceView::Unknown, None),
            (OFFLINE, Some(OFFLINE)),
        ] {
            change_presence(&world, &[ann.peer.user_id], bob, view).await;
            time::sleep(SOON).await;
            let told: Vec<_> = told.into_iter().map(|view| presence(bob, view)).collect();
            assert_eq!(changes(&ann), told, "{view:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn changes_go_to_every_connection_of_a_recipient_that_does_not_show_them_yet() {
        let world = World::start().await;
        let (ann, bob) = (world.user(), world.user());
        let (phone, laptop) = (world.connect(ann).await, world.connect(ann).await);
        world.others.show(&[ann], bob, ONLINE);
        subscribe(&world, &phone, &[bob]).await.unwrap();
        notify(&world, bob, ONLINE, &[ann, world.user()]).await;
        assert_eq!((changes(&phone), changes(&laptop)), (vec![], vec![presence(bob, ONLINE)]));
        world.others.show(&[ann], bob, offline_since(9));
        notify(&world, bob, offline_since(9), &[ann]).await;
        for connection in [&phone, &laptop] {
            assert_eq!(changes(connection), [presence(bob, offline_since(9))]);
        }
        time::sleep(SOON).await;
        assert_eq!((changes(&phone), changes(&laptop)), (vec![], vec![]), "once");
    }

    #[tokio::test(start_paused = true)]
    async fn ended_subscriptions_cause_no_pushes_and_no_lookups() {
        let world = World::start().await;
        let (ann, bob) = (world.connect(world.user()).await, world.connect(world.user()).await);
        let cyd = world.user();
        for watcher in [&ann, &bob] {
            subscribe(&world, watcher, &[cyd]).await.unwrap();
        }
        unsubscribe(&world, &ann, &[cyd, world.user()]).await;
        bob.handle_end();
        assert_eq!(subscribe(&world, &bob, &[cyd]).await.map(|shown| shown.len()), Ok(1), "it is too late");
        world.others.take_looks();
        change_presence(&world, &[ann.peer.user_id, bob.peer.user_id], cyd, ONLINE).await;
        time::sleep(SOON).await;
        assert_eq!((changes(&ann), changes(&bob), world.others.take_looks()), (vec![], vec![], vec![]));
        let subscriptions = &world.gateway.hub.subscriptions;
        assert!((0..SHARDS).all(|index| subscriptions.lock(index).is_empty()) && subscriptions.to_recheck().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_has_at_most_a_thousand_subscriptions() {
        let world = World::start().await;
        let ann = world.connect(world.user()).await;
        let users: Vec<_> = (0..SUBSCRIPTIONS_MAX + 1).map(|_| world.user()).collect();
        for chunk in users[..SUBSCRIPTIONS_MAX - 1].chunks(100) {
            subscribe(&world, &ann, chunk).await.unwrap();
        }
        assert_eq!(subscribe(&world, &ann, &users[SUBSCRIPTIONS_MAX - 1..]).await, Err(ErrorCode::InvalidOperation));
        change_presence(&world, &[ann.peer.user_id], users[SUBSCRIPTIONS_MAX], ONLINE).await;
        change_presence(&world, &[ann.peer.user_id], users[0], ONLINE).await;
        time::sleep(SOON).await;
        assert_eq!(changes(&ann), [presence(users[0], ONLINE)]);
        // An existing subscription counts once.
        assert!(subscribe(&world, &ann, &[users[SUBSCRIPTIONS_MAX - 1], users[0]]).await.is_ok());
        unsubscribe(&world, &ann, &users[..1]).await;
        assert!(subscribe(&world, &ann, &users[SUBSCRIPTIONS_MAX..]).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn subscriptions_are_limited_like_other_reads() {
        let quota = Quota::per(1, Duration::from_secs(60));
        let world = World::with(Limits { rest_read: quota, ..Limits::default() }).await;
        let ann = world.connect(world.user()).await;
        let bob = world.user();
        assert!(subscribe(&world, &ann, &[]).await.is_ok());
        assert_eq!(subscribe(&world, &ann, &[bob]).await, Err(ErrorCode::RateLimited));
        change_presence(&world, &[ann.peer.user_id], bob, ONLINE).await;
        time::sleep(SOON).await;
        assert_eq!(changes(&ann), []);
    }

    #[tokio::test(start_paused = true)]
    async fn failed_lookups_read_as_unknown_and_are_pushed_after_the_recheck() {
        let world = World::start().await;
        let ann = world.connect(world.user()).await;
        let bob = world.user();
        world.others.show(&[ann.peer.user_id], bob, ONLINE);
        world.others.is_unavailable.store(true, Ordering::SeqCst);
        let snapshot = subscribe(&world, &ann, &[bob]).await;
        assert_eq!(snapshot, Ok(vec![presence(bob, PresenceView::Unknown)]));
        time::sleep(3 * RETRY_PAUSE).await;
        assert!(world.others.take_looks().len() < 5, "it is tried now and then");
        world.others.is_unavailable.store(false, Ordering::SeqCst);
        time::sleep(RETRY_PAUSE + SOON).await;
        assert_eq!(changes(&ann), [presence(bob, ONLINE)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_that_could_not_be_looked_at_is_shown_a_second_later() {
        let world = World::start().await;
        let ann = world.connect(world.user()).await;
        let users = [world.user(), world.user()];
        subscribe(&world, &ann, &users).await.unwrap();
        world.others.is_unavailable.store(true, Ordering::SeqCst);
        for user_id in users {
            change_presence(&world, &[ann.peer.user_id], user_id, ONLINE).await;
        }
        time::sleep(SOON).await;
        world.others.is_unavailable.store(false, Ordering::SeqCst);
        time::sleep(RETRY_PAUSE + RECHECK_DEBOUNCE).await;
        assert_eq!(changes(&ann), users.map(|user_id| presence(user_id, ONLINE)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_with_many_subscribers_is_rechecked_in_chunks_at_most_ten_times_a_second() {
        let world = World::start().await;
        let watchers = world.connect_many(2500).await;
        let viewers: Vec<_> = watchers.iter().map(|watcher| watcher.peer.user_id).collect();
        let ann = world.user();
        for watcher in &watchers {
            subscribe(&world, watcher, &[ann]).await.unwrap();
        }
        world.others.take_looks();
        for n in 0..100 {
            change_presence(&world, &viewers, ann, offline_since(n)).await;
            time::sleep(Duration::from_millis(1)).await;
        }
        time::sleep(SOON).await;
        let lookups = world.others.take_looks();
        assert!(lookups.len() <= 6 && lookups.iter().all(|lookups| *lookups <= 1000), "{lookups:?}");
        assert_eq!(lookups.iter().sum::<usize>() % 2500, 0);
        for watcher in &watchers {
            assert_eq!(changes(watcher).last(), Some(&presence(ann, offline_since(99))));
        }
    }

    /// The snapshot lookup starts before the change and ends after it, so it returns the old view.
    #[tokio::test(start_paused = true)]
    async fn a_snapshot_overtaken_by_a_change_is_corrected() {
        let world = World::start().await;
        let ann = world.connect(world.user()).await;
        let bob = world.user();
        world.others.show(&[ann.peer.user_id], bob, OFFLINE);
        *world.others.look_takes.lock().unwrap() = Duration::from_secs(2);
        let watched = [bob];
        let (snapshot, ()) = tokio::join!(subscribe(&world, &ann, &watched), async {
            time::sleep(Duration::from_secs(1)).await;
            *world.others.look_takes.lock().unwrap() = Duration::ZERO;
            change_presence(&world, &[ann.peer.user_id], bob, ONLINE).await;
            time::sleep(SOON).await;
            assert_eq!(changes(&ann), [presence(bob, ONLINE)]);
        });
        assert_eq!(snapshot, Ok(vec![presence(bob, OFFLINE)]));
        time::sleep(SOON).await;
        assert_eq!(changes(&ann), [presence(bob, ONLINE)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lookup_overtaken_by_a_change_is_discarded() {
        let world = World::start().await;
        let ann = world.connect(world.user()).await;
        let bob = world.user();
        subscribe(&world, &ann, &[bob]).await.unwrap();
        change_presence(&world, &[ann.peer.user_id], bob, OFFLINE).await;
        *world.others.look_takes.lock().unwrap() = Duration::from_secs(2);
        time::sleep(Duration::from_secs(1)).await;
        world.others.show(&[ann.peer.user_id], bob, ONLINE);
        notify(&world, bob, ONLINE, &[ann.peer.user_id]).await;
        time::sleep(Duration::from_secs(10)).await;
        assert_eq!(changes(&ann), [presence(bob, ONLINE)]);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_gap_all_subscribed_users_are_rechecked_even_if_routes_cannot_be_written() {
        for routes_are_away in [false, true] {
            let world = World::start().await;
            let ann = world.connect(world.user()).await;
            let users = [world.user(), world.user(), world.user()];
            subscribe(&world, &ann, &users).await.unwrap();
            world.others.show(&[ann.peer.user_id], users[1], ONLINE);
            world.routes.is_unavailable.store(routes_are_away, Ordering::SeqCst);
            world.gateway.make_up_for_gap().await;
            time::sleep(SOON).await;
            let told = pushed(&ann.peer);
            assert_eq!(told[1..], [ServerFrame::PresenceChanged(presence(users[1], ONLINE))], "after the resync");
        }
    }

    /// Regression: a user on another gateway stayed offline for viewers that looked while that gateway's routes were missing.
    #[tokio::test(start_paused = true)]
    async fn after_a_loss_of_routes_all_users_are_rechecked_at_the_next_two_heartbeats() {
        let world = World::start().await;
        let ann = world.connect(world.user()).await;
        let (bob, viewers) = (world.user(), [ann.peer.user_id]);
        world.others.show(&viewers, bob, ONLINE);
        subscribe(&world, &ann, &[bob]).await.unwrap();
        let subscriptions = &world.gateway.hub.subscriptions;
        world.others.show(&viewers, bob, OFFLINE);
        subscriptions.handle_loss();
        time::sleep(SOON).await;
        assert_eq!(changes(&ann), [presence(bob, OFFLINE)]);
        for view in [ONLINE, OFFLINE] {
            world.others.show(&viewers, bob, view);
            subscriptions.handle_heartbeat();
            time::sleep(SOON).await;
            assert_eq!(changes(&ann), [presence(bob, view)], "no presence change announces it");
        }
        world.others.show(&viewers, bob, ONLINE);
        subscriptions.handle_heartbeat();
        time::sleep(SOON).await;
        assert_eq!(changes(&ann), [], "by then all gateways have rewritten their routes");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_with_missed_pushes_receives_all_subscribed_presences_again() {
        let world = World::start().await;
        let ann = world.connect(world.user()).await;
        let (bob, cyd) = (world.user(), world.user());
        world.others.show(&[ann.peer.user_id], bob, ONLINE);
        subscribe(&world, &ann, &[bob, cyd]).await.unwrap();
        change_presence(&world, &[ann.peer.user_id], bob, OFFLINE).await;
        time::sleep(SOON).await;
        world.others.show(&[ann.peer.user_id], bob, ONLINE);
        // So many messages wait that the queued change of presence is dropped.
        let frame = TextFrame::new(b"{}"[..].into());
        let message = QueuedPush { frame, class: PushClass::Durable, span: None };
        ann.peer.mailbox.push_all(std::iter::repeat_n(message, 1000));
        while ann.peer.mailbox.pop().is_some() {}
        world.gateway.hub.subscriptions.handle_missed(&ann.peer);
        time::sleep(SOON).await;
        let mut shown = changes(&ann);
        shown.sort_by_key(|presence| presence.user_id);
        assert_eq!(
            shown,
            [presence(bob, ONLINE), presence(cyd, OFFLINE)],
            "the client may still show the second as online"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn more_presences_than_a_mailbox_takes_are_sent_in_parts() {
        let world = World::start().await;
        let ann = world.connect(world.user()).await;
        let users: Vec<UserId> = (0..600).map(|_| world.user()).collect();
        for some in users.chunks(100) {
            subscribe(&world, &ann, some).await.unwrap();
        }
        users.iter().for_each(|user_id| world.others.show(&[ann.peer.user_id], *user_id, ONLINE));
        let subscriptions = &world.gateway.hub.subscriptions;
        subscriptions.recheck_all();
        // Half of a mailbox is for ephemeral pushes.
        for count in [500, 100] {
            time::sleep(SOON).await;
            assert_eq!(changes(&ann).len(), count);
            assert_eq!(ann.peer.mailbox.take_missed().is_some(), count == 500);
            subscriptions.handle_missed(&ann.peer);
        }
        time::sleep(SOON).await;
        assert_eq!(changes(&ann), []);
    }
}
