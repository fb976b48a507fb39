use std::time::Duration;

use metrics::counter;
use ports::{ConnectionHolder, StoreError, error_chain};
use protocol::CloseReason;
use protocol::frame::Resync;
use tokio::time;
use tracing::{debug, info, warn};

use crate::Gateway;
use crate::socket::TextFrame;

/// Connections checked in one call.
const CONNECTIONS_AT_ONCE: usize = 100;
/// Pause before a failed check of the connections is repeated.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

impl Gateway {
    /// Recovers after pushes or close orders to this process may have been lost. It rewrites all routes, asks every client to
    /// resync, re-checks all subscribed presences, and closes connections that were revoked meanwhile.
    ///
    /// [`keep_routes`](Self::keep_routes) and [`recheck_connections`](Self::recheck_connections) must be running.
    pub async fn make_up_for_gap(&self) {
        let connections = self.hub.connections();
        info!(connections, "pushes to this gateway may have been lost; all clients resync");
        counter!("tidings_gateway_gaps_total").increment(1);
        // Routes first: an event that is not pushed before the client's sync is then included in that sync.
        self.hub.route_rewrites.give().await;
        self.hub.for_each(|peer| {
            if peer.take_needs_resync() {
                peer.mailbox.push(TextFrame::new(Resync::missed_pushes()));
            }
        });
        self.hub.subscriptions.recheck_all();
        if let Err(failure) = self.check_connections().await {
            warn!(
                error = %error_chain(&failure),
                "check of open connections failed; retrying until it succeeds"
            );
            self.hub.unchecked.send_replace(true);
        }
    }

    /// Checks all connections again after a check has failed, until the task is aborted: revocations that this process
    /// missed are not sent again.
    pub async fn recheck_connections(&self) {
        let mut unchecked = self.hub.unchecked.subscribe();
        // `wait_for` fails only when the sender is dropped, and `self` owns the sender.
        while unchecked.wait_for(|is_due| *is_due).await.is_ok() {
            time::sleep(RECHECK_INTERVAL).await;
            self.hub.unchecked.send_replace(false);
            match self.check_connections().await {
                Ok(()) => info!("open connections were checked; revoked ones are closed"),
                Err(failure) => {
                    debug!(error = %error_chain(&failure), "check of open connections failed again");
                    self.hub.unchecked.send_replace(true);
                }
            }
        }
    }

    /// Closes all connections that may not stay open, by the stored state of this moment.
    async fn check_connections(&self) -> Result<(), StoreError> {
        let mut peers = vec![];
        self.hub.for_each(|peer| peers.push(peer.clone()));
        for chunk in peers.chunks(CONNECTIONS_AT_ONCE) {
            let holders: Vec<ConnectionHolder> = chunk.iter().map(|peer| peer.holder()).collect();
            let live = self.identity.live(&holders).await?;
            for (peer, _) in chunk.iter().zip(live).filter(|(_, is_live)| !is_live) {
                peer.mailbox.close(CloseReason::SessionRevoked);
            }
        }
        Ok(())
    }
}

impl Gateway {
    /// Handles a successful announcement of this gateway to its peers. If they did not know it or its lease had expired,
    /// direct pushes from fanout skipped this gateway (C8), so its clients resync.
    pub async fn handle_announced(&self) {
        let was_known = self.hub.note_announced(self.config.expiry);
        if !was_known && self.hub.connections() > 0 {
            self.make_up_for_gap().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::Ordering;

    use domain::{SessionId, UserId};
    use memory::SequentialIds;
    use ports::Ids;
    use protocol::frame::ServerFrame;

    use super::*;
    use crate::hub::Admitted;
    use crate::test_world::{EXPIRY, HEARTBEAT_INTERVAL, World, pushed};

    /// Connects one user for each of these sessions.
    async fn connect(world: &World, sessions: impl IntoIterator<Item = Option<SessionId>>) -> Vec<Admitted> {
        let mut connections = vec![];
        for session_id in sessions {
            connections.push(world.connect_with(world.user(), session_id).await);
        }
        connections
    }

    fn sessions(count: usize) -> Vec<SessionId> {
        let ids = SequentialIds::default();
        (0..count).map(|_| ids.ulid().into()).collect()
    }

    /// Asserts that every connection has a route and received exactly one resync.
    async fn assert_routed_and_told(world: &World, connections: &[Admitted]) {
        for Admitted { peer, .. } in connections {
            assert!(world.is_routed(peer).await);
            assert_eq!(pushed(peer), [ServerFrame::Resync(Resync { reason: "missed_pushes".to_owned() })]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_gap_is_made_up_for_with_routes_syncs_and_closed_sockets() {
        let world = World::start().await;
        let sessions = sessions(2 * CONNECTIONS_AT_ONCE + 1);
        let ended: BTreeSet<_> = sessions.iter().copied().step_by(3).collect();
        // Users of an external identity provider have no session that could end. One of them is suspended.
        let connections = connect(&world, sessions.into_iter().map(Some).chain([None, None])).await;
        world.others.ended_sessions.lock().unwrap().clone_from(&ended);
        let suspended: UserId = connections.last().unwrap().peer.user_id;
        world.others.suspended_users.lock().unwrap().insert(suspended);
        let routes: Vec<_> = connections.iter().map(|connection| world.gateway.hub.route(&connection.peer)).collect();
        world.gateway.route_writer.unregister(&routes[..100], EXPIRY).await.unwrap();

        world.gateway.make_up_for_gap().await;
        assert_routed_and_told(&world, &connections).await;
        for Admitted { peer, .. } in &connections {
            let has_ended = peer.session_id.is_some_and(|session_id| ended.contains(&session_id));
            let has_ended = has_ended || peer.user_id == suspended;
            let expected = has_ended.then_some(CloseReason::SessionRevoked);
            assert_eq!(peer.mailbox.close_order(), expected, "{:?}", peer.session_id);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn clients_of_a_gateway_that_others_did_not_know_sync_when_they_do() {
        let world = World::start().await;
        let connections = connect(&world, [None, None]).await;
        world.gateway.handle_announced().await;
        assert_routed_and_told(&world, &connections).await;
        for silence in [HEARTBEAT_INTERVAL, EXPIRY] {
            tokio::time::advance(silence).await;
            world.gateway.handle_announced().await;
            assert!(connections.iter().all(|connection| pushed(&connection.peer).is_empty()), "{silence:?}");
        }
        world.hear(&connections);
        tokio::time::advance(EXPIRY + HEARTBEAT_INTERVAL).await;
        world.hear(&connections);
        world.gateway.handle_announced().await;
        let told = |connection: &Admitted| {
            pushed(&connection.peer).iter().any(|frame| matches!(frame, ServerFrame::Resync(_)))
        };
        assert!(connections.iter().all(told));
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_that_cannot_be_looked_up_after_a_gap_are_looked_up_until_that_works() {
        let world = World::start().await;
        let sessions = sessions(2);
        let connections = connect(&world, sessions.iter().copied().map(Some)).await;
        world.others.ended_sessions.lock().unwrap().insert(sessions[0]);
        world.others.is_unavailable.store(true, Ordering::SeqCst);
        let orders = || [0, 1].map(|n: usize| connections[n].peer.mailbox.close_order());

        world.gateway.make_up_for_gap().await;
        assert_routed_and_told(&world, &connections).await;
        tokio::time::sleep(10 * RECHECK_INTERVAL).await;
        assert_eq!(orders(), [None, None], "no connection is closed on suspicion");
        world.others.is_unavailable.store(false, Ordering::SeqCst);
        tokio::time::sleep(2 * RECHECK_INTERVAL).await;
        assert_eq!(orders(), [Some(CloseReason::SessionRevoked), None]);
    }

    #[tokio::test(start_paused = true)]
    async fn clients_resync_once_after_a_gap_even_if_routes_cannot_be_written() {
        let world = World::start().await;
        let connections = connect(&world, [None, None]).await;
        world.routes.leave();
        world.gateway.make_up_for_gap().await;
        world.routes.come_back();
        tokio::time::sleep(HEARTBEAT_INTERVAL).await;
        assert_routed_and_told(&world, &connections).await;
    }
}
