use std::sync::{Arc, Mutex};

use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use client::{Client, ClientBuilder};
use domain::{ChatId, ConnectionId, ContentType, DeviceId, MessageId, Sequence, Timestamp, UserId};
use protocol::frame::{ClientFrame, ConnectionEstablished, Inbound, MessageBody, RequestId, ServerFrame, SyncResponse};
use protocol::rest::Tokens;
use serde_json::{Value, json};
use tokio::sync::mpsc;

pub(crate) const CHAT: &str = "chat_01ARZ3NDEKTSV4RRFFQ69G5FAV";
const USER: &str = "user_01ARZ3NDEKTSV4RRFFQ69G5FAV";

pub(crate) fn chat_id() -> ChatId {
    CHAT.parse().unwrap()
}

/// A server with one chat. Its REST responses are fixed; the test receives each WebSocket and writes every frame.
pub(crate) struct ScriptedServer {
    base_url: String,
    sockets: mpsc::Receiver<ScriptedSocket>,
    rules: Arc<Mutex<Rules>>,
}

/// The token state of the server.
pub(crate) struct Rules {
    pub(crate) good_token: String,
    pub(crate) refreshes: Vec<String>,
    pub(crate) refresh_works: bool,
}

#[derive(Clone)]
struct ScriptedState {
    sockets: mpsc::Sender<ScriptedSocket>,
    rules: Arc<Mutex<Rules>>,
}

impl ScriptedServer {
    pub(crate) async fn start() -> Self {
        let (sender, sockets) = mpsc::channel(4);
        let rules =
            Arc::new(Mutex::new(Rules { good_token: "token-1".into(), refreshes: vec![], refresh_works: true }));
        let router = Router::new()
            .route("/v1/ws", get(upgrade))
            .route("/api/v1/auth/refresh", post(refresh))
            .route("/api/v1/users/me", get(me))
            .route("/api/v1/chats", get(chats))
            .route("/api/v1/chats/{chat_id}", get(chat))
            .with_state(ScriptedState { sockets: sender, rules: Arc::clone(&rules) });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { base_url, sockets, rules }
    }

    pub(crate) fn base_url(&self) -> &str {
        &self.base_url
    }

    pub(crate) fn rules(&self) -> std::sync::MutexGuard<'_, Rules> {
        self.rules.lock().unwrap()
    }

    /// A client that holds `access_token`.
    pub(crate) fn client(&self, access_token: &str) -> Client {
        self.builder(access_token).build().unwrap()
    }

    pub(crate) fn builder(&self, access_token: &str) -> ClientBuilder {
        let tokens = Tokens {
            access_token: access_token.into(),
            refresh_token: "refresh-1".into(),
            token_type: "Bearer".to_owned(),
            expires_in: 3600,
        };
        Client::builder(&self.base_url).tokens(tokens)
    }

    pub(crate) async fn accept(&mut self) -> ScriptedSocket {
        self.sockets.recv().await.unwrap()
    }

    /// Accepts a connection and sends `connection_established`.
    pub(crate) async fn establish(&mut self) -> ScriptedSocket {
        let mut socket = self.accept().await;
        let established = ConnectionEstablished {
            connection_id: ConnectionId::from_bytes([1; 16]),
            user_id: USER.parse().unwrap(),
            device_id: DeviceId::from_bytes([1; 16]),
            server_time: Timestamp::default(),
            heartbeat_interval_ms: 5000,
            protocol_version: 1,
        };
        socket.say(None, ServerFrame::ConnectionEstablished(established)).await;
        socket
    }
}

/// The server's end of one connection.
pub(crate) struct ScriptedSocket {
    socket: WebSocket,
}

impl ScriptedSocket {
    pub(crate) async fn say(&mut self, request_id: Option<RequestId>, frame: ServerFrame) {
        let text = String::from_utf8(frame.encode(request_id.as_ref()).to_vec()).unwrap();
        self.socket.send(Message::Text(text.into())).await.unwrap();
    }

    pub(crate) async fn push(&mut self, sequence: u64) {
        self.say(None, ServerFrame::Message(message(sequence))).await;
    }

    /// The next frame of the client; `None` once it has closed the connection.
    pub(crate) async fn hear(&mut self) -> Option<Inbound> {
        loop {
            match self.socket.recv().await {
                Some(Ok(Message::Text(text))) => return Some(Inbound::parse(&text).unwrap()),
                Some(Ok(Message::Close(_))) | None | Some(Err(_)) => return None,
                Some(Ok(_)) => {}
            }
        }
    }

    /// Answers the client's first sync as if the chat held `sequences`, up to `head`.
    pub(crate) async fn serve_sync(&mut self, sequences: &[u64], head: u64) {
        let Inbound { request_id, frame } = self.hear().await.unwrap();
        let ClientFrame::SyncRequest(sync) = frame else { panic!("{frame:?}") };
        let page = SyncResponse {
            chat_id: sync.chat_id,
            messages: sequences.iter().map(|n| message(*n)).collect(),
            updates: vec![],
            updated_messages: vec![],
            has_more: false,
            next_sequence: None,
            head_sequence: Sequence(head),
        };
        self.say(request_id, ServerFrame::SyncResponse(page)).await;
    }
}

pub(crate) fn message(sequence: u64) -> MessageBody<'static> {
    MessageBody {
        message_id: MessageId::from_bytes([1; 16]),
        chat_id: chat_id(),
        sequence: Sequence(sequence),
        sender_id: UserId::from_bytes([3; 16]),
        content: format!("message {sequence}").into(),
        content_type: ContentType::Text,
        metadata: None,
        created_at: Timestamp::default(),
        expires_at: None,
        client_message_id: None,
        state: None,
    }
}

fn is_authorized(shared: &ScriptedState, headers: &HeaderMap) -> bool {
    headers
        .get("authorization")
        .is_some_and(|value| value.to_str().unwrap() == format!("Bearer {}", shared.rules.lock().unwrap().good_token))
}

fn refused() -> Response {
    let body = json!({ "error": { "code": "UNAUTHORIZED", "message": "no", "request_id": "r" } });
    (StatusCode::UNAUTHORIZED, [("retry-after", "7")], Json(body)).into_response()
}

async fn upgrade(State(shared): State<ScriptedState>, headers: HeaderMap, upgrade: WebSocketUpgrade) -> Response {
    if !is_authorized(&shared, &headers) {
        return refused();
    }
    upgrade.on_upgrade(move |socket| async move { shared.sockets.send(ScriptedSocket { socket }).await.unwrap() })
}

async fn refresh(State(shared): State<ScriptedState>, Json(body): Json<Value>) -> Response {
    let mut rules = shared.rules.lock().unwrap();
    rules.refreshes.push(body["refresh_token"].as_str().unwrap().to_owned());
    if !rules.refresh_works {
        return refused();
    }
    rules.good_token = "token-2".to_owned();
    let tokens = json!({
        "access_token": "token-2", "refresh_token": "refresh-2", "token_type": "Bearer", "expires_in": 3600
    });
    Json(json!({ "data": { "tokens": tokens } })).into_response()
}

async fn me(State(shared): State<ScriptedState>, headers: HeaderMap) -> Response {
    if !is_authorized(&shared, &headers) {
        return refused();
    }
    let me = json!({
        "user_id": USER, "display_name": "Ann", "phone_number": "+14155550100", "presence_visibility": "everyone",
        "created_at": "2026-01-30T14:30:00.000Z", "updated_at": "2026-01-30T14:30:00.000Z"
    });
    Json(json!({ "data": me })).into_response()
}

async fn chats() -> Json<Value> {
    let pagination = json!({ "next_cursor": null, "has_more": false });
    Json(json!({ "data": { "chats": [summary(CHAT)] }, "pagination": pagination }))
}

async fn chat(Path(chat_id): Path<String>) -> Json<Value> {
    let mut details = summary(&chat_id);
    details["members"] = json!([]);
    Json(json!({ "data": details }))
}

fn summary(chat_id: &str) -> Value {
    json!({
        "chat_id": chat_id, "type": "direct", "name": null, "member_count": 2, "other_participants": [],
        "created_at": "2026-01-30T14:30:00.000Z", "last_message": null, "last_message_at": null, "unread_count": 0,
        "my_membership": { "role": "member", "muted_until": null },
        "head_sequence": 1, "my_read_sequence": 0, "my_delivered_sequence": 0
    })
}
