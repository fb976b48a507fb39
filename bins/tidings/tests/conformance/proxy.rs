use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// A proxy between one device and the server. It ends when it is dropped.
pub(crate) struct DeviceProxy {
    address: SocketAddr,
    line: watch::Sender<LineState>,
    accepting: JoinHandle<()>,
}

#[derive(Clone, Copy, Default)]
struct LineState {
    /// Number of cuts: connections made before the last one are closed.
    cuts: u64,
    /// Number of stalls: connections made before the last one pass nothing on.
    stalls: u64,
    /// New connections are dropped.
    is_blocked: bool,
}

impl DeviceProxy {
    /// Starts in front of a server, which may stop and restart.
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (line, watching) = watch::channel(LineState::default());
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((device, _)) = listener.accept().await {
                if !watching.borrow().is_blocked {
                    connections.spawn(pass(device, server, watching.clone()));
                }
                while connections.try_join_next().is_some() {}
            }
        });
        Self { address, line, accepting }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Drops all open connections.
    pub(crate) fn cut(&self) {
        self.line.send_modify(|line| line.cuts += 1);
    }

    /// Drops all connections, and every new one until it is unblocked.
    pub(crate) fn block(&self) {
        self.line.send_modify(|line| (line.cuts, line.is_blocked) = (line.cuts + 1, true));
    }

    pub(crate) fn unblock(&self) {
        self.line.send_modify(|line| line.is_blocked = false);
    }

    /// Stalls all open connections without closing them.
    pub(crate) fn stall(&self) {
        self.line.send_modify(|line| line.stalls += 1);
    }
}

impl Drop for DeviceProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn pass(mut device: TcpStream, server: SocketAddr, mut line: watch::Receiver<LineState>) -> io::Result<()> {
    let born = *line.borrow();
    let mut stalled = line.clone();
    let mut server = TcpStream::connect(server).await?;
    device.set_nodelay(true)?;
    server.set_nodelay(true)?;
    tokio::select! {
        // If the proxy is dropped, this ends too.
        _ = line.wait_for(|line| line.cuts > born.cuts) => return Ok(()),
        _ = stalled.wait_for(|line| line.stalls > born.stalls) => {}
        ended = copy_bidirectional(&mut device, &mut server) => return ended.map(drop),
    }
    let _ = line.wait_for(|line| line.cuts > born.cuts).await;
    Ok(())
}
