use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// What lies between one device and the server. It ends when it is dropped.
pub(crate) struct Proxy {
    address: SocketAddr,
    line: watch::Sender<Line>,
    accepting: JoinHandle<()>,
}

#[derive(Clone, Copy, Default)]
struct Line {
    /// Counts the cuts: a connection from before the last one is over.
    cuts: u64,
    /// Counts the stalls: over a connection from before the last one nothing comes any more.
    stalls: u64,
    /// New connections are dropped.
    is_blocked: bool,
}

impl Proxy {
    /// In front of a server, which may come and go.
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (line, watching) = watch::channel(Line::default());
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

    /// Drops every connection there is.
    pub(crate) fn cut(&self) {
        self.line.send_modify(|line| line.cuts += 1);
    }

    /// The same, and every new one until it is unblocked.
    pub(crate) fn block(&self) {
        self.line.send_modify(|line| (line.cuts, line.is_blocked) = (line.cuts + 1, true));
    }

    pub(crate) fn unblock(&self) {
        self.line.send_modify(|line| line.is_blocked = false);
    }

    /// Passes nothing on over the connections there are, and closes none of them.
    pub(crate) fn stall(&self) {
        self.line.send_modify(|line| line.stalls += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn pass(mut device: TcpStream, server: SocketAddr, mut line: watch::Receiver<Line>) -> io::Result<()> {
    let born = *line.borrow();
    let mut stalled = line.clone();
    let mut server = TcpStream::connect(server).await?;
    device.set_nodelay(true)?;
    server.set_nodelay(true)?;
    tokio::select! {
        // If the proxy is gone, so is this.
        _ = line.wait_for(|line| line.cuts > born.cuts) => return Ok(()),
        _ = stalled.wait_for(|line| line.stalls > born.stalls) => {}
        ended = copy_bidirectional(&mut device, &mut server) => return ended.map(drop),
    }
    let _ = line.wait_for(|line| line.cuts > born.cuts).await;
    Ok(())
}
