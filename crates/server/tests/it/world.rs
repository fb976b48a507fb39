use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use auth::{Auth, FixedSender, KeyRing};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::connect_info::MockConnectInfo;
use axum::http::Request;
use domain::{PushDevice, PushTarget, Timestamp};
use ingest::Ingester;
use memory::{ManualClock, MemoryLimits, MemoryMemberCache, MemoryRoutes, MemoryTickets};
use ports::{
    Clock, Delivery, DurableStore, GatewayId, Ids, Ingest, Notification, Notifier, NotifyError, PresenceNotifier,
    PresenceUpdate, Push, RandomIds, Revocation, Signal, SignalSender, StoreError, UnusableTarget,
};
use presence::{PendingRechecks, Presence};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tower::ServiceExt;

/// The API over one store.
pub(crate) struct World {
    pub(crate) ingest: Arc<dyn Ingest>,
    app: Router,
    /// Keep the commits and the key file alive.
    _commits: JoinSet<()>,
    _directory: TempDir,
}

/// A signed-in user.
#[derive(Clone)]
pub(crate) struct WorldUser {
    pub(crate) user_id: String,
    token: String,
}

impl World {
    pub(crate) fn new(store: Arc<impl DurableStore>, clock: Arc<ManualClock>) -> Self {
        let directory = TempDir::new().unwrap();
        let ids: Arc<dyn Ids> = Arc::new(RandomIds);
        let limiter = Arc::new(MemoryLimits::new(clock.clone()));
        let auth_config = auth::Config {
            limits: auth::Limits::OFF,
            fixed_code: Some("000000".to_owned()),
            ..auth::Config::default()
        };
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
            delivery: Arc::new(DiscardingReceiver),
            security: Arc::new(ports::NoSecurityEvents),
            clock: clock.clone(),
            ids: ids.clone(),
        };
        let ingest_ports = ingest::Ports {
            writer: store.clone(),
            messages: store.clone(),
            chats: store.clone(),
            watermarks: store.clone(),
            signals: Arc::new(DiscardingReceiver),
            clock: clock.clone(),
            ids: ids.clone(),
        };
        let mut tasks = JoinSet::new();
        let ingest: Arc<dyn Ingest> = Arc::new(Ingester::start(ingest::Config::default(), ingest_ports, &mut tasks));
        let routes = Arc::new(MemoryRoutes::new(clock.clone(), Duration::from_secs(15)));
        let presence = Presence {
            routes: routes.clone(),
            transitions: routes,
            notifier: Arc::new(DiscardingReceiver),
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
            invitations: store.clone(),
            reports: store.clone(),
            passkeys: store.clone(),
            push_devices: store.clone(),
            security: Arc::new(ports::NoSecurityEvents),
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
            invitations: store.clone(),
            reports: store.clone(),
            accounts: Arc::new(accounts),
            presence: Arc::new(presence),
            push_devices: store.clone(),
            notifier: Arc::new(DiscardingReceiver),
            web_push_public_key: None,
            update_window: None,
            requests: store,
            limiter,
            security: Arc::new(ports::NoSecurityEvents),
            clock,
            ids,
            limits: chats::Limits {
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
            },
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 4711));
        let app = chats::router(api, Router::new()).layer(MockConnectInfo(address));
        Self { ingest, app, _commits: tasks, _directory: directory }
    }

    /// Signs up the user with that number.
    pub(crate) async fn person(&self, n: usize) -> WorldUser {
        let phone_number = format!("+14155550{n:03}");
        self.call(None, "POST", "/auth/request-otp", json!({ "phone_number": phone_number })).await;
        let device_id = format!("00000000-0000-4000-8000-{n:012}");
        let verify = json!({ "phone_number": phone_number, "otp": "000000", "device_id": device_id });
        let (status, signed_in) = self.call(None, "POST", "/auth/verify-otp", verify).await;
        assert_eq!(status, 201, "{signed_in}");
        let text = |pointer| signed_in.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        WorldUser { user_id: text("/data/user/user_id"), token: text("/data/tokens/access_token") }
    }

    /// Status and body of a request under `/api/v1`.
    pub(crate) async fn call(&self, by: Option<&WorldUser>, method: &str, path: &str, body: Value) -> (u16, Value) {
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

/// A clock set to 2026-01-30T14:30:00Z.
pub(crate) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Timestamp::from_millis(1_769_783_400_000)))
}

/// A receiver that discards everything.
struct DiscardingReceiver;

#[async_trait]
impl PresenceNotifier for DiscardingReceiver {
    async fn notify(&self, _: &GatewayId, _: Vec<PresenceUpdate>) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
impl Delivery for DiscardingReceiver {
    async fn deliver(&self, _: &GatewayId, _: &[Push]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn revoke(&self, _: Revocation) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
impl SignalSender for DiscardingReceiver {
    async fn signal(&self, _: Signal) -> Result<bool, StoreError> {
        Ok(true)
    }
}

#[async_trait]
impl Notifier for DiscardingReceiver {
    fn check(&self, _: &PushTarget) -> Result<(), UnusableTarget> {
        Err(UnusableTarget::ProviderOff("any"))
    }

    async fn notify(&self, _: &PushDevice, _: &Notification) -> Result<(), NotifyError> {
        Err(NotifyError::Gone)
    }
}
