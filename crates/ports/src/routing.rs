use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use domain::{ChatId, ConnectionId, DeviceId, SessionId, Timestamp, TraceContext, UserId, Watermarks};

use crate::StoreError;

/// The id of a gateway process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GatewayId(pub Arc<str>);

/// The location of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The connection.
    pub connection_id: ConnectionId,
    /// Its user.
    pub user_id: UserId,
    /// Its device.
    pub device_id: DeviceId,
    /// The gateway with the socket of the connection.
    pub gateway: GatewayId,
    /// The time at which the connection was opened.
    pub connected_at: Timestamp,
}

/// Looks up the gateways with connections of a user.
///
/// A route is live for 15 s (`gateway.expiry_ms`) from each heartbeat of its gateway ([`RouteWriter::heartbeat`]). Reads
/// omit other routes, except [`on_gateway`](Self::on_gateway). All routes may be lost at any moment; the gateways
/// rebuild them.
#[async_trait]
pub trait Routes: Send + Sync {
    /// The live routes of a user.
    async fn routes(&self, user_id: UserId) -> Result<Vec<Route>, StoreError>;

    /// For each gateway, the users among the arguments who have a live route on it, in one round trip.
    async fn gateways(&self, user_ids: &[UserId]) -> Result<BTreeMap<GatewayId, Vec<UserId>>, StoreError>;

    /// The gateways with a live heartbeat, by name.
    async fn live_gateways(&self) -> Result<Vec<GatewayId>, StoreError>;

    /// Up to `limit` routes of a gateway, live or not, for administration.
    async fn on_gateway(&self, gateway: &GatewayId, limit: usize) -> Result<Vec<Route>, StoreError>;
}

/// Keeps the routes of gateways; each gateway writes its own routes.
///
/// One heartbeat keeps all routes of its gateway live, so it costs the same for one connection and for a hundred
/// thousand. A route itself expires 300 s after it was last written. A route that is never unregistered is therefore
/// not kept permanently, and gateways refresh each open one periodically.
///
/// Routes determine presence. A user is online from their first route on, and offline when the last one is removed.
/// [`PresenceTransitions`](crate::PresenceTransitions) announces these changes.
#[async_trait]
pub trait RouteWriter: Send + Sync {
    /// Sends the heartbeat of a gateway. Returns `false` if the gateway was unknown: at its first heartbeat, after its
    /// heartbeat had expired, or after a loss of all routes. Its routes may be gone then, and it must refresh all of
    /// them.
    async fn heartbeat(&self, gateway: &GatewayId) -> Result<bool, StoreError>;

    /// Registers the route of a new connection.
    async fn register(&self, route: &Route) -> Result<(), StoreError>;

    /// Writes the routes of open connections again, and returns their earlier state in the order of the arguments. A
    /// lost route is restored. Its user is not announced as online, unless they were announced as offline.
    async fn refresh(&self, routes: &[Route]) -> Result<Vec<RefreshedRoute>, StoreError>;

    /// Removes the routes of closed connections, whether they exist or not. A user without any other route is offline
    /// from now on, and is announced as offline if they do not reconnect within `back_within`.
    async fn unregister(&self, routes: &[Route], back_within: Duration) -> Result<(), StoreError>;
}

/// The state of a route before it was refreshed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshedRoute {
    /// Whether the route existed. If not, its connection has missed pushes.
    pub was_known: bool,
    /// The number of connections of its user, over all gateways.
    pub connections: usize,
}

/// A frame for all connections of some users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    /// The users to push the frame to.
    pub recipients: Vec<UserId>,
    /// A connection that does not receive the frame.
    pub except: Option<ConnectionId>,
    /// The frame as JSON text, encoded once and shared by all recipients.
    pub frame: Bytes,
    /// The trace context of the push, if tracing is on.
    pub trace: Option<TraceContext>,
}

/// The connections that a revocation closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Revocation {
    /// The connections of a session that has ended.
    Session(SessionId),
    /// All connections of a user who is suspended, deleted or signed out everywhere.
    User(UserId),
    /// All connections of a user of whom a token is denied. Clients with another token reconnect.
    Token(UserId),
}

/// Delivers pushes to gateways. Best effort (G6): clients recover lost pushes by sync.
#[async_trait]
pub trait Delivery: Send + Sync {
    /// Sends pushes to one gateway, in order.
    async fn deliver(&self, gateway: &GatewayId, pushes: &[Push]) -> Result<(), StoreError>;

    /// Asks every gateway to close connections. An error means that a gateway has not acknowledged the call. In a fleet
    /// the call is then repeated until it does, or until it re-checks all its connections.
    async fn revoke(&self, revocation: Revocation) -> Result<(), StoreError>;
}

/// Closes connections that a newer one replaces. Best effort: if the request is lost, the gateway closes the connection
/// when its client stops responding.
#[async_trait]
pub trait ConnectionDisplacer: Send + Sync {
    /// Asks a gateway to close a connection of a user, because the same device has a newer one.
    async fn displace(
        &self,
        gateway: &GatewayId,
        user_id: UserId,
        connection_id: ConnectionId,
    ) -> Result<(), StoreError>;
}

/// Caches the members of chats for fanout. The cache is filled from the store only, and may lose entries at any moment.
///
/// A shared cache must not accept a list that is older than an invalidation. This can happen if one process reads the
/// store, a second process learns of a membership change and invalidates the entry, and then the first process fills in
/// its old list. Therefore the cache ignores fills of a chat for 10 s after its invalidation, longer than any read of
/// the store takes.
#[async_trait]
pub trait MemberCache: Send + Sync {
    /// The cached members of a chat, if any.
    async fn members(&self, chat_id: ChatId) -> Result<Option<Arc<[UserId]>>, StoreError>;

    /// Caches the members of a chat as read from the store.
    async fn fill(&self, chat_id: ChatId, members: Arc<[UserId]>) -> Result<(), StoreError>;

    /// Drops the entry of a chat after a membership change.
    async fn invalidate(&self, chat_id: ChatId) -> Result<(), StoreError>;
}

/// The recipients of the events of a chat, with their live routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipients {
    /// The members of the chat.
    pub members: Arc<[UserId]>,
    /// For each gateway, the members with a live route on it, in the order of `members`.
    pub gateways: BTreeMap<GatewayId, Vec<UserId>>,
    /// The live connections of each named user with any.
    pub connections: BTreeMap<UserId, Vec<RecipientConnection>>,
}

/// A live connection of a named user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipientConnection {
    /// The gateway with the socket of the connection.
    pub gateway: GatewayId,
    /// The connection. `None` if routes are unknown: the user may have any connections on the gateway.
    pub connection_id: Option<ConnectionId>,
}

/// Looks up the recipients of events: the [`MemberCache`] and [`Routes`] in one call.
///
/// A lookup returns the answers that `MemberCache::members` and `Routes` would give during the call. In particular, an
/// adapter never returns members that the shared cache does not have at that moment. An adapter with remote state
/// may keep members in the process to know which routes to read along with the shared entry. It compares the two
/// and reads the routes again if they differ. So an invalidation by any process takes effect with the next lookup of
/// all processes, and a chat may move to the consumer of another process at any time.
///
/// Members and routes are not one snapshot. A user whose connection is registered after the routes were read syncs
/// after the registration, and so receives every event that was committed before.
///
/// `named` are users whose single connections matter: senders, and removed members. They need not be members.
#[async_trait]
pub trait RecipientLookup: Send + Sync {
    /// The recipients of a chat in the member cache; `None` if the chat is not cached. Usually one round trip.
    async fn cached(&self, chat_id: ChatId, named: &[UserId]) -> Result<Option<Recipients>, StoreError>;

    /// The recipients of a chat with members that were read from the store, in one round trip.
    async fn of(&self, members: Arc<[UserId]>, named: &[UserId]) -> Result<Recipients, StoreError>;
}

/// A transient event of a chat, which is not written to the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A member started or stopped typing. The other members are notified at once.
    Typing {
        /// The chat.
        chat_id: ChatId,
        /// The member.
        user_id: UserId,
        /// Whether the member is typing now.
        is_typing: bool,
    },
    /// A member's watermarks have advanced. All members are notified, including the member's own devices, unless the
    /// chat has more than `domain::limits::RECEIPT_MEMBERS_MAX` members. Frequent changes are coalesced to the latest.
    Receipt {
        /// The chat.
        chat_id: ChatId,
        /// The member.
        user_id: UserId,
        /// The watermarks after the change.
        watermarks: Watermarks,
    },
}

/// Passes signals to the online members of a chat. Best effort; signals are never stored.
#[async_trait]
pub trait SignalSender: Send + Sync {
    /// Sends a signal, now or after a short delay; `false` if its user is known not to be a member of the chat.
    async fn signal(&self, signal: Signal) -> Result<bool, StoreError>;
}
