use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use domain::{ConnectionId, DeviceId, SessionId, Timestamp, UserId};
use ports::{Assertion, ConnectionHolder, RefreshedRoute};

use crate::mailbox::Mailbox;
use crate::signal_order::SignalOrder;
use crate::subscriptions::SubscribedUsers;

/// Value of `written_in` before the handshake has registered the route.
const NOT_YET: u64 = u64::MAX;
/// Value of `written_in` for a route that must be written immediately.
const DUE_NOW: u64 = 0;

/// State of one connection that other tasks share.
pub(crate) struct ConnectionPeer {
    pub(crate) connection_id: ConnectionId,
    pub(crate) user_id: UserId,
    pub(crate) device_id: DeviceId,
    pub(crate) session_id: Option<SessionId>,
    pub(crate) connected_at: Timestamp,
    /// The latest proof of the user's authentication, for other processes; none on one machine.
    pub(crate) assertion: Option<Mutex<Assertion>>,
    pub(crate) mailbox: Mailbox,
    pub(crate) subscribed_users: SubscribedUsers,
    pub(crate) signal_order: SignalOrder,
    /// Bytes written since the last `take_written`.
    written: AtomicUsize,
    /// Milliseconds from the hub's start to the last frame of the client.
    pub(crate) last_heard_ms: AtomicU64,
    /// The heartbeat in which its route was last written.
    written_in: AtomicU64,
    /// Whether the route may be stored, including writes with an unknown outcome.
    may_be_routed: AtomicBool,
    /// Whether the connection may have missed pushes and its client has not received a resync yet.
    needs_resync: AtomicBool,
    /// The user's connections over all gateways at the last write of the route.
    connections_of_user: AtomicUsize,
}

impl ConnectionPeer {
    pub(crate) fn new(
        connection_id: ConnectionId,
        user_id: UserId,
        device_id: DeviceId,
        session_id: Option<SessionId>,
        connected_at: Timestamp,
        assertion: Option<Assertion>,
    ) -> Self {
        Self {
            connection_id,
            user_id,
            device_id,
            session_id,
            connected_at,
            assertion: assertion.map(Mutex::new),
            mailbox: Mailbox::default(),
            subscribed_users: SubscribedUsers::default(),
            signal_order: SignalOrder::default(),
            written: AtomicUsize::new(0),
            last_heard_ms: AtomicU64::new(0),
            written_in: AtomicU64::new(NOT_YET),
            may_be_routed: AtomicBool::new(false),
            needs_resync: AtomicBool::new(false),
            connections_of_user: AtomicUsize::new(1),
        }
    }

    /// The same connection with another mailbox, before the hub knows it.
    #[must_use]
    pub(crate) fn with_mailbox(self, mailbox: Mailbox) -> Self {
        Self { mailbox, ..self }
    }

    /// The facts by which the connection is checked again.
    pub(crate) fn holder(&self) -> ConnectionHolder {
        let Self { user_id, session_id, connected_at, .. } = self;
        ConnectionHolder { user_id: *user_id, session_id: *session_id, connected_at: *connected_at }
    }

    /// Counts bytes written to the socket.
    pub(crate) fn handle_written(&self, bytes: usize) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes written since the last call.
    pub(crate) fn take_written(&self) -> usize {
        self.written.swap(0, Ordering::Relaxed)
    }

    /// Records that the handshake starts to write the route.
    pub(crate) fn handle_registering(&self) {
        self.may_be_routed.store(true, Ordering::SeqCst);
    }

    /// Records the heartbeat in which the handshake wrote the route, or `None` on failure. Heartbeats refresh it from now on.
    pub(crate) fn handle_registered(&self, heartbeat: Option<u64>) {
        self.written_in.store(heartbeat.unwrap_or(DUE_NOW), Ordering::SeqCst);
    }

    /// Records a refresh of the route. Returns `true` if pushes were missed and the client needs a resync.
    pub(crate) fn handle_refreshed(&self, heartbeat: u64, refreshed: RefreshedRoute) -> bool {
        self.written_in.store(heartbeat, Ordering::SeqCst);
        self.connections_of_user.store(refreshed.connections, Ordering::Relaxed);
        self.take_needs_resync() || !refreshed.was_known
    }

    /// Marks the route for immediate writing, unless the handshake is still writing it or it was written since `heartbeat`.
    pub(crate) fn mark_route_due(&self, heartbeat: u64) {
        if self.written_in() < heartbeat {
            self.written_in.store(DUE_NOW, Ordering::SeqCst);
        }
    }

    /// Records that pushes may have been missed. Ignored during the handshake: the client syncs once it is connected.
    pub(crate) fn mark_needs_resync(&self) {
        if self.is_kept() {
            self.needs_resync.store(true, Ordering::SeqCst);
        }
    }

    /// Whether the client needs a resync because of missed pushes. Clears the flag.
    pub(crate) fn take_needs_resync(&self) -> bool {
        self.needs_resync.swap(false, Ordering::SeqCst)
    }

    /// The heartbeat in which the route was last written. Routes marked for immediate writing sort first.
    pub(crate) fn written_in(&self) -> u64 {
        self.written_in.load(Ordering::SeqCst)
    }

    pub(crate) fn is_route_due(&self) -> bool {
        self.written_in() == DUE_NOW
    }

    /// Whether the handshake has finished registering the route.
    pub(crate) fn is_kept(&self) -> bool {
        self.written_in() != NOT_YET
    }

    pub(crate) fn may_be_routed(&self) -> bool {
        self.may_be_routed.load(Ordering::SeqCst)
    }

    pub(crate) fn connections_of_user(&self) -> usize {
        self.connections_of_user.load(Ordering::Relaxed)
    }
}
