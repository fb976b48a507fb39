use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::health_checks::{HealthCheck, TargetGroups};

/// The start of a WebSocket request.
const HANDSHAKE: &[u8] = b"GET /v1/ws";

/// One address for the whole fleet: WebSockets go to the gateways in turn, everything else to the api. The first
/// request of a connection decides its backend, so its later requests go the same way.
///
/// It behaves as the load balancer of the template for AWS: it makes the health checks of the template, and routes to
/// healthy targets only. If a group has none, it routes to all of them.
pub(crate) struct Balancer {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

struct Backends {
    gateways: Vec<BalancerTarget>,
    api: Vec<BalancerTarget>,
    turn: AtomicUsize,
}

struct BalancerTarget {
    address: SocketAddr,
    check: HealthCheck,
}

impl Balancer {
    pub(crate) async fn start(gateways: Vec<SocketAddr>, api: Vec<SocketAddr>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let groups = TargetGroups::read();
        let target = |address: SocketAddr| BalancerTarget {
            address,
            check: groups.check(address.to_string(), &format!("http://{address}")),
        };
        let [gateways, api] = [gateways, api].map(|group| group.into_iter().map(target).collect());
        let backends = Arc::new(Backends { gateways, api, turn: AtomicUsize::new(0) });
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                connections.spawn(pass(client, backends.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Self { address, accepting }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Backends {
    /// Connects to the backend of a request. Skips targets that are down and have not failed their checks yet.
    async fn connect(&self, start: &[u8]) -> io::Result<TcpStream> {
        let group = if start.starts_with(HANDSHAKE) { &self.gateways } else { &self.api };
        let mut targets: Vec<&BalancerTarget> = group.iter().filter(|target| !target.check.is_failed()).collect();
        if targets.is_empty() {
            targets = group.iter().collect();
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % targets.len();
        targets.rotate_left(turn);
        let in_turn: Vec<_> = targets.into_iter().map(|target| target.address).collect();
        TcpStream::connect(&*in_turn).await
    }
}

/// Copies bytes both ways until one end closes.
async fn pass(mut client: TcpStream, backends: Arc<Backends>) -> io::Result<()> {
    let mut start = Vec::with_capacity(1024);
    while start.len() < HANDSHAKE.len() && client.read_buf(&mut start).await? > 0 {}
    let mut backend = backends.connect(&start).await?;
    client.set_nodelay(true)?;
    backend.set_nodelay(true)?;
    backend.write_all(&start).await?;
    copy_bidirectional(&mut client, &mut backend).await?;
    Ok(())
}
