use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::any;
use domain::{ConnectionId, Quota};
use ports::{Clock, Displacement, Identity, Ids, Ingest, RateLimiter, Routes, Signals};
use protocol::Timing;
use tracing::warn;

use crate::Hub;

#[derive(Clone, Debug)]
pub struct Config {
    /// Announced to clients; any inbound frame counts as a beat.
    pub heartbeat_interval: Duration,
    /// A connection silent for longer has its route no longer refreshed.
    pub unhealthy_after: Duration,
    /// What ends a connection, and when.
    pub timing: Timing,
    /// Connections this process holds, at the most.
    pub connections_max: usize,
    pub limits: Limits,
}

/// How often a client may do what; `None` is as often as it likes.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    pub connections_live: Option<usize>,
    pub connections_new: Option<Quota>,
    pub send_per_chat: Option<Quota>,
    pub send_per_user: Option<Quota>,
    pub sync: Option<Quota>,
    pub typing: Option<Quota>,
}

/// The connection plane in this process.
pub struct Gateway {
    pub config: Config,
    pub hub: Arc<Hub>,
    pub identity: Arc<dyn Identity>,
    pub ingest: Arc<dyn Ingest>,
    pub signals: Arc<dyn Signals>,
    pub limiter: Arc<dyn RateLimiter>,
    pub routes: Arc<dyn Routes>,
    pub displacement: Arc<dyn Displacement>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
}

/// The routes of the connection plane: `GET /v1/ws`.
pub fn router(gateway: Arc<Gateway>) -> Router {
    Router::new().route("/v1/ws", any(crate::handshake::handle)).with_state(gateway)
}

impl Gateway {
    /// Keeps the routes of live connections alive, for ever. One batch for all of them at every beat, however many beats
    /// their clients send.
    pub async fn refresh_routes(&self) {
        let mut beat = tokio::time::interval(self.config.heartbeat_interval);
        loop {
            beat.tick().await;
            self.make_up_for_lost_routes().await;
        }
    }

    /// Registers all routes, and says which were not known.
    pub(crate) async fn register_routes(&self) -> Vec<ConnectionId> {
        let routes = self.hub.fresh_routes(self.config.unhealthy_after);
        self.routes.register(&routes).await.unwrap_or_else(|failure| {
            warn!(error = &failure as &dyn std::error::Error, "routes were not refreshed; the next beat tries again");
            vec![]
        })
    }
}
