use bytes::Bytes;
use domain::SessionId;
use metrics::counter;
use ports::Delivery;
use protocol::frame::{Resync, ServerFrame};
use tracing::{info, warn};

use crate::Gateway;

/// Sessions looked up at a time.
const SESSIONS_AT_ONCE: usize = 100;

impl Gateway {
    /// Makes up for pushes and orders that may have been lost on their way to this process: routes are registered anew,
    /// every client is told to sync, and the sockets of sessions that have ended meanwhile are closed.
    pub async fn make_up_for_gap(&self) {
        let connections = self.hub.connections();
        info!(connections, "something sent to this gateway may have been lost; all clients sync");
        counter!("tidings_gateway_gaps_total").increment(1);
        // Routes first: what is not pushed to a client before its sync is in that sync.
        self.register_routes().await;
        self.hub.push_to_all(&resync());
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
