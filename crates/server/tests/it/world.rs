use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use auth::{Auth, FixedSender, KeyRing};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::connect_info::MockConnectInfo;
use axum::http::Request;
use domain::{PushDevice, PushTarget, SessionId, Timestamp};
use ingest::Ingester;
use memory::{ManualClock, MemoryLimits, MemoryMemberCache, MemoryRoutes, MemoryTickets};
use ports::{
    AccountStore, BlockStore, ChatReader, ChatWriter, Clock, CodeStore, ContactStore, Delivery, GatewayId, Ids, Ingest,
    LastSeenStore, MessageExpirer, MessageReader, MessageWriter, Notification, Notifier, NotifyError, PresenceNews,
    Push, PushDeviceStore, RandomIds, ReportStore, RequestStore, SessionStore, Signal, Signals, StoreError,
    UnusableTarget, UserReader, UserWriter, Watchers, WatermarkStore,
};
use presence::{Doubts, Presence};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tower::ServiceExt;

/// A store of any kind.
pub(crate) trait Store:
    MessageWriter
    + MessageReader
    + ChatWriter
    + ChatReader
    + UserWriter
    + UserReader
    + WatermarkStore
    + SessionStore
    + CodeStore
    + RequestStore
    + PushDeviceStore
    + ContactStore
    + LastSeenStore
    + BlockStore
    + ReportStore
    + AccountStore
    + MessageExpirer
    + 'static
{
}

impl Store for memory::MemoryStore {}
impl Store for embedded::EmbeddedStore {}

/// The API over one store.
pub(crate) struct World {
    pub(crate) ingest: Arc<dyn Ingest>,
    app: Router,
    /// Keep the lanes and the key file alive.
    _lanes: JoinSet<()>,
    _directory: TempDir,
}

/// Somebody who is signed in.
#[derive(Clone)]
pub(crate) struct Person {
    pub(crate) user_id: String,
    token: String,
}

impl World {
    pub(crate) fn new(store: Arc<impl Store>, clock: Arc<ManualClock>) -> Self {
        let directory = TempDir::new().unwrap();
        let ids: Arc<dyn Ids> = Arc::new(RandomIds);
        let limiter = Arc::new(MemoryLimits::new(clock.clone()));
        let auth_limits = auth::Limits {
            otp_request_per_phone: None,
            otp_request_per_ip: None,
            otp_verify_per_ip: None,
            refresh: None,
        };
        let auth_config =
            auth::Config { limits: auth_limits, fixed_code: Some("000000".to_owned()), ..auth::Config::default() };
        let keys = Arc::new(KeyRing::open(directory.path(), &auth_config, clock.now()).unwrap());
        let auth_ports = auth::Ports {
            users: store.clone(),
            sessions: store.clone(),
            codes: store.clone(),
            tickets: Arc::new(MemoryTickets::new(clock.clone())),
            limits: limiter.clone(),
            otp: Arc::new(FixedSender),
            delivery: Arc::new(Nobody),
            clock: clock.clone(),
            ids: ids.clone(),
        };
        let ingest_ports = ingest::Ports {
            writer: store.clone(),
            messages: store.clone(),
            chats: store.clone(),
            watermarks: store.clone(),
            signals: Arc::new(Nobody),
            clock: clock.clone(),
            ids: ids.clone(),
        };
        let mut lanes = JoinSet::new();
        let ingest: Arc<dyn Ingest> = Arc::new(Ingester::start(ingest::Config::default(), ingest_ports, &mut lanes));
        let routes = Arc::new(MemoryRoutes::new(clock.clone(), Duration::from_secs(15)));
        let presence = Presence {
            routes: routes.clone(),
            transitions: routes,
            watchers: Arc::new(Nobody),
            users: store.clone(),
            last_seen: store.clone(),
            contacts: store.clone(),
            blocks: store.clone(),
            chats: store.clone(),
            messages: store.clone(),
            clock: clock.clone(),
            doubts: Doubts::default(),
        };
        let auth = Auth::new(auth_ports, keys, auth_config).unwrap();
        let members = Arc::new(MemoryMemberCache::new(clock.clone()));
        let accounts = chats::Accounts {
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
            reports: store.clone(),
            push_devices: store.clone(),
            clock: clock.clone(),
            begun: tokio::sync::Notify::new(),
        };
        let api = chats::Api {
            auth,
            ingest: ingest.clone(),
            messages: store.clone(),
            chats: store.clone(),
            chat_writer: store.clone(),
            members,
            users: store.clone(),
            user_writer: store.clone(),
            watermarks: store.clone(),
            contacts: store.clone(),
            blocks: store.clone(),
            reports: store.clone(),
            accounts: Arc::new(accounts),
            presence: Arc::new(presence),
            push_devices: store.clone(),
            notifier: Arc::new(Nobody),
            web_push_public_key: None,
            requests: store,
            limiter,
            clock,
            ids,
            limits: chats::Limits {
                rest_read: None,
                rest_write: None,
                lookup_numbers: None,
                send_per_chat: None,
                send_per_user: None,
                exports: None,
            },
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 4711));
        let app = chats::router(api, Router::new()).layer(MockConnectInfo(address));
        Self { ingest, app, _lanes: lanes, _directory: directory }
    }

    /// Signs up the person with that number.
    pub(crate) async fn person(&self, n: usize) -> Person {
        let phone_number = format!("+14155550{n:03}");
        self.call(None, "POST", "/auth/request-otp", json!({ "phone_number": phone_number })).await;
        let device_id = format!("00000000-0000-4000-8000-{n:012}");
        let verify = json!({ "phone_number": phone_number, "otp": "000000", "device_id": device_id });
        let (status, signed_in) = self.call(None, "POST", "/auth/verify-otp", verify).await;
        assert_eq!(status, 201, "{signed_in}");
        let text = |pointer| signed_in.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        Person { user_id: text("/data/user/user_id"), token: text("/data/tokens/access_token") }
    }

    /// Status and body of a request under `/api/v1`.
    pub(crate) async fn call(&self, by: Option<&Person>, method: &str, path: &str, body: Value) -> (u16, Value) {
        let mut request = Request::builder().method(method).uri(format!("/api/v1{path}"));
        if let Some(person) = by {
            request = request.header("authorization", format!("Bearer {}", person.token));
        }
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let response = self.app.clone().oneshot(request.body(body).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() })
    }
}

/// A clock that stands at 2026-01-30T14:30:00Z.
pub(crate) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Timestamp::from_millis(1_769_783_400_000)))
}

/// Whoever is to be told of something, and is not there to hear it.
struct Nobody;

#[async_trait]
impl Watchers for Nobody {
    async fn tell(&self, _: &GatewayId, _: Vec<PresenceNews>) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
impl Delivery for Nobody {
    async fn deliver(&self, _: &GatewayId, _: &[Push]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn revoke(&self, _: SessionId) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
impl Signals for Nobody {
    async fn signal(&self, _: Signal) -> Result<bool, StoreError> {
        Ok(true)
    }
}

#[async_trait]
impl Notifier for Nobody {
    fn check(&self, _: &PushTarget) -> Result<(), UnusableTarget> {
        Err(UnusableTarget::ProviderOff("any"))
    }

    async fn notify(&self, _: &PushDevice, _: &Notification) -> Result<(), NotifyError> {
        Err(NotifyError::Gone)
    }
}
