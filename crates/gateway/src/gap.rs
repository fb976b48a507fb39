use domain::SessionId;
use metrics::counter;
use ports::Delivery;
use protocol::frame::Resync;
use tracing::{info, warn};

use crate::Gateway;
use crate::socket::TextFrame;

/// Sessions looked up at a time.
const SESSIONS_AT_ONCE: usize = 100;

impl Gateway {
    /// Makes up for pushes and orders that may have been lost on their way to this process: routes are written anew, every
    /// client is told to sync and shown whom it watches, and the sockets of sessions that have ended meanwhile are closed.
    /// [`keep_routes`](Self::keep_routes) has to run too.
    pub async fn make_up_for_gap(&self) {
        let connections = self.hub.connections();
        info!(connections, "something sent to this gateway may have been lost; all clients sync");
        counter!("tidings_gateway_gaps_total").increment(1);
        // Routes first: what is not pushed to a client before its sync is in that sync.
        self.hub.orders.give().await;
        self.hub.for_each(|peer| {
            if peer.take_passed_by() {
                peer.mailbox.push(TextFrame::new(Resync::missed_pushes()));
            }
        });
        self.hub.watches.doubt_all();
        let sessions: Vec<SessionId> = self.hub.sessions().into_iter().collect();
        for chunk in sessions.chunks(SESSIONS_AT_ONCE) {
            match self.identity.live(chunk).await {
                Ok(live) => {
                    for (session_id, _) in chunk.iter().zip(live).filter(|(_, is_live)| !is_live) {
                        // The hub is in this process and cannot fail.
                        drop(self.hub.revoke(*session_id).await);
                    }
                }
                Err(failure) => {
                    let error: &dyn std::error::Error = &failure;
                    warn!(error, "sessions could not be looked up; sockets of ended ones close with their tokens");
                    return;
                }
            }
        }
    }
}

impl Gateway {
    /// Takes note that the others have just been told of this gateway. If they did not know it, or may have forgotten it, those who
    /// push directly to the gateways they know have passed it by (C8), and its clients sync.
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

    use memory::SequentialIds;
    use ports::Ids;
    use protocol::CloseReason;
    use protocol::frame::ServerFrame;

    use super::*;
    use crate::hub::Admitted;
    use crate::world::{BEAT, EXPIRY, World, pushed};

    /// Connections of as many users, with these sessions.
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

    /// Asserts that the route of every connection is known, and that each is told once to sync.
    async fn assert_routed_and_told(world: &World, connections: &[Admitted]) {
        for Admitted { peer, .. } in connections {
            assert!(world.is_routed(peer).await);
            assert_eq!(pushed(peer), [ServerFrame::Resync(Resync { reason: "missed_pushes".to_owned() })]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_gap_is_made_up_for_with_routes_syncs_and_closed_sockets() {
        let world = World::start().await;
        let sessions = sessions(2 * SESSIONS_AT_ONCE + 1);
        let ended: BTreeSet<_> = sessions.iter().copied().step_by(3).collect();
        // A user of another system has no session that could end.
        let connections = connect(&world, sessions.into_iter().map(Some).chain([None])).await;
        world.others.ended_sessions.lock().unwrap().clone_from(&ended);
        let routes: Vec<_> = connections.iter().map(|connection| world.gateway.hub.route(&connection.peer)).collect();
        world.gateway.route_writer.unregister(&routes[..100], EXPIRY).await.unwrap();

        world.gateway.make_up_for_gap().await;
        assert_routed_and_told(&world, &connections).await;
        for Admitted { peer, .. } in &connections {
            let has_ended = peer.session_id.is_some_and(|session_id| ended.contains(&session_id));
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
        for silence in [BEAT, EXPIRY] {
            tokio::time::advance(silence).await;
            world.gateway.handle_announced().await;
            assert!(connections.iter().all(|connection| pushed(&connection.peer).is_empty()), "{silence:?}");
        }
        world.hear(&connections);
        tokio::time::advance(EXPIRY + BEAT).await;
        world.hear(&connections);
        world.gateway.handle_announced().await;
        let told = |connection: &Admitted| {
            pushed(&connection.peer).iter().any(|frame| matches!(frame, ServerFrame::Resync(_)))
        };
        assert!(connections.iter().all(told));
    }

    #[tokio::test(start_paused = true)]
    async fn a_gap_closes_no_socket_whose_session_cannot_be_looked_up() {
        let world = World::start().await;
        let connections = connect(&world, sessions(2).into_iter().map(Some)).await;
        world.others.is_away.store(true, Ordering::SeqCst);

        world.gateway.make_up_for_gap().await;
        assert_routed_and_told(&world, &connections).await;
        for Admitted { peer, .. } in &connections {
            assert_eq!(peer.mailbox.close_order(), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn clients_sync_after_a_gap_though_routes_cannot_be_written_and_are_not_told_again_when_they_are() {
        let world = World::start().await;
        let connections = connect(&world, [None, None]).await;
        world.routes.leave();
        world.gateway.make_up_for_gap().await;
        world.routes.come_back();
        tokio::time::sleep(BEAT).await;
        assert_routed_and_told(&world, &connections).await;
    }
}
