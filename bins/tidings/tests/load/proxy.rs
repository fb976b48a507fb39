use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// A fault of the proxy: it changes the stream of updates between a server and its clients.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UpdateFault {
    /// They are in no push and in no page of a sync.
    Lost,
    /// Every push of one arrives twice.
    Doubled,
}

/// A proxy in front of a server, which forwards everything but updates. It ends when it is dropped.
pub(crate) struct UpdateProxy {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl UpdateProxy {
    pub(crate) async fn start(server: SocketAddr, fault: UpdateFault) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(pass(client, server, fault));
                while connections.try_join_next().is_some() {}
            }
        });
        Self { address, accepting }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for UpdateProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn pass(client: TcpStream, server: SocketAddr, fault: UpdateFault) -> io::Result<()> {
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((mut from_client, to_client), (from_server, mut to_server)) = (client.into_split(), server.into_split());
    // The end of one direction ends the other.
    tokio::select! {
        ended = copy(&mut from_client, &mut to_server) => ended.map(drop),
        ended = answers(from_server, to_client, fault) => ended,
    }
}

/// Forwards the answers of a server: those of HTTP as they are, and those of a WebSocket frame by frame.
async fn answers(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, fault: UpdateFault) -> io::Result<()> {
    let mut head = vec![];
    while !head.ends_with(b"\r\n\r\n") {
        head.push(from.read_u8().await?);
    }
    to.write_all(&head).await?;
    if !head.starts_with(b"HTTP/1.1 101 ") {
        return copy(&mut from, &mut to).await.map(drop);
    }
    loop {
        let (first, len) = (from.read_u8().await?, from.read_u8().await?);
        // A server does not mask its frames.
        let len = match len {
            126 => usize::from(from.read_u16().await?),
            127 => usize::try_from(from.read_u64().await?).unwrap(),
            len => usize::from(len),
        };
        let mut payload = vec![0; len];
        from.read_exact(&mut payload).await?;
        const WHOLE_TEXT: u8 = 0x81;
        let payloads = if first == WHOLE_TEXT { changed(payload, fault) } else { vec![payload] };
        for payload in payloads {
            to.write_all(&frame(first, &payload)).await?;
        }
    }
}

fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        len @ ..126 => frame.push(len as u8),
        len @ 126..=0xffff => {
            frame.push(126);
            frame.extend((len as u16).to_be_bytes());
        }
        len => {
            frame.push(127);
            frame.extend((len as u64).to_be_bytes());
        }
    }
    frame.extend(payload);
    frame
}

/// The frames that arrive instead of this one.
fn changed(payload: Vec<u8>, fault: UpdateFault) -> Vec<Vec<u8>> {
    let mut frame: Value = serde_json::from_slice(&payload).unwrap();
    let frame_type = frame["type"].as_str().unwrap_or_default().to_owned();
    match (fault, &*frame_type) {
        (UpdateFault::Lost, "message_updated") => vec![],
        (UpdateFault::Doubled, "message_updated") => vec![payload.clone(), payload],
        (UpdateFault::Lost, "sync_response") => {
            frame["payload"].as_object_mut().unwrap().remove("updates");
            vec![frame.to_string().into_bytes()]
        }
        _ => vec![payload],
    }
}
