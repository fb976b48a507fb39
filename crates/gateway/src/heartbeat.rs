use std::sync::Arc;

use metrics::{counter, gauge, histogram};
use ports::{Route, StoreError, error_chain};
use protocol::frame::Resync;
use tokio::select;
use tokio::sync::watch;
use tokio::time::{self, Instant, MissedTickBehavior};
use tracing::{info, warn};

use crate::Gateway;
use crate::peer::ConnectionPeer;
use crate::socket::TextFrame;

/// Fewest routes that each heartbeat refreshes.
const ROTATION_LEN_MIN: usize = 32;
/// Heartbeats within which every route is refreshed once, regardless of the number of routes.
const ROTATION_HEARTBEATS: usize = 30;
/// Routes written in one call.
const WRITE_LEN: usize = 512;

/// Requests to rewrite all routes, with the number of requests made and completed.
#[derive(Default)]
pub(crate) struct RouteRewrites {
    /// Requests made so far.
    given: watch::Sender<u64>,
    /// Requests that were attempted, successfully or not.
    tried: watch::Sender<u64>,
}

impl RouteRewrites {
    /// Requests a rewrite of all routes and waits until it was attempted.
    pub(crate) async fn give(&self) {
        let mut number = 0;
        self.given.send_modify(|given| {
            *given += 1;
            number = *given;
        });
        // `wait_for` fails only when the sender is dropped, and `self` owns the sender.
        drop(self.tried.subscribe().wait_for(|tried| *tried >= number).await);
    }

    /// Waits for a pending request and returns the number of requests made so far.
    async fn next(&self) -> u64 {
        let tried = *self.tried.borrow();
        drop(self.given.subscribe().wait_for(|given| *given > tried).await);
        *self.given.borrow()
    }
}

impl Gateway {
    /// Maintains the routes of this gateway until the task is aborted.
    ///
    /// It sends the heartbeat, refreshes the routes of open connections in rotation, and deregisters the routes of
    /// connections that have ended. A single task does this sequentially, so an in-flight refresh cannot restore a
    /// deregistered route.
    pub async fn keep_routes(&self) {
        let mut beats = time::interval(self.config.heartbeat_interval);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut has_sent = false;
        let mut can_deregister = true;
        loop {
            select! {
                biased;
                _ = beats.tick() => {
                    has_sent |= self.send_heartbeat(has_sent).await;
                    can_deregister = self.deregister_routes().await;
                }
                () = self.hub.deregistrations.some(), if can_deregister => can_deregister = self.deregister_routes().await,
                given = self.hub.route_rewrites.next() => {
                    self.hub.for_each(|peer| {
                        peer.mark_needs_resync();
                        peer.mark_route_due(u64::MAX);
                    });
                    self.refresh_routes(due).await;
                    self.hub.route_rewrites.tried.send_replace(given);
                }
            }
        }
    }

    /// Registers the route of a new connection. If registration fails, the next heartbeat retries it; while the routing table
    /// is unavailable, fanout pushes every event to every gateway (C8).
    pub(crate) async fn register_route(&self, peer: &ConnectionPeer) {
        let beat = self.hub.heartbeat();
        peer.handle_registering();
        let registered = self.route_writer.register(&self.hub.route(peer)).await;
        peer.handle_registered(registered.is_ok().then_some(beat));
        if let Err(failure) = registered {
            warn!(error = %error_chain(&failure), "route registration failed; retrying at next heartbeat");
        }
    }

    /// Sends one heartbeat and refreshes the routes that are due. Returns `false` if the heartbeat could not be written.
    async fn send_heartbeat(&self, has_sent: bool) -> bool {
        let began = Instant::now();
        let beat = self.hub.begin_heartbeat();
        match self.route_writer.heartbeat(self.hub.id()).await {
            Ok(true) => {}
            Ok(false) => self.hub.for_each(|peer| {
                peer.mark_route_due(beat);
                // While the gateway's lease was expired, lookups did not return its routes, even those still stored.
                // Before the first heartbeat no push can be missed, because clients sync when they connect.
                if has_sent {
                    peer.mark_needs_resync();
                }
            }),
            Err(failure) => {
                warn!(
                    error = %error_chain(&failure),
                    "gateway heartbeat failed; retrying at next interval"
                );
                return false;
            }
        }
        self.hub.subscriptions.handle_heartbeat();
        let mut is_any_due = false;
        self.hub.for_each(|peer| is_any_due |= peer.is_route_due());
        if self.refresh_routes(in_rotation).await > 0 && !is_any_due {
            // A route that disappeared unexpectedly suggests that others did, too, so refresh all of them.
            self.hub.for_each(|peer| peer.mark_route_due(beat));
            self.refresh_routes(due).await;
        }
        histogram!("tidings_heartbeat_seconds").record(began.elapsed());
        self.measure();
        true
    }

    /// Refreshes the routes that `choose` selects among the connections with recent frames. Returns the number of routes that
    /// were missing or had missed pushes; their clients receive a resync.
    async fn refresh_routes(&self, choose: fn(Vec<Arc<ConnectionPeer>>) -> Vec<Arc<ConnectionPeer>>) -> usize {
        let (began, mut lost) = (Instant::now(), 0);
        for peers in choose(self.hub.fresh(self.config.unhealthy_after)).chunks(WRITE_LEN) {
            match self.refresh_some(peers).await {
                Ok(of_them) => lost += of_them,
                Err(failure) => {
                    warn!(
                        error = %error_chain(&failure),
                        "route refresh failed; retrying at next heartbeat"
                    );
                    break;
                }
            }
            // The remaining routes are still the oldest and come first next time. Stop here: a late heartbeat would
            // expire all routes.
            if began.elapsed() >= self.config.heartbeat_interval {
                break;
            }
        }
        if lost > 0 {
            info!(connections = lost, "routes were missing and were written again; their clients resync");
            counter!("tidings_gateway_routes_lost_total").increment(lost as u64);
            self.hub.subscriptions.handle_loss();
        }
        lost
    }

    async fn refresh_some(&self, peers: &[Arc<ConnectionPeer>]) -> Result<usize, StoreError> {
        let routes: Vec<Route> = peers.iter().map(|peer| self.hub.route(peer)).collect();
        let (refreshed, beat) = (self.route_writer.refresh(&routes).await?, self.hub.heartbeat());
        let lost = peers.iter().zip(refreshed).filter(|(peer, refreshed)| peer.handle_refreshed(beat, *refreshed));
        // Push the resync after the write: an event that is not pushed from now on is included in the client's sync.
        Ok(lost
            .inspect(|(peer, _)| {
                peer.mailbox.push(TextFrame::new(Resync::missed_pushes()));
            })
            .count())
    }

    fn measure(&self) {
        let (mut routes, mut users) = (0u32, 0.0);
        self.hub.for_each(|peer| {
            routes += u32::from(peer.is_kept() && !peer.is_route_due());
            // Each connection counts as a fraction of its user, so the sum over all gateways counts users.
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

/// Selects the routes marked for immediate writing, then those with the oldest writes.
fn in_rotation(mut fresh: Vec<Arc<ConnectionPeer>>) -> Vec<Arc<ConnectionPeer>> {
    let due = fresh.iter().filter(|peer| peer.is_route_due()).count();
    let len = due.max(ROTATION_LEN_MIN).max(fresh.len().div_ceil(ROTATION_HEARTBEATS));
    if len < fresh.len() {
        fresh.select_nth_unstable_by_key(len, |peer| peer.written_in());
        fresh.truncate(len);
    }
    fresh
}

fn due(mut fresh: Vec<Arc<ConnectionPeer>>) -> Vec<Arc<ConnectionPeer>> {
    fresh.retain(|peer| peer.is_route_due());
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
    use crate::test_world::{EXPIRY, HEARTBEAT_INTERVAL, UNHEALTHY_AFTER, World, pushed};

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
    async fn a_heartbeat_refreshes_a_thirtieth_of_the_routes_and_at_least_thirty_two() {
        for (connections, in_rotation) in [(1, 1), (32, 32), (33, 32), (960, 32), (3001, 101)] {
            let world = World::start().await;
            let connections = world.connect_many(connections).await;
            time::sleep(HEARTBEAT_INTERVAL).await;
            let refreshed = world.routes.take_refreshed();
            assert_eq!(refreshed.iter().map(Vec::len).sum::<usize>(), in_rotation, "of {}", connections.len());
            assert!(refreshed.iter().all(|call| call.len() <= WRITE_LEN));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_route_is_refreshed_while_connections_come_and_go() {
        let world = World::start().await;
        let mut connections = world.connect_many(2000).await;
        let mut written_at: HashMap<ConnectionId, usize> = ids(&connections).into_iter().map(|id| (id, 0)).collect();
        for beat in 1..=60 {
            world.hear(&connections);
            time::sleep(HEARTBEAT_INTERVAL).await;
            written_at.extend(world.routes.take_refreshed().into_iter().flatten().map(|id| (id, beat)));
            for connection in &connections {
                let written_at = written_at[&connection.peer.connection_id];
                assert!(beat - written_at <= ROTATION_HEARTBEATS, "written at beat {written_at}, not by {beat}");
            }
            connections.drain(beat * 7..beat * 7 + 20);
            let new = world.connect_many(20).await;
            written_at.extend(ids(&new).into_iter().map(|id| (id, beat)));
            connections.extend(new);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn routes_are_refreshed_while_clients_send_frames() {
        let world = World::start().await;
        let connections = world.connect_many(3).await;
        for _ in 0..100 {
            world.hear(&connections[..2]);
            time::sleep(HEARTBEAT_INTERVAL).await;
        }
        assert!(world.is_routed(&connections[0].peer).await);
        assert!(!world.is_routed(&connections[2].peer).await, "a silent connection is not refreshed");
        assert_eq!(told_to_sync(&connections), BTreeSet::new());
    }

    #[tokio::test(start_paused = true)]
    async fn the_route_of_a_silent_connection_is_not_refreshed_until_its_next_frame() {
        let world = World::start().await;
        let connections = world.connect_many(2).await;
        time::sleep(UNHEALTHY_AFTER).await;
        world.hear(&connections[1..]);
        world.routes.take_refreshed();
        time::sleep(HEARTBEAT_INTERVAL).await;
        assert_eq!(world.routes.take_refreshed(), [[connections[1].peer.connection_id]]);
        world.hear(&connections);
        time::sleep(HEARTBEAT_INTERVAL).await;
        assert_eq!(world.routes.take_refreshed().concat().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_client_of_a_lost_route_resyncs_and_all_routes_are_rewritten() {
        let world = World::start().await;
        let connections = world.connect_many(1000).await;
        let lost = &connections[123].peer;
        world.gateway.route_writer.unregister(&[world.gateway.hub.route(lost)], EXPIRY).await.unwrap();
        for _ in 0..ROTATION_HEARTBEATS {
            if world.is_routed(lost).await {
                break;
            }
            world.hear(&connections);
            world.routes.take_refreshed();
            time::sleep(HEARTBEAT_INTERVAL).await;
        }
        assert!(world.is_routed(lost).await);
        let refreshed = world.routes.take_refreshed().concat();
        assert_eq!(refreshed.len(), 1000, "each once");
        assert_eq!(refreshed.into_iter().collect::<BTreeSet<_>>(), ids(&connections));
        assert_eq!(told_to_sync(&connections), [lost.connection_id].into());
        time::sleep(HEARTBEAT_INTERVAL).await;
        assert_eq!(told_to_sync(&connections), BTreeSet::new());
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_heartbeat_and_one_during_a_handshake_cause_no_resync() {
        let world = World::start().await;
        let established = world.connect_many(1).await;
        let admitted = world.admit(world.user(), None);
        admitted.peer.handle_registering();
        time::sleep(HEARTBEAT_INTERVAL).await;
        assert_eq!(world.routes.take_refreshed().concat(), ids(&established).into_iter().collect::<Vec<_>>());
        world.gateway.register_route(&admitted.peer).await;
        time::sleep(HEARTBEAT_INTERVAL).await;
        let connections: Vec<_> = established.into_iter().chain([admitted]).collect();
        assert_eq!(told_to_sync(&connections), BTreeSet::new());
    }

    /// After the gateway's lease has expired, lookups do not return its routes, although they are still stored.
    #[tokio::test(start_paused = true)]
    async fn clients_of_a_gateway_with_an_expired_lease_resync_once_their_routes_are_written() {
        let world = World::start().await;
        let connections = world.connect_many(600).await;
        world.routes.leave();
        time::sleep(EXPIRY + HEARTBEAT_INTERVAL).await;
        world.hear(&connections);
        world.routes.is_full.store(true, Ordering::SeqCst);
        world.routes.come_back();
        time::sleep(HEARTBEAT_INTERVAL).await;
        assert_eq!(told_to_sync(&connections), BTreeSet::new(), "their routes are not written yet");
        world.routes.is_full.store(false, Ordering::SeqCst);
        time::sleep(HEARTBEAT_INTERVAL).await;
        assert_eq!(told_to_sync(&connections), ids(&connections));
        time::sleep(HEARTBEAT_INTERVAL).await;
        assert_eq!(told_to_sync(&connections), BTreeSet::new());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_route_registration_is_retried_at_the_next_heartbeat_and_the_client_resyncs() {
        let world = World::start().await;
        let mut connections = world.connect_many(100).await;
        world.routes.leave();
        connections.push(world.connect(world.user()).await);
        world.routes.come_back();
        time::sleep(HEARTBEAT_INTERVAL).await;
        assert!(world.is_routed(&connections[100].peer).await);
        assert_eq!(told_to_sync(&connections), [connections[100].peer.connection_id].into());
    }

    #[tokio::test(start_paused = true)]
    async fn slow_route_writes_do_not_delay_the_heartbeat() {
        let world = World::start().await;
        let connections = world.connect_many(5000).await;
        world.routes.leave();
        time::sleep(EXPIRY + HEARTBEAT_INTERVAL).await;
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
