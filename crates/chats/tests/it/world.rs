use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use auth::{Auth, FixedSender, KeyRing};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::connect_info::MockConnectInfo;
use axum::http::{HeaderMap, Method, Request};
use domain::{DeviceId, ExternalId, PhoneNumber, PresenceView, PushDevice, PushTarget, Timestamp, User, UserId};
use ingest::Ingester;
use memory::{ManualClock, MemoryLimits, MemoryMemberCache, MemoryRoutes, MemoryStore, MemoryTickets, SequentialIds};
use ports::{
    Clock, Delivery, GatewayId, Ids, Notification, Notifier, NotifyError, PresenceNotifier, PresenceUpdate, Push,
    Revocation, Route, RouteWriter, Signal, SignalSender, StoreError, UnusableTarget, UserReader,
};
use presence::{PendingRechecks, Presence};
use serde_json::{Value, json};
use tempfile::TempDir;
use tidings_chats::{Accounts, Api, Limits};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tower::ServiceExt;

pub(crate) const NO_LIMITS: Limits = Limits {
    rest_read: None,
    rest_write: None,
    lookup_numbers: None,
    send_per_chat: None,
    send_per_user: None,
    exports: None,
    groups_created: None,
    members_added: None,
    message_kib: None,
    message_kib_total: None,
    chats_per_user: None,
};
pub(crate) const NO_AUTH_LIMITS: auth::Limits = auth::Limits::OFF;
pub(crate) const CODE: &str = "000000";
/// A well-formed id that no user has.
pub(crate) const NOBODY: &str = "user_7ZZZZZZZZZZZZZZZZZZZZZZZZZ";
pub(crate) const NO_CHAT: &str = "chat_7ZZZZZZZZZZZZZZZZZZZZZZZZZ";

/// The API and its dependencies.
pub(crate) struct World {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) ids: Arc<SequentialIds>,
    pub(crate) sockets: Arc<RevocationRecorder>,
    pub(crate) told: Arc<PresenceRecorder>,
    routes: Arc<MemoryRoutes>,
    app: Router,
    people: AtomicU8,
    /// Keep the durability plane and the key file alive.
    _tasks: JoinSet<()>,
    _directory: TempDir,
}

/// A user who is signed in on a device.
pub(crate) struct ApiTestUser {
    pub(crate) user_id: String,
    pub(crate) phone_number: String,
    pub(crate) device_id: String,
    pub(crate) access_token: String,
    pub(crate) refresh_token: String,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(NO_LIMITS, NO_AUTH_LIMITS)
    }

    pub(crate) fn with(limits: Limits, auth_limits: auth::Limits) -> Self {
        Self::build(limits, auth_limits, |api| api)
    }

    /// A world whose API is changed before it opens.
    pub(crate) fn build(limits: Limits, auth_limits: auth::Limits, change: impl FnOnce(Api) -> Api) -> Self {
        let directory = TempDir::new().unwrap();
        // 2026-01-30T14:30:00Z.
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_769_783_400_000)));
        let ids = Arc::new(SequentialIds::default());
        let store = Arc::new(MemoryStore::new(ids.clone()));
        let limiter = Arc::new(MemoryLimits::new(clock.clone()));
        let sockets = Arc::new(RevocationRecorder::default());
        let told = Arc::new(PresenceRecorder::default());
        let routes = Arc::new(MemoryRoutes::new(clock.clone(), Duration::from_secs(15)));
        let mut tasks = JoinSet::new();

        let auth_config =
            auth::Config { limits: auth_limits, fixed_code: Some(CODE.to_owned()), ..auth::Config::default() };
        let keys = Arc::new(KeyRing::open(directory.path(), &auth_config, clock.now()).unwrap());
        let auth_ports = auth::Ports {
            users: store.clone(),
            user_reader: store.clone(),
            sessions: store.clone(),
            restrictions: store.clone(),
            passkeys: store.clone(),
            codes: store.clone(),
            tickets: Arc::new(MemoryTickets::new(clock.clone())),
            limits: limiter.clone(),
            otp: Arc::new(FixedSender),
            delivery: sockets.clone(),
            security: Arc::new(ports::NoSecurityEvents),
            clock: clock.clone(),
            ids: ids.clone(),
        };
        let ingest_ports = ingest::Ports {
            writer: store.clone(),
            messages: store.clone(),
            chats: store.clone(),
            watermarks: store.clone(),
            signals: Arc::new(NullPorts),
            clock: clock.clone(),
            ids: ids.clone(),
        };
        let presence = Presence {
            routes: routes.clone(),
            transitions: routes.clone(),
            notifier: told.clone(),
            users: store.clone(),
            last_seen: store.clone(),
            contacts: store.clone(),
            blocks: store.clone(),
            chats: store.clone(),
            messages: store.clone(),
            clock: clock.clone(),
            rechecks: PendingRechecks::default(),
        };
        let auth = Auth::new(auth_ports, keys, auth_config).unwrap();
        let members = Arc::new(MemoryMemberCache::new(clock.clone()));
        let accounts = Arc::new(Accounts {
            auth: auth.clone(),
            store: store.clone(),
            expirer: store.clone(),
            users: store.clone(),
            chats: store.clone(),
            chat_writer: store.clone(),
            members: members.clone(),
            messages: store.clone(),
            watermarks: store.clone(),
            contacts: store.clone(),
            blocks: store.clone(),
            invitations: store.clone(),
            reports: store.clone(),
            passkeys: store.clone(),
            push_devices: store.clone(),
            security: Arc::new(ports::NoSecurityEvents),
            clock: clock.clone(),
            begun: Notify::new(),
        });
        let deleting = accounts.clone();
        tasks.spawn(async move { deleting.run().await });
        let api = Api {
            auth,
            ingest: Arc::new(Ingester::start(ingest::Config::default(), ingest_ports, &mut tasks)),
            messages: store.clone(),
            chats: store.clone(),
            chat_writer: store.clone(),
            members,
            users: store.clone(),
            user_writer: store.clone(),
            contacts: store.clone(),
            blocks: store.clone(),
            invitations: store.clone(),
            reports: store.clone(),
            accounts,
            presence: Arc::new(presence),
            watermarks: store.clone(),
            push_devices: store.clone(),
            notifier: Arc::new(NullPorts),
            web_push_public_key: Some("the public key".to_owned()),
            requests: store.clone(),
            limiter,
            security: Arc::new(ports::NoSecurityEvents),
            clock: clock.clone(),
            update_window: None,
            ids: ids.clone(),
            limits,
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 4711));
        let app = tidings_chats::router(change(api), Router::new()).layer(MockConnectInfo(address));
        let people = AtomicU8::new(0);
        Self { store, clock, ids, sockets, told, routes, app, people, _tasks: tasks, _directory: directory }
    }

    /// Signs up a new user.
    pub(crate) async fn person(&self, name: &str) -> ApiTestUser {
        let n = self.people.fetch_add(1, Ordering::Relaxed);
        self.sign_in(&format!("+14155550{n:03}"), &format!("00000000-0000-4000-8000-000000000{n:03}"), name).await
    }

    /// Signs in on a device, with a phone that may be known.
    pub(crate) async fn sign_in(&self, phone_number: &str, device_id: &str, name: &str) -> ApiTestUser {
        let asked = self.call("POST", "/auth/request-otp", None, Some(json!({ "phone_number": phone_number }))).await;
        assert_eq!(asked.status, 200, "{asked:?}");
        let verify = json!({ "phone_number": phone_number, "otp": CODE, "device_id": device_id, "display_name": name });
        let signed_in = self.call("POST", "/auth/verify-otp", None, Some(verify)).await;
        let text = |pointer| signed_in.data().pointer(pointer).unwrap().as_str().unwrap().to_owned();
        ApiTestUser {
            user_id: text("/user/user_id"),
            phone_number: phone_number.to_owned(),
            device_id: device_id.to_owned(),
            access_token: text("/tokens/access_token"),
            refresh_token: text("/tokens/refresh_token"),
        }
    }

    /// Registers a connection of a user at a gateway.
    pub(crate) async fn connect(&self, person: &ApiTestUser) -> Route {
        let route = Route {
            connection_id: self.ids.ulid().into(),
            user_id: person.user_id.parse().unwrap(),
            device_id: person.device_id.parse::<DeviceId>().unwrap(),
            gateway: GatewayId("gateway".into()),
            connected_at: self.clock.now(),
        };
        self.routes.heartbeat(&route.gateway).await.unwrap();
        self.routes.register(&route).await.unwrap();
        route
    }

    /// Ends a connection.
    pub(crate) async fn disconnect(&self, route: Route) {
        self.routes.unregister(&[route], Duration::ZERO).await.unwrap();
    }

    pub(crate) async fn get(&self, by: &ApiTestUser, path: &str) -> ApiAnswer {
        self.call("GET", path, Some(by), None).await
    }

    pub(crate) async fn post(&self, by: &ApiTestUser, path: &str, body: Value) -> ApiAnswer {
        self.call("POST", path, Some(by), Some(body)).await
    }

    pub(crate) async fn patch(&self, by: &ApiTestUser, path: &str, body: Value) -> ApiAnswer {
        self.call("PATCH", path, Some(by), Some(body)).await
    }

    pub(crate) async fn put(&self, by: &ApiTestUser, path: &str, body: Value) -> ApiAnswer {
        self.call("PUT", path, Some(by), Some(body)).await
    }

    pub(crate) async fn delete(&self, by: &ApiTestUser, path: &str) -> ApiAnswer {
        self.call("DELETE", path, Some(by), None).await
    }

    /// A request under `/api/v1`.
    pub(crate) async fn call(
        &self,
        method: &str,
        path: &str,
        by: Option<&ApiTestUser>,
        body: Option<Value>,
    ) -> ApiAnswer {
        let body = body.map_or(Body::empty(), |body| Body::from(body.to_string()));
        let mut request = request(method, &format!("/api/v1{path}"), body);
        if let Some(person) = by {
            let value = format!("Bearer {}", person.access_token).parse().unwrap();
            request.headers_mut().insert("authorization", value);
        }
        self.send(request).await
    }

    /// A POST with an idempotency key.
    pub(crate) async fn post_once(&self, by: &ApiTestUser, path: &str, key: &str, body: Value) -> ApiAnswer {
        let mut request = request("POST", &format!("/api/v1{path}"), Body::from(body.to_string()));
        let token = format!("Bearer {}", by.access_token).parse().unwrap();
        request.headers_mut().insert("authorization", token);
        request.headers_mut().insert("idempotency-key", key.parse().unwrap());
        self.send(request).await
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> ApiAnswer {
        let response = self.app.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
        ApiAnswer { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    /// A direct chat of two, by its id.
    pub(crate) async fn direct(&self, by: &ApiTestUser, other: &ApiTestUser) -> String {
        let body = json!({ "type": "direct", "member_ids": [other.user_id] });
        self.post(by, "/chats", body).await.text("/chat_id")
    }

    /// A group, by its id.
    pub(crate) async fn group(&self, by: &ApiTestUser, others: &[&ApiTestUser]) -> String {
        let member_ids: Vec<_> = others.iter().map(|person| &person.user_id).collect();
        let body = json!({ "type": "group", "name": "team", "member_ids": member_ids });
        self.post(by, "/chats", body).await.text("/chat_id")
    }

    /// Sends a message and returns its acknowledgement.
    pub(crate) async fn say(&self, by: &ApiTestUser, chat_id: &str, content: &str) -> Value {
        let body = json!({ "client_message_id": self.uuid(), "content": content });
        let answer = self.post(by, &format!("/chats/{chat_id}/messages"), body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.data().clone()
    }

    /// A unique uuid.
    pub(crate) fn uuid(&self) -> String {
        format!("00000000-0000-4000-9000-{:012}", u128::from(self.ids.ulid()))
    }
}

pub(crate) fn request(method: &str, uri: &str, body: Body) -> Request<Body> {
    Request::builder().method(Method::from_bytes(method.as_bytes()).unwrap()).uri(uri).body(body).unwrap()
}

#[derive(Debug)]
pub(crate) struct ApiAnswer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl ApiAnswer {
    /// The `data` of a success.
    #[track_caller]
    pub(crate) fn data(&self) -> &Value {
        self.body.get("data").unwrap_or_else(|| panic!("no success: {self:?}"))
    }

    /// A string in `data`.
    #[track_caller]
    pub(crate) fn text(&self, pointer: &str) -> String {
        self.data().pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }

    /// Status and code of a failure.
    #[track_caller]
    pub(crate) fn failure(&self) -> (u16, &str) {
        (self.status, self.body.pointer("/error/code").and_then(Value::as_str).unwrap_or("no failure"))
    }

    /// The field that a validation error names.
    pub(crate) fn field(&self) -> &str {
        self.body.pointer("/error/details/field_errors/0/field").and_then(Value::as_str).unwrap_or("no field")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// One value of each entry of a list in `data`.
    #[track_caller]
    pub(crate) fn each(&self, list: &str, key: &str) -> Vec<&Value> {
        self.data()[list].as_array().unwrap_or_else(|| panic!("{self:?}")).iter().map(|entry| &entry[key]).collect()
    }
}

/// Records the sessions that the API revoked.
#[derive(Default)]
pub(crate) struct RevocationRecorder(Mutex<Vec<Revocation>>);

impl RevocationRecorder {
    pub(crate) fn closed(&self) -> usize {
        let revocations = self.0.lock().unwrap();
        revocations.iter().filter(|revocation| matches!(revocation, Revocation::Session(_))).count()
    }
}

#[async_trait]
impl Delivery for RevocationRecorder {
    async fn deliver(&self, _: &GatewayId, _: &[Push]) -> Result<(), StoreError> {
        unreachable!("the API pushes nothing")
    }

    async fn revoke(&self, revocation: Revocation) -> Result<(), StoreError> {
        self.0.lock().unwrap().push(revocation);
        Ok(())
    }
}

/// Records the presence changes that were announced to gateways.
#[derive(Default)]
pub(crate) struct PresenceRecorder(Mutex<Vec<(UserId, PresenceView)>>);

impl PresenceRecorder {
    /// The changes that were announced since the last call.
    pub(crate) fn take(&self) -> Vec<(String, PresenceView)> {
        let told = std::mem::take(&mut *self.0.lock().unwrap());
        told.into_iter().map(|(user_id, view)| (user_id.to_string(), view)).collect()
    }
}

#[async_trait]
impl PresenceNotifier for PresenceRecorder {
    async fn notify(&self, _: &GatewayId, updates: Vec<PresenceUpdate>) -> Result<(), StoreError> {
        self.0.lock().unwrap().extend(updates.into_iter().map(|updates| (updates.user_id, updates.view)));
        Ok(())
    }
}

/// Discards signals and accepts most push targets.
pub(crate) struct NullPorts;

#[async_trait]
impl SignalSender for NullPorts {
    async fn signal(&self, _: Signal) -> Result<bool, StoreError> {
        Ok(true)
    }
}

#[async_trait]
impl Notifier for NullPorts {
    fn check(&self, target: &PushTarget) -> Result<(), UnusableTarget> {
        match target {
            PushTarget::Webhook(token) if token.as_str() == "off" => Err(UnusableTarget::ProviderOff("webhook")),
            PushTarget::WebPush(subscription) if !subscription.endpoint().starts_with("https://") => {
                Err(UnusableTarget::Subscription("is not https".to_owned()))
            }
            _ => Ok(()),
        }
    }

    async fn notify(&self, _: &PushDevice, _: &Notification) -> Result<(), NotifyError> {
        unreachable!("the API tells nobody")
    }
}

/// A store that never responds.
pub(crate) struct Hanging;

#[async_trait]
impl UserReader for Hanging {
    async fn users(&self, _: &[UserId]) -> Result<Vec<Option<User>>, StoreError> {
        std::future::pending().await
    }

    async fn by_phone(&self, _: &[PhoneNumber]) -> Result<Vec<Option<User>>, StoreError> {
        std::future::pending().await
    }

    async fn by_external_id(&self, _: &str, _: &ExternalId) -> Result<Option<User>, StoreError> {
        std::future::pending().await
    }
}

/// A store that is unavailable.
pub(crate) struct UnavailableUserReader;

#[async_trait]
impl UserReader for UnavailableUserReader {
    async fn users(&self, _: &[UserId]) -> Result<Vec<Option<User>>, StoreError> {
        Err(StoreError::unavailable("table users-7 of host db-3 is away"))
    }

    async fn by_phone(&self, _: &[PhoneNumber]) -> Result<Vec<Option<User>>, StoreError> {
        Err(StoreError::unavailable("table users-7 of host db-3 is away"))
    }

    async fn by_external_id(&self, _: &str, _: &ExternalId) -> Result<Option<User>, StoreError> {
        Err(StoreError::unavailable("table users-7 of host db-3 is away"))
    }
}
