use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::any;
use domain::Quota;
use ports::{
    Clock, ConnectionDisplacer, Identity, Ids, Ingest, PresenceReader, RateLimiter, RouteWriter, Routes, SignalSender,
};
use protocol::{OutboxBounds, Timing};

use crate::{Hub, Origins};

#[derive(Clone, Debug)]
pub struct Config {
    /// Announced to clients; any inbound frame counts as a heartbeat.
    pub heartbeat_interval: Duration,
    /// A connection without frames for longer than this has its route no longer refreshed.
    pub unhealthy_after: Duration,
    /// How long routes outlive the last heartbeat of their gateway.
    pub expiry: Duration,
    /// Timeouts that end a connection.
    pub timing: Timing,
    pub limits: Limits,
    /// Bounds of the queue of pushes of each connection.
    pub outbox: OutboxBounds,
    /// Web page origins that may connect.
    pub origins: Origins,
}

/// Rate limits of a client; `None` means unlimited.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    pub connections_live: Option<usize>,
    pub connections_new: Option<Quota>,
    pub send_per_chat: Option<Quota>,
    pub send_per_user: Option<Quota>,
    pub message_kib: Option<Quota>,
    /// Kibibytes of messages of all users.
    pub message_kib_total: Option<Quota>,
    pub sync: Option<Quota>,
    pub typing: Option<Quota>,
    /// Over all chats.
    pub typing_per_user: Option<Quota>,
    /// Shared with reads over REST: a subscription counts as one read.
    pub rest_read: Option<Quota>,
    /// All frames of one connection. Without it the limits of single kinds per connection are off as well.
    pub frames_per_connection: Option<Quota>,
}

/// The connection plane in this process.
pub struct Gateway {
    pub config: Config,
    pub hub: Arc<Hub>,
    pub identity: Arc<dyn Identity>,
    pub ingest: Arc<dyn Ingest>,
    pub signals: Arc<dyn SignalSender>,
    pub limiter: Arc<dyn RateLimiter>,
    pub presences: Arc<dyn PresenceReader>,
    pub routes: Arc<dyn Routes>,
    pub route_writer: Arc<dyn RouteWriter>,
    pub displacement: Arc<dyn ConnectionDisplacer>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
}

/// The routes of the connection plane: `GET /v1/ws`.
pub fn router(gateway: Arc<Gateway>) -> Router {
    Router::new().route("/v1/ws", any(crate::handshake::handle)).with_state(gateway)
}
