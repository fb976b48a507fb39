use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::{ConnectionId, PresenceView, UserId};
use metrics::counter;
use ports::{Look, StoreError};
use protocol::frame::{Presence, PresenceStatus, ServerFrame};
use tokio::sync::Notify;
use tokio::time;
use tracing::warn;

use crate::Gateway;
use crate::peer::Peer;
use crate::socket::TextFrame;

/// Users that one connection can watch.
pub(crate) const WATCHED_MAX: usize = 1000;
/// Looks asked for at a time.
const LOOKS_MAX: usize = 1000;
/// How long doubts are gathered, so that somebody whose state flutters is looked at ten times a second at the most.
const GATHER: Duration = Duration::from_millis(100);
/// How long to wait after looks that have failed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
const SHARDS: usize = 64;
/// Beats after a loss of routes at which everybody is looked at once more. Other gateways write theirs anew within a beat of
/// their own; until then their users look as if they were gone, and nobody announces that they never were.
const LOOKS_AFTER_LOSS: u32 = 2;

/// Who on this gateway watches whom, and what each was last shown.
///
/// A user of whom something has changed is in doubt until everybody who watches them was looked for again. What a watcher
/// sees is never guessed here: privacy is judged where the answer comes from, for each look.
pub(crate) struct Watches {
    /// The watches of each user, by the connection that watches.
    shards: Vec<Mutex<HashMap<UserId, BTreeMap<ConnectionId, Watch>>>>,
    hasher: RandomState,
    /// Users to be looked at again; each of them is watched, or was a moment ago.
    doubted: Mutex<BTreeSet<UserId>>,
    is_doubted: Notify,
    /// At how many of the next beats everybody is looked at again.
    looks_owed: AtomicU32,
}

/// One connection that watches a user.
struct Watch {
    peer: Arc<Peer>,
    /// What the client was shown last; absent if what it was shown may be lost.
    shown: Option<PresenceView>,
    /// Whether the look for a snapshot is under way, and nothing was found out since it began.
    awaits_snapshot: bool,
}

/// Whom a connection watches; nobody any more once it has ended.
#[derive(Default)]
pub(crate) struct Watched(Mutex<Whom>);

#[derive(Default)]
struct Whom {
    user_ids: HashSet<UserId>,
    has_ended: bool,
}

/// A connection would watch too many.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooMany {
    pub(crate) watched: usize,
}

impl Default for Watches {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            doubted: Mutex::default(),
            is_doubted: Notify::new(),
            looks_owed: AtomicU32::new(0),
        }
    }
}

impl Watches {
    /// Has a connection watch users, all of them or, if they are too many, none more. Somebody it watches already stays
    /// watched. A snapshot is expected to follow.
    pub(crate) fn watch(&self, peer: &Arc<Peer>, user_ids: &[UserId]) -> Result<(), TooMany> {
        // Held to the end, so that a connection that ends meanwhile leaves nothing behind.
        let mut whom = peer.watched.lock();
        let new = user_ids.iter().filter(|user_id| !whom.user_ids.contains(*user_id)).count();
        let watched = whom.user_ids.len() + new;
        if watched > WATCHED_MAX {
            return Err(TooMany { watched });
        }
        if whom.has_ended {
            return Ok(());
        }
        for user_id in user_ids {
            whom.user_ids.insert(*user_id);
            let mut shard = self.shard(*user_id);
            // Somebody a client has never asked for is unknown to it.
            let first = || Watch { peer: peer.clone(), shown: Some(PresenceView::Unknown), awaits_snapshot: false };
            let watches = shard.entry(*user_id).or_default();
            watches.entry(peer.connection_id).or_insert_with(first).awaits_snapshot = true;
        }
        Ok(())
    }

    pub(crate) fn unwatch(&self, peer: &Peer, user_ids: &[UserId]) {
        let mut whom = peer.watched.lock();
        for user_id in user_ids {
            if whom.user_ids.remove(user_id) {
                self.remove(*user_id, peer.connection_id);
            }
        }
    }

    /// Forgets all watches of a connection that has ended.
    pub(crate) fn end(&self, peer: &Peer) {
        let mut whom = peer.watched.lock();
        whom.has_ended = true;
        for user_id in std::mem::take(&mut whom.user_ids) {
            self.remove(user_id, peer.connection_id);
        }
    }

    fn remove(&self, user_id: UserId, connection_id: ConnectionId) {
        let mut shard = self.shard(user_id);
        if let Some(watches) = shard.get_mut(&user_id) {
            watches.remove(&connection_id);
            if watches.is_empty() {
                shard.remove(&user_id);
            }
        }
    }

    /// Takes note of what a snapshot shows. What was found out since its look began may be newer, so there is doubt then.
    pub(crate) fn handle_snapshot(&self, peer: &Peer, user_id: UserId, view: PresenceView) {
        let mut shard = self.shard(user_id);
        let watch = shard.get_mut(&user_id).and_then(|watches| watches.get_mut(&peer.connection_id));
        let Some(watch) = watch else { return };
        watch.shown = Some(view);
        let is_overtaken = !std::mem::take(&mut watch.awaits_snapshot);
        drop(shard);
        if is_overtaken {
            self.doubt([user_id]);
        }
    }

    /// Pushes news of a user to connections, but to none that were shown just that, and puts the user in doubt for all
    /// others who watch.
    pub(crate) fn tell(&self, user_id: UserId, view: PresenceView, recipients: &[Arc<Peer>]) {
        let mut frame = LastFrame::default();
        let mut shard = self.shard(user_id);
        let mut watches = shard.get_mut(&user_id);
        for peer in recipients {
            match watches.as_mut().and_then(|watches| watches.get_mut(&peer.connection_id)) {
                Some(watch) => watch.show(user_id, view, &mut frame),
                None => frame.push(peer, user_id, None, view),
            }
        }
        let is_watched = watches.is_some();
        drop(shard);
        if is_watched {
            self.doubt([user_id]);
        }
    }

    /// Takes note that pushes to a client were lost: whatever it was shown is shown again.
    pub(crate) fn handle_missed(&self, peer: &Peer) {
        let user_ids: Vec<UserId> = peer.watched.lock().user_ids.iter().copied().collect();
        for user_id in &user_ids {
            let mut shard = self.shard(*user_id);
            if let Some(watch) = shard.get_mut(user_id).and_then(|watches| watches.get_mut(&peer.connection_id)) {
                watch.shown = None;
            }
        }
        self.doubt(user_ids);
    }

    /// Takes note that routes were lost, those of other gateways perhaps among them.
    pub(crate) fn handle_loss(&self) {
        self.looks_owed.store(LOOKS_AFTER_LOSS, Ordering::Relaxed);
        self.doubt_all();
    }

    /// Takes note of a beat.
    pub(crate) fn handle_beat(&self) {
        let owed = self.looks_owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |owed| owed.checked_sub(1));
        if owed.is_ok() {
            self.doubt_all();
        }
    }

    /// Puts everybody who is watched in doubt: news of them may have been lost.
    pub(crate) fn doubt_all(&self) {
        for index in 0..SHARDS {
            let user_ids: Vec<UserId> = self.lock(index).keys().copied().collect();
            self.doubt(user_ids);
        }
    }

    pub(crate) fn doubt(&self, user_ids: impl IntoIterator<Item = UserId>) {
        self.doubted().extend(user_ids);
        self.is_doubted.notify_one();
    }

    /// Everybody who is in doubt; they are no more.
    fn take_doubted(&self) -> BTreeSet<UserId> {
        std::mem::take(&mut *self.doubted())
    }

    /// Takes the watches of users off the front, those of as many as are asked for at a time or of one who has more.
    fn take_looks(&self, user_ids: &mut BTreeSet<UserId>) -> Vec<(Arc<Peer>, UserId)> {
        let mut looks = vec![];
        while looks.len() < LOOKS_MAX {
            let Some(user_id) = user_ids.pop_first() else { break };
            let shard = self.shard(user_id);
            let watches = shard.get(&user_id).into_iter().flat_map(BTreeMap::values);
            looks.extend(watches.map(|watch| (watch.peer.clone(), user_id)));
        }
        looks
    }

    /// Shows what was found out to those who watch, unless their users have come into doubt once more: what is found out
    /// next is newer.
    fn show(&self, looks: &[(Arc<Peer>, UserId)], views: Vec<PresenceView>) {
        let mut frame = LastFrame::default();
        for ((peer, user_id), view) in looks.iter().zip(views) {
            if self.doubted().contains(user_id) {
                continue;
            }
            let mut shard = self.shard(*user_id);
            if let Some(watch) = shard.get_mut(user_id).and_then(|watches| watches.get_mut(&peer.connection_id)) {
                watch.show(*user_id, view, &mut frame);
            }
        }
    }

    fn shard(&self, user_id: UserId) -> MutexGuard<'_, HashMap<UserId, BTreeMap<ConnectionId, Watch>>> {
        self.lock(self.hasher.hash_one(user_id) as usize % SHARDS)
    }

    fn lock(&self, index: usize) -> MutexGuard<'_, HashMap<UserId, BTreeMap<ConnectionId, Watch>>> {
        // Nothing that runs under any of these locks can leave what it guards half changed.
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn doubted(&self) -> MutexGuard<'_, BTreeSet<UserId>> {
        self.doubted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch {
    fn show(&mut self, user_id: UserId, view: PresenceView, frame: &mut LastFrame) {
        self.awaits_snapshot = false;
        if self.shown != Some(view) {
            frame.push(&self.peer, user_id, self.shown, view);
            self.shown = Some(view);
        }
    }
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, Whom> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The frame that was made last: it is encoded once for all who are shown the same, one after the other.
#[derive(Default)]
struct LastFrame(Option<(Presence, TextFrame)>);

impl LastFrame {
    /// Pushes the change from what a client was shown before, if that is known, to what it sees now.
    fn push(&mut self, peer: &Peer, user_id: UserId, before: Option<PresenceView>, now: PresenceView) {
        let Some(presence) = change(user_id, before, now) else { return };
        let frame = match self.0.take() {
            Some((last, frame)) if last == presence => frame,
            _ => TextFrame::new(ServerFrame::PresenceChanged(presence.clone()).encode(None)),
        };
        peer.mailbox.push(frame.clone());
        counter!("tidings_gateway_presence_pushes_total").increment(1);
        self.0 = Some((presence, frame));
    }
}

/// What a client is told when it sees something else of a user than before. Who may not be seen any more looks offline,
/// since when is not told; who was not seen to be online already does.
fn change(user_id: UserId, before: Option<PresenceView>, now: PresenceView) -> Option<Presence> {
    match (before, now) {
        (Some(PresenceView::Offline { .. } | PresenceView::Unknown), PresenceView::Unknown) => None,
        (_, PresenceView::Unknown) => Some(Presence { user_id, status: PresenceStatus::Offline, last_seen: None }),
        (_, now) => Some((user_id, now).into()),
    }
}

impl Gateway {
    /// Shows those who watch somebody what has changed, for ever.
    pub async fn watch_presence(&self) {
        let watches = &self.hub.watches;
        loop {
            watches.is_doubted.notified().await;
            time::sleep(GATHER).await;
            let mut doubted = watches.take_doubted();
            while !doubted.is_empty() {
                let looks = watches.take_looks(&mut doubted);
                if let Err(failure) = self.look_again(&looks).await {
                    warn!(
                        error = &failure as &dyn std::error::Error,
                        "what users see of others is not known; it is asked again"
                    );
                    // They stay in doubt, those of them who were looked at too: nobody is shown the same twice.
                    watches.doubt(looks.iter().map(|(_, user_id)| *user_id).chain(std::mem::take(&mut doubted)));
                    time::sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    /// Shows those who watch what they see now.
    async fn look_again(&self, looks: &[(Arc<Peer>, UserId)]) -> Result<(), StoreError> {
        for chunk in looks.chunks(LOOKS_MAX) {
            let looks: Vec<Look> =
                chunk.iter().map(|(peer, user_id)| Look { viewer: peer.user_id, user_id: *user_id }).collect();
            self.hub.watches.show(chunk, self.presences.look(&looks).await?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use domain::{Quota, Timestamp};
    use ports::{PresenceNews, Watchers};
    use protocol::frame::{Outbound, RequestId};
    use protocol::{Command, ErrorCode};

    use super::*;
    use crate::Limits;
    use crate::hub::Admitted;
    use crate::world::{World, pushed};

    fn presence(user_id: UserId, view: PresenceView) -> Presence {
        (user_id, view).into()
    }

    const SOON: Duration = Duration::from_millis(150);
    const ONLINE: PresenceView = PresenceView::Online;
    const OFFLINE: PresenceView = PresenceView::Offline { last_seen: None };

    fn gone_since(millis: u64) -> PresenceView {
        PresenceView::Offline { last_seen: Some(Timestamp::from_millis(millis)) }
    }

    /// Subscribes and says what the snapshot shows, or the code of the refusal.
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

    /// What becomes of a user, of which nobody hears unasked.
    async fn turns(world: &World, viewers: &[UserId], user_id: UserId, view: PresenceView) {
        world.others.show(viewers, user_id, view);
        tell(world, user_id, view, &[]).await;
    }

    async fn tell(world: &World, user_id: UserId, view: PresenceView, recipients: &[UserId]) {
        let news = PresenceNews { user_id, view, recipients: recipients.to_vec() };
        world.gateway.hub.tell(world.gateway.hub.id(), vec![news]).await.unwrap();
    }

    /// The changes that were pushed to a connection.
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
        world.others.show(&[ann.peer.user_id], cyd, gone_since(7));
        let snapshot = subscribe(&world, &ann, &[cyd, dan, bob, cyd, dan]).await;
        let shown = [(cyd, gone_since(7)), (dan, PresenceView::Unknown), (bob, ONLINE)];
        assert_eq!(snapshot, Ok(shown.map(|(user_id, view)| presence(user_id, view)).to_vec()));
        time::sleep(SOON).await;
        assert_eq!(changes(&ann), [], "it was shown all of it");
        assert_eq!(world.others.take_looks(), [3]);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_watches_is_pushed_what_they_may_see_and_nobody_else_is() {
        let world = World::start().await;
        let (ann, bob, cyd) =
            (world.connect(world.user()).await, world.connect(world.user()).await, world.connect(world.user()).await);
        let dan = world.user();
        for watcher in [&ann, &bob] {
            subscribe(&world, watcher, &[dan]).await.unwrap();
        }
        turns(&world, &[ann.peer.user_id, cyd.peer.user_id], dan, ONLINE).await;
        time::sleep(SOON).await;
        assert_eq!(changes(&ann), [presence(dan, ONLINE)]);
        assert_eq!((changes(&bob), changes(&cyd)), (vec![], vec![]), "one may not see it, the other does not watch");
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_watcher_is_told_depends_on_what_they_were_shown() {
        let world = World::start().await;
        let ann = world.connect(world.user()).await;
        let bob = world.user();
        subscribe(&world, &ann, &[bob]).await.unwrap();
        for (view, told) in [
            (PresenceView::Unknown, None),
            (ONLINE, Some(ONLINE)),
            (ONLINE, None),
            // Who may not be seen any more looks offline, and since when is not told.
            (PresenceView::Unknown, Some(OFFLINE)),
            (PresenceView::Unknown, None),
            (gone_since(7), Some(gone_since(7))),
            (gone_since(8), Some(gone_since(8))),
            (PresenceView::Unknown, None),
            (OFFLINE, Some(OFFLINE)),
        ] {
            turns(&world, &[ann.peer.user_id], bob, view).await;
            time::sleep(SOON).await;
            let told: Vec<_> = told.into_iter().map(|view| presence(bob, view)).collect();
            assert_eq!(changes(&ann), told, "{view:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn news_go_at_once_to_every_connection_of_a_recipient_that_was_not_shown_just_that() {
        let world = World::start().await;
        let (ann, bob) = (world.user(), world.user());
        let (phone, laptop) = (world.connect(ann).await, world.connect(ann).await);
        world.others.show(&[ann], bob, ONLINE);
        subscribe(&world, &phone, &[bob]).await.unwrap();
        tell(&world, bob, ONLINE, &[ann, world.user()]).await;
        assert_eq!((changes(&phone), changes(&laptop)), (vec![], vec![presence(bob, ONLINE)]));
        world.others.show(&[ann], bob, gone_since(9));
        tell(&world, bob, gone_since(9), &[ann]).await;
        for connection in [&phone, &laptop] {
            assert_eq!(changes(connection), [presence(bob, gone_since(9))]);
        }
        time::sleep(SOON).await;
        assert_eq!((changes(&phone), changes(&laptop)), (vec![], vec![]), "once");
    }

    #[tokio::test(start_paused = true)]
    async fn who_no_longer_watches_is_told_nothing_and_costs_nothing() {
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
        turns(&world, &[ann.peer.user_id, bob.peer.user_id], cyd, ONLINE).await;
        time::sleep(SOON).await;
        assert_eq!((changes(&ann), changes(&bob), world.others.take_looks()), (vec![], vec![], vec![]));
        let watches = &world.gateway.hub.watches;
        assert!((0..SHARDS).all(|index| watches.lock(index).is_empty()) && watches.doubted().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_watches_a_thousand_users_and_one_more_changes_nothing() {
        let world = World::start().await;
        let ann = world.connect(world.user()).await;
        let users: Vec<_> = (0..WATCHED_MAX + 1).map(|_| world.user()).collect();
        for chunk in users[..WATCHED_MAX - 1].chunks(100) {
            subscribe(&world, &ann, chunk).await.unwrap();
        }
        assert_eq!(subscribe(&world, &ann, &users[WATCHED_MAX - 1..]).await, Err(ErrorCode::InvalidOperation));
        turns(&world, &[ann.peer.user_id], users[WATCHED_MAX], ONLINE).await;
        turns(&world, &[ann.peer.user_id], users[0], ONLINE).await;
        time::sleep(SOON).await;
        assert_eq!(changes(&ann), [presence(users[0], ONLINE)]);
        // Those that are watched already count once.
        assert!(subscribe(&world, &ann, &[users[WATCHED_MAX - 1], users[0]]).await.is_ok());
        unsubscribe(&world, &ann, &users[..1]).await;
        assert!(subscribe(&world, &ann, &users[WATCHED_MAX..]).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn subscriptions_are_limited_like_other_reads() {
        let quota = Quota::per(1, Duration::from_secs(60));
        let world = World::with(Limits { rest_read: quota, ..Limits::default() }).await;
        let ann = world.connect(world.user()).await;
        let bob = world.user();
        assert!(subscribe(&world, &ann, &[]).await.is_ok());
        assert_eq!(subscribe(&world, &ann, &[bob]).await, Err(ErrorCode::RateLimited));
        turns(&world, &[ann.peer.user_id], bob, ONLINE).await;
        time::sleep(SOON).await;
        assert_eq!(changes(&ann), []);
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_told_is_unknown_and_shown_when_it_is_known() {
        let world = World::start().await;
        let ann = world.connect(world.user()).await;
        let bob = world.user();
        world.others.show(&[ann.peer.user_id], bob, ONLINE);
        world.others.is_away.store(true, Ordering::SeqCst);
        let snapshot = subscribe(&world, &ann, &[bob]).await;
        assert_eq!(snapshot, Ok(vec![presence(bob, PresenceView::Unknown)]));
        time::sleep(3 * RETRY_PAUSE).await;
        assert!(world.others.take_looks().len() < 5, "it is tried now and then");
        world.others.is_away.store(false, Ordering::SeqCst);
        time::sleep(RETRY_PAUSE + SOON).await;
        assert_eq!(changes(&ann), [presence(bob, ONLINE)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_that_could_not_be_looked_at_is_shown_a_second_later() {
        let world = World::start().await;
        let ann = world.connect(world.user()).await;
        let users = [world.user(), world.user()];
        subscribe(&world, &ann, &users).await.unwrap();
        world.others.is_away.store(true, Ordering::SeqCst);
        for user_id in users {
            turns(&world, &[ann.peer.user_id], user_id, ONLINE).await;
        }
        time::sleep(SOON).await;
        world.others.is_away.store(false, Ordering::SeqCst);
        time::sleep(RETRY_PAUSE + GATHER).await;
        assert_eq!(changes(&ann), users.map(|user_id| presence(user_id, ONLINE)));
    }

    #[tokio::test(start_paused = true)]
    async fn somebody_many_watch_is_looked_at_in_pieces_and_no_more_than_ten_times_a_second() {
        let world = World::start().await;
        let watchers = world.connect_many(2500).await;
        let viewers: Vec<_> = watchers.iter().map(|watcher| watcher.peer.user_id).collect();
        let ann = world.user();
        for watcher in &watchers {
            subscribe(&world, watcher, &[ann]).await.unwrap();
        }
        world.others.take_looks();
        for n in 0..100 {
            turns(&world, &viewers, ann, gone_since(n)).await;
            time::sleep(Duration::from_millis(1)).await;
        }
        time::sleep(SOON).await;
        let looks = world.others.take_looks();
        assert!(looks.len() <= 6 && looks.iter().all(|looks| *looks <= 1000), "{looks:?}");
        assert_eq!(looks.iter().sum::<usize>() % 2500, 0);
        for watcher in &watchers {
            assert_eq!(changes(watcher).last(), Some(&presence(ann, gone_since(99))));
        }
    }

    /// The look for the snapshot begins first and ends last, and shows what was true when it began.
    #[tokio::test(start_paused = true)]
    async fn a_snapshot_that_is_overtaken_by_news_is_corrected() {
        let world = World::start().await;
        let ann = world.connect(world.user()).await;
        let bob = world.user();
        world.others.show(&[ann.peer.user_id], bob, OFFLINE);
        *world.others.look_takes.lock().unwrap() = Duration::from_secs(2);
        let watched = [bob];
        let (snapshot, ()) = tokio::join!(subscribe(&world, &ann, &watched), async {
            time::sleep(Duration::from_secs(1)).await;
            *world.others.look_takes.lock().unwrap() = Duration::ZERO;
            turns(&world, &[ann.peer.user_id], bob, ONLINE).await;
            time::sleep(SOON).await;
            assert_eq!(changes(&ann), [presence(bob, ONLINE)]);
        });
        assert_eq!(snapshot, Ok(vec![presence(bob, OFFLINE)]));
        time::sleep(SOON).await;
        assert_eq!(changes(&ann), [presence(bob, ONLINE)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_is_overtaken_by_news_shows_nothing_old() {
        let world = World::start().await;
        let ann = world.connect(world.user()).await;
        let bob = world.user();
        subscribe(&world, &ann, &[bob]).await.unwrap();
        turns(&world, &[ann.peer.user_id], bob, OFFLINE).await;
        *world.others.look_takes.lock().unwrap() = Duration::from_secs(2);
        time::sleep(Duration::from_secs(1)).await;
        world.others.show(&[ann.peer.user_id], bob, ONLINE);
        tell(&world, bob, ONLINE, &[ann.peer.user_id]).await;
        time::sleep(Duration::from_secs(10)).await;
        assert_eq!(changes(&ann), [presence(bob, ONLINE)]);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_gap_everybody_who_is_watched_is_looked_at_whether_routes_can_be_written_or_not() {
        for routes_are_away in [false, true] {
            let world = World::start().await;
            let ann = world.connect(world.user()).await;
            let users = [world.user(), world.user(), world.user()];
            subscribe(&world, &ann, &users).await.unwrap();
            world.others.show(&[ann.peer.user_id], users[1], ONLINE);
            world.routes.is_away.store(routes_are_away, Ordering::SeqCst);
            world.gateway.make_up_for_gap().await;
            time::sleep(SOON).await;
            let told = pushed(&ann.peer);
            assert_eq!(told[1..], [ServerFrame::PresenceChanged(presence(users[1], ONLINE))], "behind the resync");
        }
    }

    /// The symptom: somebody on another gateway stayed offline in the eyes of all who had looked while its routes were lost.
    #[tokio::test(start_paused = true)]
    async fn after_a_loss_of_routes_everybody_is_looked_at_again_at_the_next_two_beats() {
        let world = World::start().await;
        let ann = world.connect(world.user()).await;
        let (bob, viewers) = (world.user(), [ann.peer.user_id]);
        world.others.show(&viewers, bob, ONLINE);
        subscribe(&world, &ann, &[bob]).await.unwrap();
        let watches = &world.gateway.hub.watches;
        world.others.show(&viewers, bob, OFFLINE);
        watches.handle_loss();
        time::sleep(SOON).await;
        assert_eq!(changes(&ann), [presence(bob, OFFLINE)]);
        for view in [ONLINE, OFFLINE] {
            world.others.show(&viewers, bob, view);
            watches.handle_beat();
            time::sleep(SOON).await;
            assert_eq!(changes(&ann), [presence(bob, view)], "nobody says so");
        }
        world.others.show(&viewers, bob, ONLINE);
        watches.handle_beat();
        time::sleep(SOON).await;
        assert_eq!(changes(&ann), [], "by then everybody has written their routes again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_missed_pushes_is_shown_all_it_watches_again() {
        let world = World::start().await;
        let ann = world.connect(world.user()).await;
        let (bob, cyd) = (world.user(), world.user());
        world.others.show(&[ann.peer.user_id], bob, ONLINE);
        subscribe(&world, &ann, &[bob, cyd]).await.unwrap();
        world.gateway.hub.watches.handle_missed(&ann.peer);
        time::sleep(SOON).await;
        let mut shown = changes(&ann);
        shown.sort_by_key(|presence| presence.user_id);
        assert_eq!(shown, [presence(bob, ONLINE), presence(cyd, OFFLINE)], "it may believe that the second is there");
    }
}
