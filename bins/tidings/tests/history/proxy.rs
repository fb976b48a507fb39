use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Bytes that are passed on at once.
const CHUNK: usize = 8 * 1024;

/// A bad network between clients and a server. Until told otherwise it passes everything on. It ends when it is dropped.
pub(crate) struct Proxy {
    address: SocketAddr,
    weather: watch::Sender<Weather>,
    accepting: JoinHandle<()>,
}

#[derive(Clone, Copy, Default)]
struct Weather {
    /// Counts the cuts: a connection from before the last one is over.
    cuts: u64,
    /// Nothing is passed on, either way, and nothing is lost.
    stalls: bool,
    /// What the server says is lost, and what clients say arrives: they cannot know what became of it.
    swallows: bool,
    /// How long every piece takes.
    delay: Duration,
}

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
}

impl Proxy {
    /// In front of a server, which may come and go.
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (weather, watching) = watch::channel(Weather::default());
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(pass(client, server, watching.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Self { address, weather, accepting }
    }

    /// Where clients find the server.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Cuts every connection there is, in the middle of whatever is held up.
    pub(crate) fn cut(&self) {
        self.weather.send_modify(|weather| weather.cuts += 1);
    }

    /// Holds everything up, or lets it go on.
    pub(crate) fn stall(&self, stalls: bool) {
        self.weather.send_modify(|weather| weather.stalls = stalls);
    }

    /// Loses all that the server says, and cuts the connections `after` that.
    pub(crate) async fn swallow(&self, after: Duration) {
        self.weather.send_modify(|weather| weather.swallows = true);
        tokio::time::sleep(after).await;
        self.weather.send_modify(|weather| (weather.swallows, weather.cuts) = (false, weather.cuts + 1));
    }

    /// Has every piece take so long.
    pub(crate) fn delay(&self, delay: Duration) {
        self.weather.send_modify(|weather| weather.delay = delay);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn pass(client: TcpStream, server: SocketAddr, weather: watch::Receiver<Weather>) -> io::Result<()> {
    let born = weather.borrow().cuts;
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    // Whichever way ends first, the other ends with it.
    tokio::select! {
        ended = pump(from_client, to_server, Way::ToServer, born, weather.clone()) => ended,
        ended = pump(from_server, to_client, Way::ToClient, born, weather) => ended,
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    way: Way,
    born: u64,
    mut weather: watch::Receiver<Weather>,
) -> io::Result<()> {
    let mut cuts = weather.clone();
    let mut chunk = vec![0; CHUNK];
    loop {
        let len = tokio::select! {
            () = turn(&mut cuts, |weather| weather.cuts > born) => return Ok(()),
            len = from.read(&mut chunk) => len?,
        };
        if len == 0 {
            return Ok(());
        }
        tokio::select! {
            () = turn(&mut cuts, |weather| weather.cuts > born) => {
                // Half of it was on its way.
                return to.write_all(&chunk[..len / 2]).await;
            }
            () = turn(&mut weather, |weather| !weather.stalls) => {}
        }
        let Weather { swallows, delay, .. } = *weather.borrow();
        if swallows && way == Way::ToClient {
            continue;
        }
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        to.write_all(&chunk[..len]).await?;
    }
}

/// Waits for the weather to be so.
async fn turn(weather: &mut watch::Receiver<Weather>, is_so: impl FnMut(&Weather) -> bool) {
    // If the proxy is gone, so is this.
    let _ = weather.wait_for(is_so).await;
}
