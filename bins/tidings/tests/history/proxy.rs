use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Size of a forwarded chunk.
const CHUNK: usize = 8 * 1024;

/// A faulty network between clients and a server. By default it forwards everything. It ends when it is dropped.
pub(crate) struct FaultyProxy {
    address: SocketAddr,
    weather: watch::Sender<Weather>,
    accepting: JoinHandle<()>,
}

#[derive(Clone, Copy, Default)]
struct Weather {
    /// Number of cuts: connections made before the last one are closed.
    cuts: u64,
    /// Nothing is forwarded in either direction, and nothing is lost.
    stalls: bool,
    /// Responses of the server are lost, while requests arrive: clients cannot know the result of a request.
    swallows: bool,
    /// Delay of every chunk.
    delay: Duration,
}

/// Direction of a byte stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
}

impl FaultyProxy {
    /// Starts in front of a server, which may stop and restart.
    pub(crate) async fn start(server: SocketAddr) -> Self {
        Self::start_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap(), server)
    }

    /// Starts at an address that clients may know already.
    pub(crate) fn start_on(listener: TcpListener, server: SocketAddr) -> Self {
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

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL for clients.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Cuts all open connections, in the middle of stalled chunks.
    pub(crate) fn cut(&self) {
        self.weather.send_modify(|weather| weather.cuts += 1);
    }

    /// Stalls all connections, or resumes them. Meanwhile an end of a connection does not reach the other side.
    pub(crate) fn stall(&self, stalls: bool) {
        self.weather.send_modify(|weather| weather.stalls = stalls);
    }

    /// Drops all responses of the server, and cuts the connections `after` that.
    pub(crate) async fn swallow(&self, after: Duration) {
        self.weather.send_modify(|weather| weather.swallows = true);
        tokio::time::sleep(after).await;
        self.weather.send_modify(|weather| (weather.swallows, weather.cuts) = (false, weather.cuts + 1));
    }

    /// Delays every chunk by this much.
    pub(crate) fn delay(&self, delay: Duration) {
        self.weather.send_modify(|weather| weather.delay = delay);
    }
}

impl Drop for FaultyProxy {
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
    // The end of one direction ends the other.
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
        tokio::select! {
            () = turn(&mut cuts, |weather| weather.cuts > born) => {
                // Half of the chunk was in flight.
                return to.write_all(&chunk[..len / 2]).await;
            }
            () = turn(&mut weather, |weather| !weather.stalls) => {}
        }
        if len == 0 {
            return Ok(());
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

/// Waits for a network state.
async fn turn(weather: &mut watch::Receiver<Weather>, is_so: impl FnMut(&Weather) -> bool) {
    // If the proxy is dropped, this ends too.
    let _ = weather.wait_for(is_so).await;
}
