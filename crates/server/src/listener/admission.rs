//! Admission control of a listener: how much of it one client and all clients may use.
//!
//! One table counts connections, bytes of requests in progress, and unauthenticated requests, each for every client
//! network and the first two in total. A client network is an IPv4 address or an IPv6 /64 prefix. A connection of a trusted
//! proxy counts in the total only, because it carries requests of many clients; those count by their forwarded address.
//!
//! A connection without a request in progress is idle, and can be shed. The longest idle one is shed when the total comes
//! close to its bound, or when a network at its bound opens another connection. So idle connections never keep a client
//! out.
//!
//! The table is locked when a connection opens, becomes idle or busy, and closes. A WebSocket has left it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::{Quota, Timestamp, network};
use http::HeaderMap;
use metrics::{counter, gauge};
use ports::lock;
use tokio::time::Instant;
use tracing::warn;

use super::connection::ListenerConnection;
use crate::forwarded::TrustedProxies;

/// One network may reserve one part in this many of the request bytes.
const NETWORK_SHARE: usize = 4;
/// One part in this many of the connections is kept free by shedding idle ones.
const RESERVE_SHARE: usize = 64;
/// Networks in the table beyond which those without a connection or a request are forgotten.
const NETWORKS_MAX: usize = 1 << 16;
/// Interval at which gauges are updated.
const MEASURE_INTERVAL: Duration = Duration::from_secs(2);
/// Shortest time between two log lines about refusals.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The bounds of a listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListenerBounds {
    /// Most connections that are not WebSockets.
    pub(crate) connections: usize,
    /// Most of them from one network.
    pub(crate) connections_per_network: usize,
    /// Most bytes that requests in progress may reserve.
    pub(crate) request_bytes: usize,
    /// The rate of requests without a token from one network.
    pub(crate) unauthenticated: Option<Quota>,
}

/// Why a connection or a request was refused or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The network has all its connections in use.
    Connections,
    /// An idle connection was shed.
    Idle,
    /// The bytes of requests are reserved.
    RequestBytes,
    /// The network exceeds the rate of unauthenticated requests.
    RequestRate,
    /// An answer was not read in time.
    UnreadAnswer,
}

impl Refusal {
    const ALL: [Self; 5] = [Self::Connections, Self::Idle, Self::RequestBytes, Self::RequestRate, Self::UnreadAnswer];

    /// Its label in metrics.
    fn as_str(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Idle => "idle",
            Self::RequestBytes => "request_bytes",
            Self::RequestRate => "request_rate",
            Self::UnreadAnswer => "unread_answer",
        }
    }
}

/// The admission control of one listener.
pub(crate) struct Admission {
    listener: &'static str,
    bounds: ListenerBounds,
    proxies: TrustedProxies,
    epoch: Instant,
    table: Mutex<AddressTable>,
}

#[derive(Default)]
struct AddressTable {
    /// Open connections, without those that were shed and have not ended yet.
    connections: usize,
    /// Bytes reserved by requests in progress.
    request_bytes: usize,
    networks: HashMap<IpAddr, NetworkUse>,
    /// Connections that can be shed, the longest idle first.
    idle: BTreeMap<u64, Arc<ListenerConnection>>,
    /// The key of the last connection that became idle.
    last_idle: u64,
    /// Idle connections of trusted proxies. They are not shed: a proxy would answer its client with an error.
    idle_of_proxies: usize,
    /// Refusals since the last log line, in the order of [`Refusal::ALL`].
    refusals: [u64; Refusal::ALL.len()],
}

/// The use of the listener by one network.
#[derive(Default)]
struct NetworkUse {
    connections: usize,
    request_bytes: usize,
    /// Its keys in the idle connections of the table.
    idle: BTreeSet<u64>,
    /// When its bucket of unauthenticated requests is full again.
    full_at: Timestamp,
    /// Refusals since the last log line.
    refusals: u64,
}

impl NetworkUse {
    fn is_live(&self) -> bool {
        self.connections > 0 || self.request_bytes > 0
    }
}

/// An admitted connection. Dropping it frees its place.
pub(super) struct AdmittedConnection(Arc<ListenerConnection>);

/// Bytes that a request in progress has reserved, until they are dropped.
pub(super) struct ReservedBytes {
    admission: Arc<Admission>,
    network: Option<IpAddr>,
    bytes: usize,
}

impl Admission {
    pub(crate) fn new(listener: &'static str, bounds: ListenerBounds, proxies: TrustedProxies) -> Arc<Self> {
        Arc::new(Self { listener, bounds, proxies, epoch: Instant::now(), table: Mutex::default() })
    }

    pub(super) fn listener(&self) -> &'static str {
        self.listener
    }

    pub(super) fn connections_max(&self) -> usize {
        self.bounds.connections
    }

    /// The client address of a request received from `peer`.
    pub(super) fn client(&self, peer: SocketAddr, headers: &HeaderMap) -> SocketAddr {
        self.proxies.client(peer, headers)
    }

    /// Admits a connection, or refuses it if its network has all its connections in use. It begins idle.
    pub(super) fn admit(self: &Arc<Self>, peer: SocketAddr) -> Option<AdmittedConnection> {
        let network = (!self.proxies.trusts(peer.ip().to_canonical())).then(|| network(peer.ip()));
        let mut table = lock(&self.table);
        if let Some(network) = network {
            let used = table.used(network);
            if used.connections >= self.bounds.connections_per_network {
                let Some(longest_idle) = used.idle.first().copied() else {
                    self.refuse(&mut table, Refusal::Connections, Some(network));
                    return None;
                };
                self.shed(&mut table, longest_idle);
            }
            table.used(network).connections += 1;
        }
        table.connections += 1;
        let state = Arc::new(ListenerConnection::new(self.clone(), network));
        self.insert_idle(&mut table, &state);
        Some(AdmittedConnection(state))
    }

    /// Reserves bytes for a request of a network, or of a trusted proxy. `None` if the bound is reached.
    pub(super) fn reserve(self: &Arc<Self>, network: Option<IpAddr>, bytes: usize) -> Option<ReservedBytes> {
        let mut table = lock(&self.table);
        let of_network = network.map_or(0, |network| table.used(network).request_bytes);
        let is_full = table.request_bytes + bytes > self.bounds.request_bytes
            || of_network + bytes > self.bounds.request_bytes / NETWORK_SHARE;
        if is_full {
            self.refuse(&mut table, Refusal::RequestBytes, network);
            return None;
        }
        table.request_bytes += bytes;
        if let Some(network) = network {
            table.used(network).request_bytes += bytes;
        }
        Some(ReservedBytes { admission: self.clone(), network, bytes })
    }

    /// Counts an unauthenticated request. An error is the time after which the network may send the next one.
    pub(super) fn count_unauthenticated(&self, network: IpAddr) -> Result<(), Duration> {
        let Some(quota) = self.bounds.unauthenticated else { return Ok(()) };
        let mut table = lock(&self.table);
        let used = table.used(network);
        let (decision, full_at) = quota.decide(Some(used.full_at), self.now());
        used.full_at = full_at;
        if decision.allowed { Ok(()) } else { Err(decision.retry_after) }
    }

    /// Counts a refusal that the caller decided.
    pub(super) fn count_refusal(&self, refusal: Refusal, network: Option<IpAddr>) {
        self.refuse(&mut lock(&self.table), refusal, network);
    }

    /// Makes a connection busy.
    pub(super) fn busy(&self, state: &ListenerConnection) {
        lock(&self.table).remove_idle(state);
    }

    /// Makes a connection idle, unless it was shed.
    pub(super) fn idle(&self, state: &Arc<ListenerConnection>) {
        let mut table = lock(&self.table);
        if !state.is_uncounted.load(Ordering::Relaxed) {
            self.insert_idle(&mut table, state);
        }
    }

    /// Makes a connection idle, and sheds the longest idle ones if there are too many connections.
    fn insert_idle(&self, table: &mut AddressTable, state: &Arc<ListenerConnection>) {
        let Some(network) = state.network else {
            table.idle_of_proxies += 1;
            state.idle_key.store(u64::MAX, Ordering::Relaxed);
            return;
        };
        table.last_idle += 1;
        let key = table.last_idle;
        state.idle_key.store(key, Ordering::Relaxed);
        table.idle.insert(key, state.clone());
        table.used(network).idle.insert(key);
        let bound = self.bounds.connections;
        while table.connections > (bound - (bound / RESERVE_SHARE).max(1)).max(1)
            && let Some((longest_idle, _)) = table.idle.first_key_value()
        {
            let longest_idle = *longest_idle;
            self.shed(table, longest_idle);
        }
    }

    /// Asks an idle connection to close. It no longer counts.
    fn shed(&self, table: &mut AddressTable, key: u64) {
        if let Some(state) = table.idle.get(&key).cloned() {
            self.uncount(table, &state);
            self.refuse(table, Refusal::Idle, state.network);
            state.shed.notify_one();
        }
    }

    /// Removes a connection from all counts, once.
    fn uncount(&self, table: &mut AddressTable, state: &ListenerConnection) {
        if state.is_uncounted.swap(true, Ordering::Relaxed) {
            return;
        }
        table.remove_idle(state);
        table.connections -= 1;
        if let Some(network) = state.network {
            table.used(network).connections -= 1;
            table.forget_if_unused(network, self.now());
        }
    }

    fn refuse(&self, table: &mut AddressTable, refusal: Refusal, network: Option<IpAddr>) {
        counter!("tidings_http_refused_total", "listener" => self.listener, "reason" => refusal.as_str()).increment(1);
        table.refusals[refusal as usize] += 1;
        if let Some(network) = network {
            table.used(network).refusals += 1;
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.epoch.elapsed().as_millis() as u64)
    }
}

impl AddressTable {
    fn used(&mut self, network: IpAddr) -> &mut NetworkUse {
        if self.networks.len() >= NETWORKS_MAX && !self.networks.contains_key(&network) {
            self.networks.retain(|_, used| used.is_live());
        }
        self.networks.entry(network).or_default()
    }

    /// Makes a connection busy. Its key is absent if it was shed at the same time.
    fn remove_idle(&mut self, state: &ListenerConnection) {
        match (state.idle_key.swap(0, Ordering::Relaxed), state.network) {
            (0, _) => {}
            (_, None) => self.idle_of_proxies -= 1,
            (key, Some(network)) => {
                self.idle.remove(&key);
                self.used(network).idle.remove(&key);
            }
        }
    }

    fn forget_if_unused(&mut self, network: IpAddr, now: Timestamp) {
        let is_unused = |used: &NetworkUse| !used.is_live() && used.refusals == 0 && used.full_at <= now;
        if self.networks.get(&network).is_some_and(is_unused) {
            self.networks.remove(&network);
        }
    }
}

impl AdmittedConnection {
    pub(super) fn state(&self) -> &Arc<ListenerConnection> {
        &self.0
    }
}

impl Drop for AdmittedConnection {
    fn drop(&mut self) {
        self.0.admission.uncount(&mut lock(&self.0.admission.table), &self.0);
    }
}

impl Drop for ReservedBytes {
    fn drop(&mut self) {
        let mut table = lock(&self.admission.table);
        table.request_bytes -= self.bytes;
        if let Some(network) = self.network {
            table.used(network).request_bytes -= self.bytes;
            table.forget_if_unused(network, self.admission.now());
        }
    }
}

/// The refusals since the last log line.
struct RefusalReport {
    refusals: [u64; Refusal::ALL.len()],
    /// Networks that were refused something.
    networks: usize,
    /// The one with the most refusals.
    most: Option<(IpAddr, u64)>,
}

impl Admission {
    /// Updates the gauges, and logs refusals at most once a minute, until it is stopped.
    pub(crate) async fn report(self: Arc<Self>) {
        let mut next_line = Instant::now();
        loop {
            self.measure();
            if Instant::now() >= next_line
                && let Some(report) = self.take_report()
            {
                next_line = Instant::now() + LOG_INTERVAL;
                self.log(&report);
            }
            tokio::time::sleep(MEASURE_INTERVAL).await;
        }
    }

    fn measure(&self) {
        let (connections, idle, request_bytes) = {
            let table = lock(&self.table);
            (table.connections, table.idle.len() + table.idle_of_proxies, table.request_bytes)
        };
        for (state, connections) in [("idle", idle), ("busy", connections - idle)] {
            gauge!("tidings_http_connections", "listener" => self.listener, "state" => state).set(connections as f64);
        }
        gauge!("tidings_http_request_bytes", "listener" => self.listener).set(request_bytes as f64);
    }

    /// Takes the refusals since the last report; `None` if there are none. Forgets networks without any use.
    fn take_report(&self) -> Option<RefusalReport> {
        let now = self.now();
        let mut table = lock(&self.table);
        if table.refusals.iter().all(|refusals| *refusals == 0) {
            return None;
        }
        let refused = || table.networks.iter().filter(|(_, used)| used.refusals > 0);
        let report = RefusalReport {
            refusals: table.refusals,
            networks: refused().count(),
            most: refused().map(|(network, used)| (*network, used.refusals)).max_by_key(|(_, refusals)| *refusals),
        };
        table.refusals = Default::default();
        table.networks.retain(|_, used| {
            used.refusals = 0;
            used.is_live() || used.full_at > now
        });
        Some(report)
    }

    fn log(&self, report: &RefusalReport) {
        let [connections, idle, request_bytes, request_rate, unread_answer] = report.refusals;
        let (address, refusals) = report.most.unzip();
        warn!(
            listener = self.listener,
            connections,
            idle,
            request_bytes,
            request_rate,
            unread_answer,
            addresses = report.networks,
            top_address = address.map(tracing::field::display),
            top_address_refusals = refusals,
            "the listener refused or closed connections and requests to stay within its bounds; \
             if the top address is a proxy of yours, name it in `trusted_proxies`"
        );
    }
}

#[cfg(test)]
mod tests;
