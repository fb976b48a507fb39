use std::time::{Duration, Instant};

use http::header::HeaderMap;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use uuid::Uuid;

use super::{PATIENCE, TestSocket};

/// A device with a signed-in user.
#[derive(Clone)]
pub(crate) struct TestDevice {
    http: reqwest::Client,
    base_url: String,
    pub(crate) phone_number: String,
    pub(crate) user_id: String,
    pub(crate) device_id: Uuid,
    pub(crate) session_id: String,
    pub(crate) access_token: String,
    pub(crate) refresh_token: String,
}

impl TestDevice {
    pub(crate) async fn sign_in(http: reqwest::Client, base_url: &str, phone_number: &str, display_name: &str) -> Self {
        let device_id = Uuid::new_v4();
        let post = |path: &str, body: Value| http.post(format!("{base_url}/api/v1{path}")).json(&body);
        RestResponse::of(post("/auth/request-otp", json!({ "phone_number": phone_number }))).await.data(200);
        let mut body = json!({ "phone_number": phone_number, "otp": "000000", "device_id": device_id });
        if !display_name.is_empty() {
            body["display_name"] = display_name.into();
        }
        let answer = RestResponse::of(post("/auth/verify-otp", body)).await;
        assert!(answer.status.is_success(), "{answer:?}");
        let data = &answer.body["data"];
        Self {
            http: http.clone(),
            base_url: base_url.to_owned(),
            phone_number: phone_number.to_owned(),
            user_id: text(&data["user"]["user_id"]),
            device_id,
            session_id: text(&data["session"]["session_id"]),
            access_token: text(&data["tokens"]["access_token"]),
            refresh_token: text(&data["tokens"]["refresh_token"]),
        }
    }

    /// The same device, calling another process.
    pub(crate) fn at(&self, base_url: &str) -> Self {
        Self { base_url: base_url.to_owned(), ..self.clone() }
    }

    /// A call without a token, to be completed. The path begins at the root.
    pub(crate) fn anonymous(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base_url))
    }

    /// A REST call of this device, to be completed. The path begins after `/api/v1`.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}/api/v1{path}", self.base_url)).bearer_auth(&self.access_token)
    }

    pub(crate) async fn get(&self, path: &str) -> RestResponse {
        RestResponse::of(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> RestResponse {
        RestResponse::of(self.request(Method::POST, path).json(&body)).await
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> RestResponse {
        RestResponse::of(self.request(Method::PATCH, path).json(&body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> RestResponse {
        RestResponse::of(self.request(Method::PUT, path).json(&body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> RestResponse {
        RestResponse::of(self.request(Method::DELETE, path)).await
    }

    /// The direct chat with another user.
    pub(crate) async fn direct_chat(&self, other: &TestDevice) -> String {
        let chat = self.post("/chats", json!({ "type": "direct", "member_ids": [other.user_id] })).await;
        text(&chat.data(201)["chat_id"])
    }

    /// A new group of this user and others.
    pub(crate) async fn group(&self, name: &str, others: &[&TestDevice]) -> String {
        let member_ids: Vec<_> = others.iter().map(|other| &other.user_id).collect();
        let chat = self.post("/chats", json!({ "type": "group", "name": name, "member_ids": member_ids })).await;
        text(&chat.data(201)["chat_id"])
    }

    /// Sends over HTTP and returns the acknowledgement.
    pub(crate) async fn send(&self, chat_id: &str, content: &str) -> Value {
        let body = json!({ "client_message_id": Uuid::new_v4(), "content": content });
        self.post(&format!("/chats/{chat_id}/messages"), body).await.data(201)
    }

    /// A handshake request with headers.
    pub(crate) fn handshake(&self) -> Request {
        let mut request = self.handshake_without_headers("");
        let headers = request.headers_mut();
        headers.insert("authorization", format!("Bearer {}", self.access_token).parse().unwrap());
        headers.insert("x-device-id", self.device_id.to_string().parse().unwrap());
        request
    }

    /// A handshake request with everything in its query.
    pub(crate) fn handshake_without_headers(&self, query: &str) -> Request {
        let address = self.base_url.strip_prefix("http").expect("it is an HTTP URL");
        format!("ws{address}/v1/ws{query}").into_client_request().unwrap()
    }

    /// An established connection, retried until the server accepts it.
    pub(crate) async fn connect_eventually(&self) -> TestSocket {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match TestSocket::try_open(self.handshake()).await {
                Ok(socket) => return self.established(socket).await,
                Err(refusal) => assert!(Instant::now() < deadline, "the handshake is refused: {refusal}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// An established connection.
    pub(crate) async fn connect(&self) -> TestSocket {
        self.established(TestSocket::open(self.handshake()).await).await
    }

    async fn established(&self, mut socket: TestSocket) -> TestSocket {
        let established = socket.next().await;
        assert_eq!(established["type"], "connection_established", "{established}");
        assert_eq!(established["payload"]["user_id"], self.user_id);
        socket
    }
}

/// The response to a REST call.
#[derive(Debug)]
pub(crate) struct RestResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// Null without a body.
    pub(crate) body: Value,
}

impl RestResponse {
    /// The status, with the error code if there is one.
    pub(crate) fn outcome(&self) -> String {
        match self.body["error"]["code"].as_str() {
            Some(code) => format!("{} {code}", self.status.as_u16()),
            None => self.status.as_u16().to_string(),
        }
    }

    pub(crate) async fn of(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        let bytes = response.bytes().await.unwrap();
        let body = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).unwrap() };
        Self { status, headers, body }
    }

    /// The data of a successful response; asserts the status.
    #[track_caller]
    pub(crate) fn data(mut self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body["data"].take()
    }

    /// Asserts the status and code of a failure, and returns the rest of it.
    #[track_caller]
    pub(crate) fn refused(mut self, status: u16, code: &str) -> Value {
        assert_eq!((self.status.as_u16(), &self.body["error"]["code"]), (status, &json!(code)), "{}", self.body);
        self.body["error"].take()
    }

    /// The text of a header; empty without it.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// The text that a value is.
#[track_caller]
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a text")).to_owned()
}
