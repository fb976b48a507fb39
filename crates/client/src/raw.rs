use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use domain::DeviceId;
use futures_util::{Sink, Stream, StreamExt};
use http::HeaderValue;
use http::header::{AUTHORIZATION, RETRY_AFTER};
use protocol::client::Ended;
use protocol::frame::Outbound;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::protocol::frame::Utf8Bytes;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::ConnectError;

/// A bare WebSocket to the gateway: the caller writes and reads every frame.
///
/// Sent frames are buffered. They are written when [`next`](Self::next) finds nothing more to read, or by
/// [`flush`](Self::flush), so that the replies to a burst of frames leave in one write.
#[derive(Debug)]
pub struct RawConnection {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    unflushed: bool,
    reads_since_flush: usize,
}

/// The credential of a handshake.
#[derive(Clone, Copy)]
pub enum Credential<'a> {
    /// An access token, in the header.
    Token(&'a str),
    /// A single-use ticket, in the query.
    Ticket(&'a str),
}

/// The write buffer is full, because the server does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too much is waiting to be written")]
pub struct SendFull;

impl RawConnection {
    /// Enough for the frames of a burst; the buffer grows for a longer frame.
    const BUFFER_BYTES: usize = 8 * 1024;
    /// Most buffered bytes to write.
    const WRITE_BYTES_MAX: usize = 4 << 20;
    /// Above the longest frame of the server, a full sync page.
    const FRAME_BYTES_MAX: usize = 8 << 20;
    /// Most frames to read before the write buffer is flushed.
    const READS_PER_FLUSH: usize = 64;

    /// Connects to the server at `base_url`, `http://…` or `https://…`.
    pub async fn connect(
        base_url: &str,
        device_id: DeviceId,
        credential: Credential<'_>,
    ) -> Result<Self, ConnectError> {
        let request = handshake(base_url, device_id, credential)?;
        let config = WebSocketConfig::default()
            .read_buffer_size(Self::BUFFER_BYTES)
            .write_buffer_size(Self::BUFFER_BYTES)
            .max_write_buffer_size(Self::WRITE_BYTES_MAX)
            .max_message_size(Some(Self::FRAME_BYTES_MAX))
            .max_frame_size(Some(Self::FRAME_BYTES_MAX));
        // Frames are small and answered one by one, so Nagle's algorithm would only add a delay.
        match Box::pin(tokio_tungstenite::connect_async_with_config(request, Some(config), true)).await {
            Ok((socket, _)) => Ok(Self { socket, unflushed: false, reads_since_flush: 0 }),
            Err(tungstenite::Error::Http(response)) => {
                let retry_after =
                    response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
                Err(ConnectError::Refused {
                    status: response.status().as_u16(),
                    retry_after: retry_after.map(Duration::from_secs),
                })
            }
            Err(error) => Err(ConnectError::Transport(Box::new(error))),
        }
    }

    /// Buffers a text frame.
    pub fn send(&mut self, text: impl Into<Utf8Bytes>) -> Result<(), SendFull> {
        self.buffer(Message::Text(text.into()))
    }

    /// Buffers a binary frame, for tests of its refusal.
    pub fn send_binary(&mut self, bytes: Vec<u8>) -> Result<(), SendFull> {
        self.buffer(Message::Binary(bytes.into()))
    }

    fn buffer(&mut self, message: Message) -> Result<(), SendFull> {
        self.unflushed = true;
        match Pin::new(&mut self.socket).start_send(message) {
            Err(tungstenite::Error::WriteBufferFull(_)) => Err(SendFull),
            // The next read reports a broken socket, with more detail.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Writes the buffered frames. Cancel safe.
    pub async fn flush(&mut self) -> Result<(), Ended> {
        poll_fn(|cx| self.poll_flush(cx)).await
    }

    /// The next text frame of the server. Cancel safe.
    pub async fn next_text(&mut self) -> Result<Utf8Bytes, Ended> {
        poll_fn(|cx| self.poll_text(cx)).await
    }

    /// The next readable frame of the server. Cancel safe.
    pub async fn next(&mut self) -> Result<Outbound, Ended> {
        loop {
            match Outbound::parse(&self.next_text().await?) {
                Ok(outbound) => return Ok(outbound),
                Err(error) => tracing::debug!(%error, "unreadable frame ignored"),
            }
        }
    }

    /// Writes the buffered frames, sends a close frame and waits for the server's, which follows all earlier replies.
    /// On a broken connection it returns at once.
    pub async fn close(&mut self) {
        if let Err(error) = self.socket.close(None).await {
            tracing::debug!(%error, "closing handshake failed");
        }
        while let Some(Ok(_)) = self.socket.next().await {}
    }

    fn poll_text(&mut self, cx: &mut Context<'_>) -> Poll<Result<Utf8Bytes, Ended>> {
        loop {
            if self.reads_since_flush >= Self::READS_PER_FLUSH {
                // Reading continues even if the flush is incomplete: the server may block until its frames are read.
                let _ = self.poll_flush(cx)?;
                self.reads_since_flush = 0;
            }
            let Poll::Ready(received) = Pin::new(&mut self.socket).poll_next(cx) else { break };
            self.reads_since_flush += 1;
            match received {
                Some(Ok(Message::Text(text))) => return Poll::Ready(Ok(text)),
                Some(Ok(Message::Close(Some(frame)))) => {
                    let ended = Ended::Closed { code: frame.code.into(), reason: frame.reason.as_str().to_owned() };
                    return Poll::Ready(Err(ended));
                }
                Some(Ok(Message::Close(None))) | None => return Poll::Ready(Err(Ended::Lost)),
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    tracing::debug!(%error, "connection lost");
                    return Poll::Ready(Err(Ended::Lost));
                }
            }
        }
        ready!(self.poll_flush(cx))?;
        Poll::Pending
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        if self.unflushed {
            if let Err(error) = ready!(Pin::new(&mut self.socket).poll_flush(cx)) {
                tracing::debug!(%error, "connection lost");
                return Poll::Ready(Err(Ended::Lost));
            }
            self.unflushed = false;
            self.reads_since_flush = 0;
        }
        Poll::Ready(Ok(()))
    }
}

fn handshake(
    base_url: &str,
    device_id: DeviceId,
    credential: Credential<'_>,
) -> Result<http::Request<()>, ConnectError> {
    let base_url = base_url.trim_end_matches('/');
    let socket_url = match base_url.strip_prefix("http") {
        Some(rest) => format!("ws{rest}"),
        None => return Err(ConnectError::Unwritable),
    };
    let unwritable = |_| ConnectError::Unwritable;
    match credential {
        Credential::Token(token) => {
            let mut request = format!("{socket_url}/v1/ws").into_client_request().map_err(unwritable)?;
            let mut bearer = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| ConnectError::Unwritable)?;
            bearer.set_sensitive(true);
            let device = HeaderValue::try_from(device_id.to_string()).map_err(|_| ConnectError::Unwritable)?;
            request.headers_mut().insert(AUTHORIZATION, bearer);
            request.headers_mut().insert("x-device-id", device);
            Ok(request)
        }
        Credential::Ticket(ticket) => format!("{socket_url}/v1/ws?ticket={ticket}&device_id={device_id}")
            .into_client_request()
            .map_err(unwritable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_carries_the_token_in_its_header_or_the_ticket_in_its_query() {
        let device_id = DeviceId::from_bytes([7; 16]);
        let request = handshake("http://127.0.0.1:8080/", device_id, Credential::Token("abc")).unwrap();
        assert_eq!(request.uri(), "ws://127.0.0.1:8080/v1/ws");
        assert_eq!(request.headers()["authorization"], "Bearer abc");
        assert_eq!(request.headers()["x-device-id"], "07070707-0707-0707-0707-070707070707");
        assert!(!format!("{:?}", request.headers()).contains("abc"), "a token is not for logs");

        let request = handshake("https://chat.example", device_id, Credential::Ticket("t1")).unwrap();
        assert_eq!(request.uri(), "wss://chat.example/v1/ws?ticket=t1&device_id=07070707-0707-0707-0707-070707070707");
    }

    #[test]
    fn an_item_beyond_the_request_limit_is_refused() {
        let device_id = DeviceId::from_bytes([7; 16]);
        for (base_url, token) in [("ftp://x", "abc"), ("http://127.0.0.1:8080", "a\nb"), ("http://a b", "abc")] {
            let refused = handshake(base_url, device_id, Credential::Token(token));
            assert!(matches!(refused, Err(ConnectError::Unwritable)), "{base_url} {token:?}");
        }
    }
}
