use std::collections::VecDeque;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};
use uuid::Uuid;

use super::PATIENCE;

/// A WebSocket that sends exactly what a test specifies, and keeps every received frame.
pub(crate) struct TestSocket {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// Frames that were skipped while looking for another.
    passed_over: VecDeque<Value>,
}

/// How the server closed a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SocketClose {
    pub(crate) code: u16,
    pub(crate) reason: String,
}

impl TestSocket {
    pub(crate) async fn open(request: Request) -> Self {
        Self::try_open(request).await.unwrap_or_else(|refusal| panic!("the handshake is refused: {refusal}"))
    }

    pub(crate) async fn try_open(request: Request) -> Result<Self, tungstenite::Error> {
        let connecting = Box::pin(tokio_tungstenite::connect_async(request));
        let (stream, _) = timeout(PATIENCE, connecting).await.expect("a handshake is answered")?;
        Ok(Self { stream, passed_over: VecDeque::new() })
    }

    /// A connection with a small receive window, so that the server can buffer little.
    pub(crate) async fn open_with_small_window(request: Request) -> Self {
        let address = request.uri().authority().unwrap().as_str().parse().unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let stream = MaybeTlsStream::Plain(socket.connect(address).await.unwrap());
        let (stream, _) = Box::pin(tokio_tungstenite::client_async(request, stream)).await.unwrap();
        Self { stream, passed_over: VecDeque::new() }
    }

    /// Sends a frame.
    pub(crate) async fn send(&mut self, frame: Value) {
        self.send_raw(Message::text(frame.to_string())).await;
    }

    /// Sends any message.
    pub(crate) async fn send_raw(&mut self, message: Message) {
        timeout(PATIENCE, self.stream.send(message)).await.expect("the server reads").unwrap();
    }

    /// Sends a message that a closing server may never read.
    pub(crate) async fn try_send_raw(&mut self, message: Message) {
        // The next read reports a failure, with its cause.
        let _ = timeout(PATIENCE, self.stream.send(message)).await.expect("the server reads or closes");
    }

    /// Sends frames in one go.
    pub(crate) async fn send_all(&mut self, frames: impl IntoIterator<Item = Value>) {
        for frame in frames {
            self.stream.feed(Message::text(frame.to_string())).await.unwrap();
        }
        timeout(PATIENCE, self.stream.flush()).await.expect("the server reads").unwrap();
    }

    /// The next frame.
    pub(crate) async fn next(&mut self) -> Value {
        match self.passed_over.pop_front() {
            Some(frame) => frame,
            None => self.read().await.unwrap_or_else(|closed| panic!("closed: {closed:?}")),
        }
    }

    /// The next frame of a type. Skipped frames stay readable.
    pub(crate) async fn next_of(&mut self, frame_type: &str) -> Value {
        self.find(|frame| frame["type"] == frame_type).await
    }

    /// The response to a request. Skipped frames stay readable.
    pub(crate) async fn answer(&mut self, request_id: &str) -> Value {
        self.find(|frame| frame["request_id"] == request_id).await
    }

    /// Sends a frame with a new request id, and returns the response.
    pub(crate) async fn ask(&mut self, frame_type: &str, payload: Value) -> Value {
        let request_id = Uuid::new_v4().to_string();
        self.send(json!({ "type": frame_type, "request_id": request_id, "payload": payload })).await;
        self.answer(&request_id).await
    }

    /// Sends text messages in one go, without waiting for acks; request ids count from 1.
    pub(crate) async fn send_messages(&mut self, chat_id: &str, contents: &[String]) {
        for (content, place) in contents.iter().zip(1..) {
            let payload = json!({ "client_message_id": Uuid::new_v4(), "chat_id": chat_id, "content": content });
            let frame = json!({ "type": "send_message", "request_id": place.to_string(), "payload": payload });
            self.stream.feed(Message::text(frame.to_string())).await.unwrap();
        }
        timeout(PATIENCE, self.stream.flush()).await.expect("the server reads").unwrap();
    }

    /// Sends a text message and returns the payload of its acknowledgement.
    pub(crate) async fn send_message(&mut self, chat_id: &str, content: &str) -> Value {
        let payload = json!({ "client_message_id": Uuid::new_v4(), "chat_id": chat_id, "content": content });
        let mut answer = self.ask("send_message", payload).await;
        assert_eq!(answer["type"], "send_message_ack", "{answer}");
        answer["payload"].take()
    }

    /// Every message of a chat by sync, from the first one to the head.
    pub(crate) async fn sync_all(&mut self, chat_id: &str) -> Vec<Value> {
        let mut messages = Vec::new();
        let mut after = 0;
        loop {
            let cursor = json!({ "chat_id": chat_id, "last_acked_sequence": after, "limit": 500 });
            let mut page = self.ask("sync_request", cursor).await;
            let Value::Array(found) = page["payload"]["messages"].take() else { panic!("{page}") };
            messages.extend(found);
            match page["payload"]["next_sequence"].as_u64() {
                Some(next) => after = next - 1,
                None => return messages,
            }
        }
    }

    /// Every frame that the server sent to this connection before its response to a heartbeat sent now. Chat creation
    /// events are left out: they may arrive late, on a connection that is younger than the chat.
    pub(crate) async fn heard_so_far(&mut self) -> Vec<Value> {
        self.ask("heartbeat", json!({})).await;
        self.passed_over.drain(..).filter(|frame| frame["payload"]["change"] != "created").collect()
    }

    /// Reads to the end: the remaining frames, and the close.
    pub(crate) async fn rest(&mut self) -> (Vec<Value>, SocketClose) {
        let mut frames: Vec<Value> = self.passed_over.drain(..).collect();
        loop {
            match self.read().await {
                Ok(frame) => frames.push(frame),
                Err(Some(closed)) => return (frames, closed),
                Err(None) => panic!("the connection broke after {frames:?}"),
            }
        }
    }

    /// Whether only the end of the stream follows the server's close. A reset could overtake it.
    pub(crate) async fn ends_in_order(&mut self) -> bool {
        timeout(PATIENCE, self.stream.next()).await.expect("the server ends the stream").is_none()
    }

    /// Reads to the end, and returns the close. The last frame has the reason.
    pub(crate) async fn closed(&mut self) -> SocketClose {
        let (frames, closed) = self.rest().await;
        let last = frames.last().unwrap_or_else(|| panic!("no frame before {closed:?}"));
        assert_eq!((&last["type"], &last["payload"]["reason"]), (&json!("connection_closing"), &json!(closed.reason)));
        closed
    }

    /// Closes the connection.
    pub(crate) async fn leave(mut self) {
        self.stream.close(None).await.unwrap();
    }

    /// The next matching frame. Skipped frames stay readable.
    pub(crate) async fn find(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(position) = self.passed_over.iter().position(&wanted) {
            return self.passed_over.remove(position).expect("it was just found");
        }
        loop {
            let frame = self.read().await.unwrap_or_else(|closed| panic!("closed: {closed:?}, {:?}", self.passed_over));
            if wanted(&frame) {
                return frame;
            }
            self.passed_over.push_back(frame);
        }
    }

    /// The next frame from the socket, or its close; `None` in the error if the connection broke.
    pub(crate) async fn read(&mut self) -> Result<Value, Option<SocketClose>> {
        loop {
            let next = timeout(PATIENCE, self.stream.next()).await;
            let message = next.unwrap_or_else(|_| panic!("nothing comes after {:?}", self.passed_over));
            match message {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(Some(close)))) => {
                    return Err(Some(SocketClose { code: close.code.into(), reason: close.reason.to_string() }));
                }
                Some(Ok(Message::Close(None)) | Err(_)) | None => return Err(None),
                Some(Ok(_)) => {}
            }
        }
    }
}

/// The sequences of the messages in the payload of a `sync_response`, or in a page of history.
#[track_caller]
pub(crate) fn sequences(page: &Value) -> Vec<u64> {
    let messages = page["messages"].as_array().unwrap_or_else(|| panic!("{page} has no messages"));
    messages.iter().map(|message| message["sequence"].as_u64().unwrap()).collect()
}
