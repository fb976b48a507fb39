use std::io;
use std::net::SocketAddr;

use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use super::http::Whole;

/// Indexes that lag: a second server, which answers the queries of indexes, and gets the writes later.
#[derive(Debug)]
pub(super) struct IndexReplica {
    address: SocketAddr,
    /// The writes that the replica lacks, in the order of their execution. The lock is held during each write, which
    /// makes this the order in which the server has executed them.
    missing: Mutex<Vec<Whole>>,
}

impl IndexReplica {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, missing: Mutex::default() }
    }

    /// Executes a request, at the replica if it queries an index.
    pub(super) async fn forward(
        &self,
        request: &Whole,
        server: &mut BufReader<TcpStream>,
    ) -> io::Result<Option<Whole>> {
        if reads(request) {
            return if request.count(br#""IndexName":"#) > 0 {
                exchange(request, &mut self.connect().await?).await
            } else {
                exchange(request, server).await
            };
        }
        let mut missing = self.missing.lock().await;
        let answer = exchange(request, server).await?;
        if answer.as_ref().is_some_and(Whole::is_ok) {
            missing.push(request.clone());
        }
        Ok(answer)
    }

    /// Executes the missing writes.
    pub(super) async fn catch_up(&self) -> io::Result<()> {
        let mut missing = self.missing.lock().await;
        let mut server = self.connect().await?;
        for request in missing.drain(..) {
            let answer = exchange(&request, &mut server).await?;
            if !answer.as_ref().is_some_and(Whole::is_ok) {
                return Err(io::Error::other(format!("{} failed at the replica: {answer:?}", request.operation())));
            }
        }
        Ok(())
    }

    async fn connect(&self) -> io::Result<BufReader<TcpStream>> {
        let server = TcpStream::connect(self.address).await?;
        server.set_nodelay(true)?;
        Ok(BufReader::new(server))
    }
}

/// Sends a request and waits for the response; `None` if the server closed the connection.
pub(super) async fn exchange(request: &Whole, server: &mut BufReader<TcpStream>) -> io::Result<Option<Whole>> {
    request.write(server).await?;
    Whole::read(server).await
}

fn reads(request: &Whole) -> bool {
    const READS: [&str; 7] = ["GetItem", "BatchGetItem", "TransactGetItems", "Query", "Scan", "Describe", "List"];
    READS.iter().any(|operation| request.operation().starts_with(operation))
}
