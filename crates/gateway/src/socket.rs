//! The socket interface that a connection's driver uses.

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{Sink, Stream};
use ports::BoxError;
use protocol::CloseReason;
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

/// The socket of a connection: whole frames in, whole frames out.
pub trait Socket:
    Stream<Item = Result<Incoming, SocketError>> + Sink<OutboundFrame, Error = SocketError> + Unpin + Send
{
}

impl<S> Socket for S where
    S: Stream<Item = Result<Incoming, SocketError>> + Sink<OutboundFrame, Error = SocketError> + Unpin + Send
{
}

/// A frame from the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    Text(Utf8Bytes),
    Binary,
    /// A ping or a pong. tungstenite answers pings.
    Alive,
    Close,
}

/// A frame to the client.
#[derive(Clone, Debug)]
pub enum OutboundFrame {
    Text(TextFrame),
    /// The last frame of a connection.
    Close(CloseReason),
}

/// The failure that ended a socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error("the frame is too large")]
    TooLarge,
    #[error("the socket has failed")]
    Failed(#[source] BoxError),
}

/// A text frame as it goes over the wire, including its header. Encoded once and shared by all recipients.
#[derive(Clone, Debug)]
pub struct TextFrame {
    /// The frame header, followed by the text if it is short: one buffer less to write.
    first: Bytes,
    /// A long text, which is not copied.
    rest: Bytes,
}

impl TextFrame {
    /// Length of the longest header of an unmasked frame.
    const HEAD_BYTES_MAX: usize = 10;
    /// Texts up to this length are copied into the buffer of the header.
    const COPIED_BYTES_MAX: usize = 4096;

    pub fn new(text: Bytes) -> Self {
        let head = FrameHeader { opcode: OpCode::Data(Data::Text), ..FrameHeader::default() };
        let is_small = text.len() <= Self::COPIED_BYTES_MAX;
        let copied = if is_small { text.len() } else { 0 };
        let mut first = BytesMut::with_capacity(Self::HEAD_BYTES_MAX + copied).writer();
        head.format(text.len() as u64, &mut first).expect("memory takes all that is written to it");
        let mut first = first.into_inner();
        if is_small {
            first.extend_from_slice(&text);
        }
        Self { first: first.freeze(), rest: if is_small { Bytes::new() } else { text } }
    }

    /// The text alone.
    pub fn text(&self) -> Bytes {
        if !self.rest.is_empty() {
            return self.rest.clone();
        }
        // The second byte is the length of a short text, or indicates the number of length bytes that follow.
        let head_bytes = match self.first.get(1) {
            Some(126) => 4,
            Some(127) => 10,
            _ => 2,
        };
        self.first.slice(head_bytes..)
    }

    /// Bytes on the wire.
    pub fn size(&self) -> usize {
        self.first.len() + self.rest.len()
    }

    /// The buffers to write, in order.
    pub(crate) fn into_pieces(self) -> impl Iterator<Item = Bytes> {
        [self.first, self.rest].into_iter().filter(|piece| !piece.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_the_head_of_its_length_and_gives_its_text_back() {
        for (length, head) in [
            (0, vec![0x81, 0]),
            (1, vec![0x81, 1]),
            (125, vec![0x81, 125]),
            (126, vec![0x81, 126, 0, 126]),
            (4096, vec![0x81, 126, 16, 0]),
            (4097, vec![0x81, 126, 16, 1]),
            (70_000, vec![0x81, 127, 0, 0, 0, 0, 0, 1, 0x11, 0x70]),
        ] {
            let text = Bytes::from(vec![b'x'; length]);
            let frame = TextFrame::new(text.clone());
            assert_eq!(frame.text(), text, "{length}");
            assert_eq!(frame.size(), head.len() + length);
            let wire: Vec<u8> = frame.into_pieces().flatten().collect();
            assert_eq!(wire, [head, text.to_vec()].concat(), "{length}");
        }
    }

    #[test]
    fn a_large_text_is_not_copied() {
        let text = Bytes::from(vec![b'x'; 5000]);
        assert_eq!(TextFrame::new(text.clone()).text().as_ptr(), text.as_ptr());
    }
}
