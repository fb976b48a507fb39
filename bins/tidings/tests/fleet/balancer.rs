use std::future::pending;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::health_checks::{HealthCheck, TargetGroups};

/// The start of a WebSocket request.
const HANDSHAKE: &[u8] = b"GET /v1/ws";

/// One address for the whole fleet: WebSockets go to the gateways in turn, everything else to the api processes in turn.
/// The first request of a connection decides its backend, so its later requests go the same way.
///
/// It behaves as the load balancer of the template for AWS: it makes the health checks of the template, and routes to
/// healthy targets only. If a group has none, it routes to all of them.
pub(crate) struct Balancer {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

struct Backends {
    gateways: TargetGroup,
    api: TargetGroup,
}

struct TargetGroup {
    targets: Vec<BalancerTarget>,
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
        let [gateways, api] = [gateways, api]
            .map(|group| TargetGroup { targets: group.into_iter().map(target).collect(), turn: AtomicUsize::new(0) });
        let backends = Arc::new(Backends { gateways, api });
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
        let mut targets: Vec<&BalancerTarget> =
            group.targets.iter().filter(|target| !target.check.is_failed()).collect();
        if targets.is_empty() {
            targets = group.targets.iter().collect();
        }
        let turn = group.turn.fetch_add(1, Ordering::Relaxed) % targets.len();
        targets.rotate_left(turn);
        let in_turn: Vec<_> = targets.into_iter().map(|target| target.address).collect();
        TcpStream::connect(&*in_turn).await
    }
}

/// Copies bytes both ways until the backend closes, which may answer a request that it does not read to its end.
async fn pass(mut client: TcpStream, backends: Arc<Backends>) -> io::Result<()> {
    let mut start = Vec::with_capacity(1024);
    while start.len() < HANDSHAKE.len() && client.read_buf(&mut start).await? > 0 {}
    let mut backend = backends.connect(&start).await?;
    client.set_nodelay(true)?;
    backend.set_nodelay(true)?;
    backend.write_all(&start).await?;
    let ((mut from_client, mut to_client), (mut from_backend, mut to_backend)) = (client.split(), backend.split());
    let requests = async {
        // After an error the backend reads nothing more, but may have answered.
        if copy(&mut from_client, &mut to_backend).await.is_ok() {
            // Fails if the backend has closed.
            drop(to_backend.shutdown().await);
        }
        pending::<()>().await;
    };
    tokio::select! {
        answered = copy(&mut from_backend, &mut to_client) => answered.map(drop),
        () = requests => Ok(()),
    }
}
