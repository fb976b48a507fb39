use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::any;
use domain::Quota;
use ports::{Clock, Displacement, Identity, Ids, Ingest, Presences, RateLimiter, RouteWriter, Routes, Signals};
use protocol::Timing;

use crate::{Hub, Origins};

#[derive(Clone, Debug)]
pub struct Config {
    /// Announced to clients; any inbound frame counts as a beat.
    pub heartbeat_interval: Duration,
    /// A connection silent for longer has its route no longer refreshed.
    pub unhealthy_after: Duration,
    /// How long routes outlive the last beat of their gateway.
    pub expiry: Duration,
    /// What ends a connection, and when.
    pub timing: Timing,
    pub limits: Limits,
    /// Whose pages may connect.
    pub origins: Origins,
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
    /// One with the reads over REST: a subscription is a read of as many.
    pub rest_read: Option<Quota>,
}

/// The connection plane in this process.
pub struct Gateway {
    pub config: Config,
    pub hub: Arc<Hub>,
    pub identity: Arc<dyn Identity>,
    pub ingest: Arc<dyn Ingest>,
    pub signals: Arc<dyn Signals>,
    pub limiter: Arc<dyn RateLimiter>,
    pub presences: Arc<dyn Presences>,
    pub routes: Arc<dyn Routes>,
    pub route_writer: Arc<dyn RouteWriter>,
    pub displacement: Arc<dyn Displacement>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
}

/// The routes of the connection plane: `GET /v1/ws`.
pub fn router(gateway: Arc<Gateway>) -> Router {
    Router::new().route("/v1/ws", any(crate::handshake::handle)).with_state(gateway)
}
