//! A WebSocket over a byte stream that batches its writes.
//!
//! tungstenite reads frames and answers pings and closes. Text frames bypass it: they are already encoded, and all recipients
//! share the same bytes. tungstenite writes into the same queue, so frames never interleave.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use domain::limits::FRAME_BYTES_MAX;
use futures_util::{Sink, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};

use crate::socket::{Incoming, OutboundFrame, SocketError};

/// Size of the read buffer of each open connection: about three messages of ordinary length.
const READ_BUFFER_BYTES: usize = 1024;
/// Queued bytes above which the sink accepts no further frame.
const QUEUE_BYTES: usize = 32 * 1024;
/// Most bytes read for one message. A message in many fragments, or in empty ones, has more bytes than its text.
const MESSAGE_BYTES_MAX: usize = 4 * FRAME_BYTES_MAX;
/// Buffers written in one call.
const PIECES_MAX: usize = 64;

pub(crate) struct WebSocketWire<S>(WebSocketStream<WriteQueue<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocketWire<S> {
    /// Wraps a stream after its HTTP upgrade.
    pub(crate) async fn new(stream: S) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER_BYTES)
            // tungstenite must not buffer: its frames go straight into the queue.
            .write_buffer_size(0)
            .max_frame_size(Some(FRAME_BYTES_MAX))
            .max_message_size(Some(FRAME_BYTES_MAX));
        Self(WebSocketStream::from_raw_socket(WriteQueue::new(stream), Role::Server, Some(config)).await)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for WebSocketWire<S> {
    type Item = Result<Incoming, SocketError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let read = ready!(Pin::new(&mut self.0).poll_next(cx));
        self.0.get_mut().unfinished = 0;
        Poll::Ready(read.map(|message| match message {
            Ok(Message::Text(text)) => Ok(Incoming::Text(text)),
            Ok(Message::Binary(_) | Message::Frame(_)) => Ok(Incoming::Binary),
            Ok(Message::Ping(_) | Message::Pong(_)) => Ok(Incoming::Alive),
            Ok(Message::Close(_)) => Ok(Incoming::Close),
            Err(error) => Err(error.into()),
        }))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Sink<OutboundFrame> for WebSocketWire<S> {
    type Error = SocketError;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SocketError>> {
        if self.0.get_ref().has_room() { Poll::Ready(Ok(())) } else { self.as_mut().poll_flush(cx) }
    }

    fn start_send(mut self: Pin<&mut Self>, frame: OutboundFrame) -> Result<(), SocketError> {
        match frame {
            OutboundFrame::Text(frame) => {
                frame.into_pieces().for_each(|piece| self.0.get_mut().push(piece));
                Ok(())
            }
            OutboundFrame::Close(reason) => {
                let close = CloseFrame { code: reason.code().into(), reason: Utf8Bytes::from_static(reason.as_str()) };
                Ok(Pin::new(&mut self.0).start_send(Message::Close(Some(close)))?)
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SocketError>> {
        Pin::new(&mut self.0).poll_flush(cx).map_err(SocketError::from)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SocketError>> {
        Pin::new(&mut self.0).poll_close(cx).map_err(SocketError::from)
    }
}

impl From<tungstenite::Error> for SocketError {
    fn from(error: tungstenite::Error) -> Self {
        match error {
            // tungstenite rejects an oversized frame before it reads the payload.
            tungstenite::Error::Capacity(_) => Self::TooLarge,
            tungstenite::Error::Io(error) if error.kind() == io::ErrorKind::FileTooLarge => Self::TooLarge,
            error => Self::Failed(error.into()),
        }
    }
}

/// A stream that queues writes until a flush, and then writes them with vectored I/O. It bounds the bytes read for one
/// message: tungstenite bounds its text, but not the number of its fragments.
struct WriteQueue<S> {
    stream: S,
    /// Bytes read since the last complete message.
    unfinished: usize,
    pieces: VecDeque<Bytes>,
    bytes: usize,
}

impl<S> WriteQueue<S> {
    fn new(stream: S) -> Self {
        Self { stream, unfinished: 0, pieces: VecDeque::new(), bytes: 0 }
    }

    fn has_room(&self) -> bool {
        self.bytes < QUEUE_BYTES
    }

    fn push(&mut self, piece: Bytes) {
        self.bytes += piece.len();
        self.pieces.push_back(piece);
    }

    /// Removes written bytes from the front of the queue.
    fn handle_written(&mut self, mut written: usize) {
        self.bytes -= written;
        while let Some(first) = self.pieces.front_mut() {
            if written < first.len() {
                first.advance(written);
                return;
            }
            written -= first.len();
            self.pieces.pop_front();
        }
        // Free the memory: most connections are idle most of the time.
        self.pieces = VecDeque::new();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteQueue<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.unfinished > MESSAGE_BYTES_MAX {
            return Poll::Ready(Err(io::ErrorKind::FileTooLarge.into()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        self.unfinished += buffer.filled().len() - before;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteQueue<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        // Pongs obey the same bound: a client that pings without reading cannot grow the queue.
        if !self.has_room() {
            ready!(self.as_mut().poll_flush(cx))?;
        }
        self.push(Bytes::copy_from_slice(bytes));
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let queue = &mut *self;
        while !queue.pieces.is_empty() {
            let mut slices = [IoSlice::new(&[]); PIECES_MAX];
            let count = queue.pieces.len().min(PIECES_MAX);
            for (slice, piece) in slices.iter_mut().zip(&queue.pieces) {
                *slice = IoSlice::new(piece);
            }
            let written = ready!(Pin::new(&mut queue.stream).poll_write_vectored(cx, &slices[..count]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            queue.handle_written(written);
        }
        Pin::new(&mut queue.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{SinkExt, StreamExt};
    use protocol::CloseReason;
    use tokio::io::duplex;

    use super::*;
    use crate::socket::TextFrame;

    type DuplexClient = WebSocketStream<tokio::io::DuplexStream>;

    /// Both ends of a connection with a transport buffer of `bytes`.
    async fn connected(bytes: usize) -> (WebSocketWire<tokio::io::DuplexStream>, DuplexClient) {
        let (server, client) = duplex(bytes);
        (WebSocketWire::new(server).await, WebSocketStream::from_raw_socket(client, Role::Client, None).await)
    }

    fn text(length: usize) -> TextFrame {
        TextFrame::new(vec![b'x'; length].into())
    }

    #[tokio::test]
    async fn frames_of_any_length_arrive_whole_and_in_order_with_pongs_between_them() {
        let lengths = [1, 125, 126, 4096, 4097, 70_000, 3, 40_000, 2];
        for on_their_way in [7, 1000, 1 << 20] {
            let (mut wire, client) = connected(on_their_way).await;
            let (mut says, mut hears) = client.split();
            let writing = async move {
                for (n, length) in lengths.into_iter().enumerate() {
                    wire.feed(OutboundFrame::Text(text(length))).await.unwrap();
                    if n % 3 == 0 {
                        // tungstenite answers the client's ping while it reads.
                        assert_eq!(wire.next().await.unwrap().unwrap(), Incoming::Alive);
                        wire.flush().await.unwrap();
                    }
                }
                wire.send(OutboundFrame::Close(CloseReason::ServerShutdown)).await.unwrap();
            };
            let pinging = async move {
                for _ in 0..3 {
                    says.send(Message::Ping(Bytes::from_static(b"ping"))).await.unwrap();
                }
            };
            let reading = async move {
                let (mut texts, mut pongs) = (vec![], 0);
                loop {
                    match hears.next().await.unwrap().unwrap() {
                        Message::Text(text) => texts.push(text.len()),
                        Message::Pong(_) => pongs += 1,
                        Message::Close(Some(close)) => break (texts, pongs, u16::from(close.code)),
                        other => panic!("{other:?}"),
                    }
                }
            };
            let ((), (), (texts, pongs, code)) = tokio::join!(writing, pinging, reading);
            assert_eq!((texts, code), (lengths.to_vec(), 1001));
            assert!(pongs > 0, "pings are answered");
        }
    }

    #[tokio::test]
    async fn frames_that_wait_are_written_together() {
        let (mut wire, _client) = connected(1 << 20).await;
        for _ in 0..100 {
            wire.feed(OutboundFrame::Text(text(10))).await.unwrap();
        }
        assert_eq!(wire.0.get_ref().pieces.len(), 100, "nothing is written before the flush");
        wire.flush().await.unwrap();
        let queue = wire.0.get_ref();
        assert_eq!((queue.pieces.capacity(), queue.bytes), (0, 0), "and no memory is kept after it");
    }

    #[tokio::test]
    async fn the_write_queue_of_a_client_that_does_not_read_is_bounded() {
        let (mut wire, mut client) = connected(100).await;
        let mut taken = 0;
        while let Some(sent) = futures_util::FutureExt::now_or_never(wire.feed(OutboundFrame::Text(text(1000)))) {
            sent.unwrap();
            taken += 1;
        }
        let bound = QUEUE_BYTES - 2000..QUEUE_BYTES + 2000;
        assert!(bound.contains(&(1000 * taken)), "{taken} frames were taken");
        // Queued pongs count toward the same bound.
        for _ in 0..100 {
            let pinged = futures_util::FutureExt::now_or_never(client.send(Message::Ping(vec![0; 100].into())));
            let heard = futures_util::FutureExt::now_or_never(wire.next());
            if pinged.is_none() && heard.is_none() {
                break;
            }
        }
        assert!(bound.contains(&wire.0.get_ref().bytes), "{}", wire.0.get_ref().bytes);
    }

    #[tokio::test]
    async fn endless_fragments_of_a_message_are_too_large() {
        use tokio_tungstenite::tungstenite::protocol::frame::Frame;
        use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

        let (mut wire, mut client) = connected(1 << 20).await;
        let first = Message::Frame(Frame::message(Bytes::new(), OpCode::Data(Data::Text), false));
        client.send(first).await.unwrap();
        let flood = async {
            // Each fragment has a header and no text.
            while let Ok(()) =
                client.send(Message::Frame(Frame::message(Bytes::new(), OpCode::Data(Data::Continue), false))).await
            {
            }
        };
        tokio::select! {
            read = wire.next() => assert!(matches!(read, Some(Err(SocketError::TooLarge)))),
            () = flood => panic!("the flood ended first"),
        }
    }

    #[tokio::test]
    async fn an_oversized_frame_is_distinguished_from_a_failed_socket() {
        let (mut wire, mut client) = connected(1 << 20).await;
        client.send(Message::Text("x".repeat(FRAME_BYTES_MAX + 1).into())).await.unwrap();
        assert!(matches!(wire.next().await, Some(Err(SocketError::TooLarge))));
        let (mut wire, client) = connected(1 << 20).await;
        drop(client);
        assert!(matches!(wire.next().await, Some(Err(SocketError::Failed(_))) | None));
    }
}
