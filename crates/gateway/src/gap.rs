use std::collections::HashSet;

use bytes::Bytes;
use domain::{ConnectionId, SessionId};
use metrics::counter;
use ports::Delivery;
use protocol::frame::{Resync, ServerFrame};
use tracing::{info, warn};

use crate::Gateway;

/// Sessions looked up at a time.
const SESSIONS_AT_ONCE: usize = 100;

impl Gateway {
    /// Registers all routes. A connection whose route was not known any more, because what keeps routes was wiped or did
    /// not take it, was passed by: its client is told to sync.
    pub(crate) async fn make_up_for_lost_routes(&self) {
        let lost: HashSet<ConnectionId> = self.register_routes().await.into_iter().collect();
        if !lost.is_empty() {
            info!(connections = lost.len(), "routes were lost; their clients sync");
            self.hub.push_to(&resync(), |connection_id| lost.contains(&connection_id));
        }
    }

    /// Makes up for pushes and orders that may have been lost on their way to this process: routes are registered anew,
    /// every client is told to sync, and the sockets of sessions that have ended meanwhile are closed.
    pub async fn make_up_for_gap(&self) {
        let connections = self.hub.connections();
        info!(connections, "something sent to this gateway may have been lost; all clients sync");
        counter!("tidings_gateway_gaps_total").increment(1);
        // Routes first: what is not pushed to a client before its sync is in that sync.
        self.register_routes().await;
        self.hub.push_to(&resync(), |_| true);
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

fn resync() -> Bytes {
    ServerFrame::Resync(Resync { reason: "missed_pushes".to_owned() }).encode(None)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::time::Duration;

    use async_trait::async_trait;
    use domain::{ChatId, DeviceId, Sequence, UserId, WatermarkKind, Watermarks};
    use futures_util::future::BoxFuture;
    use memory::{ManualClock, MemoryLimits, MemoryRoutes, SequentialIds};
    use ports::{
        GatewayId, Identity, IdentityError, Ids, Ingest, IngestError, Page, Principal, SendRequest, Sent, Signal,
        Signals, StoreError, SyncRequest,
    };
    use protocol::frame::Outbound;
    use protocol::{CloseReason, Timing};

    use super::*;
    use crate::hub::{Admitted, Hub};
    use crate::{Config, Limits};

    /// Knows which sessions have ended, or cannot be reached.
    struct Authority(Result<BTreeSet<SessionId>, &'static str>);

    #[async_trait]
    impl Identity for Authority {
        async fn identify(&self, _: &str, _: DeviceId) -> Result<Principal, IdentityError> {
            unreachable!("nobody signs in")
        }

        async fn redeem(&self, _: &str, _: DeviceId) -> Result<Principal, IdentityError> {
            unreachable!("nobody signs in")
        }

        async fn live(&self, session_ids: &[SessionId]) -> Result<Vec<bool>, StoreError> {
            assert!(session_ids.len() <= SESSIONS_AT_ONCE, "{} sessions at once", session_ids.len());
            let ended = self.0.as_ref().map_err(|reason| StoreError::unavailable(*reason))?;
            Ok(session_ids.iter().map(|session_id| !ended.contains(session_id)).collect())
        }
    }

    /// The other planes, of which a gap asks nothing.
    struct Unasked;

    #[async_trait]
    impl Ingest for Unasked {
        fn send(&self, _: SendRequest) -> BoxFuture<'static, Result<Sent, IngestError>> {
            unreachable!("nobody sends")
        }

        async fn sync(&self, _: SyncRequest) -> Result<Page, IngestError> {
            unreachable!("nobody syncs")
        }

        async fn advance(
            &self,
            _: UserId,
            _: ChatId,
            _: WatermarkKind,
            _: Sequence,
        ) -> Result<Watermarks, IngestError> {
            unreachable!("nobody reads")
        }
    }

    #[async_trait]
    impl Signals for Unasked {
        async fn signal(&self, _: Signal) -> Result<bool, StoreError> {
            unreachable!("nobody types")
        }
    }

    fn gateway(hub: Arc<Hub>, identity: Authority) -> Gateway {
        let clock = Arc::new(ManualClock::default());
        let config = Config {
            heartbeat_interval: Duration::from_secs(5),
            unhealthy_after: Duration::from_secs(3600),
            timing: Timing::default(),
            connections_max: 1000,
            limits: Limits::default(),
        };
        Gateway {
            config,
            displacement: hub.clone(),
            hub,
            identity: Arc::new(identity),
            ingest: Arc::new(Unasked),
            signals: Arc::new(Unasked),
            limiter: Arc::new(MemoryLimits::new(clock.clone())),
            routes: Arc::new(MemoryRoutes::new(clock.clone())),
            clock,
            ids: Arc::new(SequentialIds::default()),
        }
    }

    /// Connections of as many users, with these sessions.
    fn connect(hub: &Arc<Hub>, sessions: impl IntoIterator<Item = Option<SessionId>>) -> Vec<Admitted> {
        let ids = SequentialIds::default();
        let device_id: DeviceId = "67e55044-10b1-426f-9247-bb680e5fe0c8".parse().unwrap();
        let connect = |session_id| {
            let peer = hub.peer(ids.ulid().into(), ids.ulid().into(), device_id, session_id);
            hub.admit(peer, None, usize::MAX, 0).expect("there is room")
        };
        sessions.into_iter().map(connect).collect()
    }

    fn sessions(count: usize) -> Vec<SessionId> {
        let ids = SequentialIds::default();
        (0..count).map(|_| ids.ulid().into()).collect()
    }

    /// Asserts that the route of every connection is known, and that each is told once to sync.
    async fn assert_routed_and_told(gateway: &Gateway, connections: &[Admitted]) {
        let resync = ServerFrame::Resync(Resync { reason: "missed_pushes".to_owned() });
        for Admitted { peer, .. } in connections {
            let routes = gateway.routes.routes(peer.user_id).await.unwrap();
            assert_eq!(routes, [gateway.hub.route(peer)]);
            let pushed = peer.mailbox.pop().expect("something was pushed");
            let told = Outbound::parse(str::from_utf8(&pushed).unwrap()).unwrap();
            assert_eq!(told, Outbound { request_id: None, frame: resync.clone() });
            assert_eq!(peer.mailbox.pop(), None);
        }
    }

    #[tokio::test]
    async fn a_gap_is_made_up_for_with_routes_syncs_and_closed_sockets() {
        let hub = Arc::new(Hub::new(GatewayId("a".into())));
        let sessions = sessions(2 * SESSIONS_AT_ONCE + 1);
        let ended: BTreeSet<_> = sessions.iter().copied().step_by(3).collect();
        // A user of another system has no session that could end.
        let connections = connect(&hub, sessions.into_iter().map(Some).chain([None]));
        let gateway = gateway(hub, Authority(Ok(ended.clone())));

        gateway.make_up_for_gap().await;
        assert_routed_and_told(&gateway, &connections).await;
        for Admitted { peer, .. } in &connections {
            let has_ended = peer.session_id.is_some_and(|session_id| ended.contains(&session_id));
            let expected = has_ended.then_some(CloseReason::SessionRevoked);
            assert_eq!(peer.mailbox.close_order(), expected, "{:?}", peer.session_id);
        }
    }

    #[tokio::test]
    async fn a_client_whose_route_was_lost_is_told_to_sync_and_no_other() {
        let hub = Arc::new(Hub::new(GatewayId("a".into())));
        let connections = connect(&hub, sessions(3).into_iter().map(Some));
        let gateway = gateway(hub.clone(), Authority(Ok(BTreeSet::new())));
        gateway.register_routes().await;
        gateway.routes.unregister(&hub.route(&connections[1].peer)).await.unwrap();

        gateway.make_up_for_lost_routes().await;
        let told = connections.iter().map(|connection| connection.peer.mailbox.pop());
        assert_eq!(told.collect::<Vec<_>>(), [None, Some(resync()), None]);
        gateway.make_up_for_lost_routes().await;
        assert_eq!(connections[1].peer.mailbox.pop(), None);
    }

    #[tokio::test]
    async fn a_gap_closes_no_socket_whose_session_cannot_be_looked_up() {
        let hub = Arc::new(Hub::new(GatewayId("a".into())));
        let connections = connect(&hub, sessions(2).into_iter().map(Some));
        let gateway = gateway(hub, Authority(Err("away")));

        gateway.make_up_for_gap().await;
        assert_routed_and_told(&gateway, &connections).await;
        for Admitted { peer, .. } in &connections {
            assert_eq!(peer.mailbox.close_order(), None);
        }
    }
}
