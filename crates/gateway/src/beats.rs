use std::sync::Arc;

use metrics::{counter, gauge, histogram};
use ports::{Route, StoreError};
use protocol::frame::Resync;
use tokio::select;
use tokio::sync::watch;
use tokio::time::{self, Instant, MissedTickBehavior};
use tracing::{info, warn};

use crate::Gateway;
use crate::peer::Peer;
use crate::socket::TextFrame;

/// Routes that are written once more with each beat, at the least.
const TURN_LEN_MIN: usize = 32;
/// Beats in which every route has its turn, however many there are.
const TURNS: usize = 30;
/// Routes written in one call.
const WRITE_LEN: usize = 512;

/// Orders to write all routes, from whoever has to know that they are there.
#[derive(Default)]
pub(crate) struct Orders {
    /// How many were given.
    given: watch::Sender<u64>,
    /// How many of them have been tried.
    tried: watch::Sender<u64>,
}

impl Orders {
    /// Has all routes written, and waits until that has been tried.
    pub(crate) async fn give(&self) {
        let mut number = 0;
        self.given.send_modify(|given| {
            *given += 1;
            number = *given;
        });
        // The senders live as long as this does.
        drop(self.tried.subscribe().wait_for(|tried| *tried >= number).await);
    }

    /// Waits for an order, and says how many were given by then.
    async fn next(&self) -> u64 {
        let tried = *self.tried.borrow();
        drop(self.given.subscribe().wait_for(|given| *given > tried).await);
        *self.given.borrow()
    }
}

impl Gateway {
    /// Keeps the routes of this gateway for ever: holds them up with its beat, writes those of open connections once more
    /// in turn, and takes back those of connections that have ended.
    ///
    /// One task does all of it, one thing after the other: a route that is taken back is never brought back by a refresh
    /// that was under way.
    pub async fn keep_routes(&self) {
        let mut beats = time::interval(self.config.heartbeat_interval);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut has_beaten = false;
        let mut can_take_back = true;
        loop {
            select! {
                biased;
                _ = beats.tick() => {
                    has_beaten |= self.beat(has_beaten).await;
                    can_take_back = self.take_back_routes().await;
                }
                () = self.hub.departures.some(), if can_take_back => can_take_back = self.take_back_routes().await,
                given = self.hub.orders.next() => {
                    self.hub.for_each(|peer| {
                        peer.pass_by();
                        peer.owe_route(u64::MAX);
                    });
                    self.refresh_routes(owed).await;
                    self.hub.orders.tried.send_replace(given);
                }
            }
        }
    }

    /// Makes the route of a new connection known. Where routes cannot be kept, everything is pushed to every gateway, and the
    /// next beat tries again (C8).
    pub(crate) async fn register_route(&self, peer: &Peer) {
        let beat = self.hub.beat();
        peer.handle_registering();
        let registered = self.route_writer.register(&self.hub.route(peer)).await;
        peer.handle_registered(registered.is_ok().then_some(beat));
        if let Err(failure) = registered {
            warn!(error = &failure as &dyn std::error::Error, "a connection has no route yet");
        }
    }

    /// Says that this gateway is there, and writes the routes whose turn it is; `false` if nobody has heard it.
    async fn beat(&self, has_beaten: bool) -> bool {
        let began = Instant::now();
        let beat = self.hub.begin_beat();
        match self.route_writer.beat(self.hub.id()).await {
            Ok(true) => {}
            Ok(false) => self.hub.for_each(|peer| {
                peer.owe_route(beat);
                // While the gateway was not known its routes were in no answer, whether they are still there or not. Before
                // its first beat there was nothing to miss: clients sync when they connect.
                if has_beaten {
                    peer.pass_by();
                }
            }),
            Err(failure) => {
                warn!(error = &failure as &dyn std::error::Error, "nobody has heard the beat; the next one comes");
                return false;
            }
        }
        self.hub.watches.handle_beat();
        let mut is_any_owed = false;
        self.hub.for_each(|peer| is_any_owed |= peer.owes_route());
        if self.refresh_routes(turn).await > 0 && !is_any_owed {
            // Where one was lost unexpectedly, others may be.
            self.hub.for_each(|peer| peer.owe_route(beat));
            self.refresh_routes(owed).await;
        }
        histogram!("tidings_heartbeat_seconds").record(began.elapsed());
        self.measure();
        true
    }

    /// Writes the routes of those that `choose` takes of the connections heard from lately, and says how many had lost
    /// theirs. Pushes have passed these by, so their clients are told to sync.
    async fn refresh_routes(&self, choose: fn(Vec<Arc<Peer>>) -> Vec<Arc<Peer>>) -> usize {
        let (began, mut lost) = (Instant::now(), 0);
        for peers in choose(self.hub.fresh(self.config.unhealthy_after)).chunks(WRITE_LEN) {
            match self.refresh_some(peers).await {
                Ok(of_them) => lost += of_them,
                Err(failure) => {
                    warn!(error = &failure as &dyn std::error::Error, "routes were not refreshed; the next beat does");
                    break;
                }
            }
            // What is left is still the oldest. The beat holds up all of them, so it does not wait for any.
            if began.elapsed() >= self.config.heartbeat_interval {
                break;
            }
        }
        if lost > 0 {
            info!(connections = lost, "routes were lost; their clients sync");
            counter!("tidings_gateway_routes_lost_total").increment(lost as u64);
            self.hub.watches.handle_loss();
        }
        lost
    }

    async fn refresh_some(&self, peers: &[Arc<Peer>]) -> Result<usize, StoreError> {
        let routes: Vec<Route> = peers.iter().map(|peer| self.hub.route(peer)).collect();
        let (refreshed, beat) = (self.route_writer.refresh(&routes).await?, self.hub.beat());
        let lost = peers.iter().zip(refreshed).filter(|(peer, refreshed)| peer.handle_refreshed(beat, *refreshed));
        // Told now, behind the write: what is not pushed to a client from here on is in its sync.
        Ok(lost.inspect(|(peer, _)| peer.mailbox.push(TextFrame::new(Resync::missed_pushes()))).count())
    }

    fn measure(&self) {
        let (mut routes, mut users) = (0u32, 0.0);
        self.hub.for_each(|peer| {
            routes += u32::from(peer.is_kept() && !peer.owes_route());
            // Each connection of a user is a part of them, so that the sum over all gateways counts users.
            users += match peer.connections_of_user() {
                0 | 1 => 0.0,
                connections => 1.0 / connections as f64,
            };
        });
        gauge!("tidings_routing_keys").set(routes);
        gauge!("tidings_routing_multi_device_users").set(users);
        let (messages, bytes) = self.hub.fullest();
        gauge!("tidings_gateway_mailbox_messages_max").set(messages as f64);
        gauge!("tidings_gateway_mailbox_bytes_max").set(bytes as f64);
    }
}

/// Those that are owed, and those that were written longest ago.
fn turn(mut fresh: Vec<Arc<Peer>>) -> Vec<Arc<Peer>> {
    let owed = fresh.iter().filter(|peer| peer.owes_route()).count();
    let len = owed.max(TURN_LEN_MIN).max(fresh.len().div_ceil(TURNS));
    if len < fresh.len() {
        fresh.select_nth_unstable_by_key(len, |peer| peer.written_in());
        fresh.truncate(len);
    }
    fresh
}

fn owed(mut fresh: Vec<Arc<Peer>>) -> Vec<Arc<Peer>> {
    fresh.retain(|peer| peer.owes_route());
    fresh
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use domain::ConnectionId;
    use protocol::frame::ServerFrame;

    use super::*;
    use crate::hub::Admitted;
    use crate::world::{BEAT, EXPIRY, UNHEALTHY_AFTER, World, pushed};

    fn ids(connections: &[Admitted]) -> BTreeSet<ConnectionId> {
        connections.iter().map(|connection| connection.peer.connection_id).collect()
    }

    fn told_to_sync(connections: &[Admitted]) -> BTreeSet<ConnectionId> {
        let resync = ServerFrame::Resync(Resync { reason: "missed_pushes".to_owned() });
        let told = connections.iter().filter(|connection| match &pushed(&connection.peer)[..] {
            [] => false,
            [frame] => *frame == resync,
            more => panic!("{more:?}"),
        });
        told.map(|connection| connection.peer.connection_id).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_beat_writes_a_thirtieth_of_the_routes_and_no_fewer_than_thirty_two() {
        for (connections, turn) in [(1, 1), (32, 32), (33, 32), (960, 32), (3001, 101)] {
            let world = World::start().await;
            let connections = world.connect_many(connections).await;
            time::sleep(BEAT).await;
            let refreshed = world.routes.take_refreshed();
            assert_eq!(refreshed.iter().map(Vec::len).sum::<usize>(), turn, "of {}", connections.len());
            assert!(refreshed.iter().all(|call| call.len() <= WRITE_LEN));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_route_has_its_turn_while_connections_come_and_go() {
        let world = World::start().await;
        let mut connections = world.connect_many(2000).await;
        let mut written_at: HashMap<ConnectionId, usize> = ids(&connections).into_iter().map(|id| (id, 0)).collect();
        for beat in 1..=60 {
            world.hear(&connections);
            time::sleep(BEAT).await;
            written_at.extend(world.routes.take_refreshed().into_iter().flatten().map(|id| (id, beat)));
            for connection in &connections {
                let written_at = written_at[&connection.peer.connection_id];
                assert!(beat - written_at <= TURNS, "written at beat {written_at}, not by {beat}");
            }
            connections.drain(beat * 7..beat * 7 + 20);
            let new = world.connect_many(20).await;
            written_at.extend(ids(&new).into_iter().map(|id| (id, beat)));
            connections.extend(new);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn routes_live_for_as_long_as_clients_are_heard() {
        let world = World::start().await;
        let connections = world.connect_many(3).await;
        for _ in 0..100 {
            world.hear(&connections[..2]);
            time::sleep(BEAT).await;
        }
        assert!(world.is_routed(&connections[0].peer).await);
        assert!(!world.is_routed(&connections[2].peer).await, "nobody has refreshed it");
        assert_eq!(told_to_sync(&connections), BTreeSet::new());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_silent_is_not_refreshed_until_it_is_heard_again() {
        let world = World::start().await;
        let connections = world.connect_many(2).await;
        time::sleep(UNHEALTHY_AFTER).await;
        world.hear(&connections[1..]);
        world.routes.take_refreshed();
        time::sleep(BEAT).await;
        assert_eq!(world.routes.take_refreshed(), [[connections[1].peer.connection_id]]);
        world.hear(&connections);
        time::sleep(BEAT).await;
        assert_eq!(world.routes.take_refreshed().concat().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_whose_route_was_lost_is_told_to_sync_and_no_other_and_all_are_written_at_once() {
        let world = World::start().await;
        let connections = world.connect_many(1000).await;
        let lost = &connections[123].peer;
        world.gateway.route_writer.unregister(&[world.gateway.hub.route(lost)], EXPIRY).await.unwrap();
        for _ in 0..TURNS {
            if world.is_routed(lost).await {
                break;
            }
            world.hear(&connections);
            world.routes.take_refreshed();
            time::sleep(BEAT).await;
        }
        assert!(world.is_routed(lost).await);
        let refreshed = world.routes.take_refreshed().concat();
        assert_eq!(refreshed.len(), 1000, "each once");
        assert_eq!(refreshed.into_iter().collect::<BTreeSet<_>>(), ids(&connections));
        assert_eq!(told_to_sync(&connections), [lost.connection_id].into());
        time::sleep(BEAT).await;
        assert_eq!(told_to_sync(&connections), BTreeSet::new());
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_beat_and_a_beat_during_a_handshake_tell_nobody_to_sync() {
        let world = World::start().await;
        let established = world.connect_many(1).await;
        let admitted = world.admit(world.user(), None);
        admitted.peer.handle_registering();
        time::sleep(BEAT).await;
        assert_eq!(world.routes.take_refreshed().concat(), ids(&established).into_iter().collect::<Vec<_>>());
        world.gateway.register_route(&admitted.peer).await;
        time::sleep(BEAT).await;
        let connections: Vec<_> = established.into_iter().chain([admitted]).collect();
        assert_eq!(told_to_sync(&connections), BTreeSet::new());
    }

    /// While nobody hears a gateway its routes are in no answer, though they are all kept.
    #[tokio::test(start_paused = true)]
    async fn clients_of_a_gateway_that_was_not_heard_for_too_long_are_told_to_sync_once_their_routes_are_there() {
        let world = World::start().await;
        let connections = world.connect_many(600).await;
        world.routes.leave();
        time::sleep(EXPIRY + BEAT).await;
        world.hear(&connections);
        world.routes.is_full.store(true, Ordering::SeqCst);
        world.routes.come_back();
        time::sleep(BEAT).await;
        assert_eq!(told_to_sync(&connections), BTreeSet::new(), "their routes are not written yet");
        world.routes.is_full.store(false, Ordering::SeqCst);
        time::sleep(BEAT).await;
        assert_eq!(told_to_sync(&connections), ids(&connections));
        time::sleep(BEAT).await;
        assert_eq!(told_to_sync(&connections), BTreeSet::new());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_whose_route_could_not_be_written_gets_it_with_the_next_beat_and_syncs() {
        let world = World::start().await;
        let mut connections = world.connect_many(100).await;
        world.routes.leave();
        connections.push(world.connect(world.user()).await);
        world.routes.come_back();
        time::sleep(BEAT).await;
        assert!(world.is_routed(&connections[100].peer).await);
        assert_eq!(told_to_sync(&connections), [connections[100].peer.connection_id].into());
    }

    #[tokio::test(start_paused = true)]
    async fn writing_all_routes_slowly_does_not_hold_up_the_beat() {
        let world = World::start().await;
        let connections = world.connect_many(5000).await;
        world.routes.leave();
        time::sleep(EXPIRY + BEAT).await;
        world.routes.come_back();
        *world.routes.refresh_takes.lock().unwrap() = Duration::from_secs(3);
        for second in 0..60 {
            world.hear(&connections);
            time::sleep(Duration::from_secs(1)).await;
            let live = world.gateway.routes.live_gateways().await.unwrap();
            assert!(second < 5 || live == [world.gateway.hub.id().clone()], "after {second} s");
        }
        assert_eq!(told_to_sync(&connections).len(), 5000);
    }
}
