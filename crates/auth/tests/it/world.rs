use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use domain::{DeviceId, PhoneNumber, Quota, RateDecision, SessionId, Timestamp, UserId};
use keyfile::MasterSecret;
use memory::{ManualClock, MemoryLimits, MemoryStore, MemoryTickets, SequentialIds};
use ports::{
    Delivery, GatewayId, LimitKey, OtpError, OtpSender, Push, RateLimiter, Revocation, StoreError, UserReader,
};
use tempfile::TempDir;
use tidings_auth::{Auth, Config, KeyRing, Ports, SignedIn, VerifyOtp};

pub(crate) const PHONE: &str = "+15551234567";
pub(crate) const IP: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);

/// An `Auth` with all its ports.
pub(crate) struct World {
    pub(crate) auth: Auth,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) phones: Arc<RecordingPhones>,
    pub(crate) sockets: Arc<ClosedSockets>,
    pub(crate) limits: Arc<TestLimits>,
    pub(crate) keys: Arc<KeyRing>,
    pub(crate) store: Arc<MemoryStore>,
    /// Keeps the key file for the lifetime of the world.
    _directory: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Config::default())
    }

    pub(crate) fn with(config: Config) -> Self {
        let directory = TempDir::new().unwrap();
        let keys = KeyRing::open(directory.path(), &config, start()).unwrap();
        let store = Arc::new(MemoryStore::new(Arc::new(SequentialIds::default())));
        Self::over(store, keys, config, directory)
    }

    /// Another process on the same store, with keys derived from the fleet's secret.
    pub(crate) fn of_fleet(store: Arc<MemoryStore>) -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("secret");
        std::fs::write(&path, "0123456789abcdef0123456789abcdef").unwrap();
        let keys = KeyRing::derived(MasterSecret::read(&path).unwrap(), &Config::default(), start());
        Self::over(store, keys, Config::default(), directory)
    }

    fn over(store: Arc<MemoryStore>, keys: KeyRing, config: Config, directory: TempDir) -> Self {
        let (clock, ids) = (Arc::new(ManualClock::at(start())), Arc::new(SequentialIds::default()));
        let (phones, sockets) = (Arc::new(RecordingPhones::default()), Arc::new(ClosedSockets::default()));
        let limits =
            Arc::new(TestLimits { limits: MemoryLimits::new(clock.clone()), are_distant: AtomicBool::new(false) });
        let keys = Arc::new(keys);
        let ports = Ports {
            users: store.clone(),
            user_reader: store.clone(),
            sessions: store.clone(),
            restrictions: store.clone(),
            passkeys: store.clone(),
            codes: store.clone(),
            tickets: Arc::new(MemoryTickets::new(clock.clone())),
            limits: limits.clone(),
            otp: phones.clone(),
            delivery: sockets.clone(),
            security: Arc::new(ports::NoSecurityEvents),
            clock: clock.clone(),
            ids,
        };
        let auth = Auth::new(ports, keys.clone(), config).unwrap();
        Self { auth, clock, phones, sockets, limits, keys, store, _directory: directory }
    }

    /// Requests a code and signs in with it.
    pub(crate) async fn sign_in(&self, phone: &str, device_id: DeviceId) -> SignedIn {
        self.auth.request_otp(phone, IP).await.unwrap();
        let otp = self.phones.last_code();
        self.auth.verify_otp(VerifyOtp { phone, otp: &otp, ip: IP, device_id, display_name: None }).await.unwrap()
    }

    pub(crate) async fn display_name(&self, user_id: UserId) -> String {
        let users = self.store.users(&[user_id]).await.unwrap();
        users[0].as_ref().expect("there is such a user").display_name.as_str().to_owned()
    }
}

/// 2026-01-30T14:30:00Z.
pub(crate) fn start() -> Timestamp {
    Timestamp::from_millis(1_769_783_400_000)
}

pub(crate) fn device(n: u8) -> DeviceId {
    DeviceId::from_bytes([n; 16])
}

/// RecordingPhones that receive codes; sending fails while `broken`.
#[derive(Default)]
pub(crate) struct RecordingPhones {
    received: Mutex<Vec<String>>,
    broken: Mutex<bool>,
}

impl RecordingPhones {
    pub(crate) fn codes(&self) -> Vec<String> {
        self.received.lock().unwrap().clone()
    }

    pub(crate) fn last_code(&self) -> String {
        self.codes().pop().expect("a code was sent")
    }

    pub(crate) fn fail(&self) {
        *self.broken.lock().unwrap() = true;
    }
}

#[async_trait]
impl OtpSender for RecordingPhones {
    async fn send(&self, _: &PhoneNumber, code: &str, _: Timestamp) -> Result<(), OtpError> {
        if *self.broken.lock().unwrap() {
            return Err(OtpError("no network".into()));
        }
        self.received.lock().unwrap().push(code.to_owned());
        Ok(())
    }
}

/// Rate limits whose answers take a moment if they are distant, like those of Redis, so that concurrent requests
/// interleave.
pub(crate) struct TestLimits {
    limits: MemoryLimits,
    pub(crate) are_distant: AtomicBool,
}

#[async_trait]
impl RateLimiter for TestLimits {
    async fn take_all(&self, takes: &[(LimitKey, Quota)]) -> Result<Vec<RateDecision>, StoreError> {
        let decisions = self.limits.take_all(takes).await;
        if self.are_distant.load(Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
        decisions
    }
}

/// Records the revocations.
#[derive(Default)]
pub(crate) struct ClosedSockets(Mutex<Vec<Revocation>>);

impl ClosedSockets {
    /// The sessions with sockets to close.
    pub(crate) fn closed(&self) -> Vec<SessionId> {
        let session = |revocation: &Revocation| match revocation {
            Revocation::Session(session_id) => Some(*session_id),
            Revocation::User(_) | Revocation::Token(_) => None,
        };
        self.revoked().iter().filter_map(session).collect()
    }

    /// All revocations.
    pub(crate) fn revoked(&self) -> Vec<Revocation> {
        self.0.lock().unwrap().clone()
    }
}

#[async_trait]
impl Delivery for ClosedSockets {
    async fn deliver(&self, _: &GatewayId, _: &[Push]) -> Result<(), StoreError> {
        unreachable!("auth pushes nothing")
    }

    /// Takes a moment, as a call to another process does.
    async fn revoke(&self, revocation: Revocation) -> Result<(), StoreError> {
        tokio::task::yield_now().await;
        self.0.lock().unwrap().push(revocation);
        Ok(())
    }
}
