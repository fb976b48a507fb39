use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use domain::{ChatId, ConnectionId, DeviceId, SessionId, Timestamp, TraceContext, UserId, Watermarks};

use crate::StoreError;

/// One gateway process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GatewayId(pub Arc<str>);

/// Where a connection is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The connection.
    pub connection_id: ConnectionId,
    /// Its user.
    pub user_id: UserId,
    /// Its device.
    pub device_id: DeviceId,
    /// The gateway that holds its socket.
    pub gateway: GatewayId,
    /// Since when.
    pub connected_at: Timestamp,
}

/// Knows which gateways hold connections of which users.
///
/// A route is live while its gateway beats: for 15 s (`gateway.expiry_ms`) from each [`RouteWriter::beat`]. Others are in
/// no answer. The whole of it may be lost at any moment, and is rebuilt by the gateways.
#[async_trait]
pub trait Routes: Send + Sync {
    /// The live routes of a user.
    async fn routes(&self, user_id: UserId) -> Result<Vec<Route>, StoreError>;

    /// The users with a live route on each gateway, of those asked for, in one round.
    async fn gateways(&self, user_ids: &[UserId]) -> Result<BTreeMap<GatewayId, Vec<UserId>>, StoreError>;

    /// The gateways that beat, by name.
    async fn live_gateways(&self) -> Result<Vec<GatewayId>, StoreError>;

    /// Up to `limit` routes of a gateway, live or not: for administration.
    async fn on_gateway(&self, gateway: &GatewayId, limit: usize) -> Result<Vec<Route>, StoreError>;
}

/// Keeps the routes of gateways, each of which writes its own.
///
/// One beat holds up all routes of its gateway, so that a beat costs the same for one connection and for a hundred
/// thousand. A route itself is kept for 300 s after it was last written; so a gateway that forgets to unregister one
/// leaves nothing behind for ever, and refreshes each now and then.
///
/// Users come and go by this: the first route of a user makes them online, and when none is left they are offline. What
/// comes of it is in [`Transitions`](crate::Transitions).
#[async_trait]
pub trait RouteWriter: Send + Sync {
    /// Says that a gateway is there. `false` if it was not known any more, at first or because it was silent for too long
    /// or everything was lost: its routes may be gone, and all of them are to be refreshed.
    async fn beat(&self, gateway: &GatewayId) -> Result<bool, StoreError>;

    /// Makes the route of a new connection known.
    async fn register(&self, route: &Route) -> Result<(), StoreError>;

    /// Writes routes of open connections once more, and says in their order how it stood with each. One that was lost is
    /// there again; its user is not announced for it, unless they were announced to be gone.
    async fn refresh(&self, routes: &[Route]) -> Result<Vec<Refreshed>, StoreError>;

    /// Forgets routes of connections that have ended, whether they are known or not. A user who has none left is gone from
    /// now on, and announced to be so if they have not come back after `back_within`.
    async fn unregister(&self, routes: &[Route], back_within: Duration) -> Result<(), StoreError>;
}

/// How it stood with a route when it was refreshed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refreshed {
    /// Whether it was there. If not, pushes have passed its connection by.
    pub was_known: bool,
    /// How many connections its user has, over all gateways.
    pub connections: usize,
}

/// One frame for all connections of some users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    /// Whose connections get it.
    pub recipients: Vec<UserId>,
    /// The one connection that does not.
    pub except: Option<ConnectionId>,
    /// The frame as JSON text, encoded once and shared by all recipients.
    pub frame: Bytes,
    /// The trace it is part of, if that is followed.
    pub trace: Option<TraceContext>,
}

/// Brings pushes to gateways. Best effort (G6): what is lost on the way is found by sync.
#[async_trait]
pub trait Delivery: Send + Sync {
    /// Hands pushes to one gateway, in order.
    async fn deliver(&self, gateway: &GatewayId, pushes: &[Push]) -> Result<(), StoreError>;

    /// Has every gateway close the connections of a revoked session.
    async fn revoke(&self, session_id: SessionId) -> Result<(), StoreError>;
}

/// Ends connections that another one has taken the place of. Best effort: who is not told ends when its client is silent.
#[async_trait]
pub trait Displacement: Send + Sync {
    /// Has a gateway close a connection of a user, because the same device has a newer one.
    async fn displace(
        &self,
        gateway: &GatewayId,
        user_id: UserId,
        connection_id: ConnectionId,
    ) -> Result<(), StoreError>;
}

/// Remembers the members of chats for fanout. It is filled from the store only, and may forget at any moment.
///
/// A cache that several processes share does not take a list that may be older than an invalidation: one process reads
/// the store, another hears that the members have changed and invalidates, then the first fills in what it read. So for
/// 10 s after an invalidation, longer than any read of the store may take, it ignores what is filled in and remembers
/// nothing.
#[async_trait]
pub trait MemberCache: Send + Sync {
    /// The members of a chat, if they are remembered.
    async fn members(&self, chat_id: ChatId) -> Result<Option<Arc<[UserId]>>, StoreError>;

    /// Remembers the members of a chat as the store has them.
    async fn fill(&self, chat_id: ChatId, members: Arc<[UserId]>) -> Result<(), StoreError>;

    /// Forgets a chat whose members have changed.
    async fn invalidate(&self, chat_id: ChatId) -> Result<(), StoreError>;
}

/// Something that happens in a chat and is no event of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A member is typing, or has stopped. The other members are told at once.
    Typing {
        /// Where.
        chat_id: ChatId,
        /// Who.
        user_id: UserId,
        /// Whether the typing goes on.
        is_typing: bool,
    },
    /// A member's watermarks have moved. All members are told, the member's own devices too, unless they are more than
    /// `domain::limits::RECEIPT_MEMBERS_MAX`. Of several moves in a short time they are told the last.
    Receipt {
        /// Where.
        chat_id: ChatId,
        /// Whose.
        user_id: UserId,
        /// Where they stand now.
        watermarks: Watermarks,
    },
}

/// Passes signals to the online members of a chat. Best effort, never stored.
#[async_trait]
pub trait Signals: Send + Sync {
    /// Passes a signal on, or has it passed on soon; `false` if its user is known not to be a member of the chat.
    async fn signal(&self, signal: Signal) -> Result<bool, StoreError>;
}
