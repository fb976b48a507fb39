use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use domain::{ConnectionId, DeviceId, SessionId, Timestamp, UserId};
use ports::Refreshed;

use crate::mailbox::Mailbox;
use crate::watches::Watched;

/// What stands for a beat while the handshake has not written the route yet.
const NOT_YET: u64 = u64::MAX;
/// What stands for a beat when the route is to be written at once.
const OWED: u64 = 0;

/// One connection, as others see it.
pub(crate) struct Peer {
    pub(crate) connection_id: ConnectionId,
    pub(crate) user_id: UserId,
    pub(crate) device_id: DeviceId,
    pub(crate) session_id: Option<SessionId>,
    pub(crate) connected_at: Timestamp,
    pub(crate) mailbox: Mailbox,
    pub(crate) watched: Watched,
    /// Bytes that were written to it since somebody looked.
    written: AtomicUsize,
    /// Milliseconds from the hub's start to the last frame of the client.
    pub(crate) last_heard_ms: AtomicU64,
    /// The beat in which its route was last written.
    written_in: AtomicU64,
    /// Whether its route may be known, also if nobody has said so.
    may_be_routed: AtomicBool,
    /// Whether pushes may have passed it by, and its client was not told yet.
    is_passed_by: AtomicBool,
    /// Connections of its user over all gateways, as they were when its route was last written.
    connections_of_user: AtomicUsize,
}

impl Peer {
    pub(crate) fn new(
        connection_id: ConnectionId,
        user_id: UserId,
        device_id: DeviceId,
        session_id: Option<SessionId>,
        connected_at: Timestamp,
    ) -> Self {
        Self {
            connection_id,
            user_id,
            device_id,
            session_id,
            connected_at,
            mailbox: Mailbox::default(),
            watched: Watched::default(),
            written: AtomicUsize::new(0),
            last_heard_ms: AtomicU64::new(0),
            written_in: AtomicU64::new(NOT_YET),
            may_be_routed: AtomicBool::new(false),
            is_passed_by: AtomicBool::new(false),
            connections_of_user: AtomicUsize::new(1),
        }
    }

    /// Takes note that it is written so many bytes.
    pub(crate) fn handle_written(&self, bytes: usize) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The bytes that were written to it since this was last asked.
    pub(crate) fn take_written(&self) -> usize {
        self.written.swap(0, Ordering::Relaxed)
    }

    /// Takes note that the handshake is about to write its route.
    pub(crate) fn handle_registering(&self) {
        self.may_be_routed.store(true, Ordering::SeqCst);
    }

    /// Takes note that the handshake has written its route in a beat, or could not. From now on it is kept like others.
    pub(crate) fn handle_registered(&self, beat: Option<u64>) {
        self.written_in.store(beat.unwrap_or(OWED), Ordering::SeqCst);
    }

    /// Takes note that its route was written once more; `true` if pushes have passed it by and its client is to be told.
    pub(crate) fn handle_refreshed(&self, beat: u64, refreshed: Refreshed) -> bool {
        self.written_in.store(beat, Ordering::SeqCst);
        self.connections_of_user.store(refreshed.connections, Ordering::Relaxed);
        self.take_passed_by() || !refreshed.was_known
    }

    /// Has its route written at once, unless the handshake still has to, or it was written since `beat` began.
    pub(crate) fn owe_route(&self, beat: u64) {
        if self.written_in() < beat {
            self.written_in.store(OWED, Ordering::SeqCst);
        }
    }

    /// Takes note that pushes may have passed it by. During its handshake none can: its client syncs when it is connected.
    pub(crate) fn pass_by(&self) {
        if self.is_kept() {
            self.is_passed_by.store(true, Ordering::SeqCst);
        }
    }

    /// Whether its client is to be told that pushes have passed it by; once.
    pub(crate) fn take_passed_by(&self) -> bool {
        self.is_passed_by.swap(false, Ordering::SeqCst)
    }

    /// The beat in which its route was last written. Those that are owed come before all others.
    pub(crate) fn written_in(&self) -> u64 {
        self.written_in.load(Ordering::SeqCst)
    }

    pub(crate) fn owes_route(&self) -> bool {
        self.written_in() == OWED
    }

    /// Whether the handshake is done with its route.
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
