//! Every value of a port crosses the wire unchanged.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use domain::{
    ChatId, ConnectionId, DeviceId, IngestError, PresenceView, Sequence, SessionId, Timestamp, UserId, WatermarkKind,
    Watermarks,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ports::{
    AdvanceRequest, Assertion, ConnectionHolder, Delivery, GatewayId, Identity, IdentityError, Ingest, Page,
    PresenceLookup, PresenceReader, Principal, ProcessRole, Push, Revocation, SendRequest, Sent, Signal, SignalSender,
    StoreError, SyncRequest, WebhookPause, error_chain,
};
use tidings_rpc::{RemoteDelivery, RemoteIdentity, RemotePresences, RemoteSignals, RemoteWebhooks, RpcServices};

use crate::world::{CallingProcess, FleetProcess, World, advance, request, required, secret, soon, sync};

/// A process that gives the same answer to every call, and records the calls.
#[derive(Default)]
pub(crate) struct Says {
    ingest: Option<fn() -> IngestError>,
    identity: Option<Box<dyn Fn() -> Result<Principal, IdentityError> + Send + Sync>>,
    store: Option<fn() -> StoreError>,
    heard: Mutex<Vec<String>>,
}

impl Says {
    pub(crate) fn identity(says: impl Fn() -> Result<Principal, IdentityError> + Send + Sync + 'static) -> Self {
        Self { identity: Some(Box::new(says)), ..Self::default() }
    }

    fn hear(&self, what: String) {
        self.heard.lock().unwrap().push(what);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.heard.lock().unwrap())
    }

    fn taken(&self) -> Result<(), StoreError> {
        self.store.map_or(Ok(()), |error| Err(error()))
    }
}

#[async_trait]
impl Ingest for Says {
    fn send(&self, _: SendRequest) -> BoxFuture<'static, Result<Sent, IngestError>> {
        std::future::ready(Err(self.ingest.unwrap()())).boxed()
    }

    async fn sync(&self, _: SyncRequest) -> Result<Page, IngestError> {
        Err(self.ingest.unwrap()())
    }

    async fn advance(&self, _: AdvanceRequest) -> Result<Watermarks, IngestError> {
        Err(self.ingest.unwrap()())
    }
}

#[async_trait]
impl Identity for Says {
    async fn identify(&self, token: &str, device: DeviceId) -> Result<Principal, IdentityError> {
        self.hear(format!("identify {token} {device}"));
        self.identity.as_ref().unwrap()()
    }

    async fn redeem(&self, ticket: &str, device: DeviceId) -> Result<Principal, IdentityError> {
        self.hear(format!("redeem {ticket} {device}"));
        self.identity.as_ref().unwrap()()
    }

    async fn live(&self, holders: &[ConnectionHolder]) -> Result<Vec<bool>, StoreError> {
        self.taken()?;
        let is_live = |holder: &ConnectionHolder| {
            holder.user_id == user() && holder.session_id.is_none_or(|id| id.to_bytes()[15] % 3 == 0)
        };
        Ok(holders.iter().map(is_live).collect())
    }

    async fn renew(&self, presented: &Assertion) -> Result<Assertion, IdentityError> {
        self.hear(format!("renew {:?}", presented.proof));
        self.identity.as_ref().unwrap()().map(|_| assertion())
    }
}

#[async_trait]
impl SignalSender for Says {
    async fn signal(&self, signal: Signal) -> Result<bool, StoreError> {
        self.taken()?;
        self.hear(format!("{signal:?}"));
        Ok(matches!(signal, Signal::Receipt { .. }))
    }
}

#[async_trait]
impl PresenceReader for Says {
    async fn lookup(&self, lookups: &[PresenceLookup]) -> Result<Vec<PresenceView>, StoreError> {
        self.taken()?;
        Ok(lookups.iter().map(view).collect())
    }
}

/// The presence of a user, derived from the id.
fn view(look: &PresenceLookup) -> PresenceView {
    match look.user_id.to_bytes()[15] % 4 {
        0 => PresenceView::Online,
        1 => PresenceView::Offline { last_seen: None },
        2 => PresenceView::Offline { last_seen: Some(Timestamp::from_millis(1_769_783_400_007)) },
        _ => PresenceView::Unknown,
    }
}

#[async_trait]
impl Delivery for Says {
    async fn deliver(&self, gateway: &GatewayId, pushes: &[Push]) -> Result<(), StoreError> {
        self.taken()?;
        self.hear(format!("{gateway:?} {pushes:?}"));
        Ok(())
    }

    async fn revoke(&self, revocation: Revocation) -> Result<(), StoreError> {
        self.taken()?;
        self.hear(format!("revoke {revocation:?}"));
        Ok(())
    }
}

#[async_trait]
impl WebhookPause for Says {
    async fn pause(&self, time: Duration) -> Result<(), StoreError> {
        self.taken()?;
        self.hear(format!("pause {time:?}"));
        Ok(())
    }
}

/// A listed process with all roles, and a caller.
async fn meet(says: Says) -> (FleetProcess, Arc<Says>, CallingProcess) {
    let (world, says) = (World::new(), Arc::new(says));
    let services = RpcServices {
        ingest: Some((says.clone(), required())),
        identity: Some(says.clone()),
        signals: Some(says.clone()),
        presences: Some(says.clone()),
        delivery: Some((GatewayId("a".into()), says.clone())),
        webhook: Some(says.clone()),
    };
    let process = FleetProcess::start("a", secret(), || services);
    for role in ProcessRole::ALL {
        world.list.add(role, &process.peer);
    }
    let caller = CallingProcess::start(&world).await;
    (process, says, caller)
}

fn user() -> UserId {
    UserId::from_bytes([1; 16])
}

fn chat() -> ChatId {
    ChatId::from_bytes([2; 16])
}

fn holder(session_id: Option<SessionId>) -> ConnectionHolder {
    ConnectionHolder { user_id: user(), session_id, connected_at: Timestamp::from_millis(7) }
}

fn assertion() -> Assertion {
    let [renew_at, expires_at] = [1_769_783_400_008, 1_769_783_400_009].map(Timestamp::from_millis);
    Assertion { proof: [7, 8, 9].into(), renew_at, expires_at }
}

fn session(n: u8) -> SessionId {
    SessionId::from_bytes([n; 16])
}

fn device() -> DeviceId {
    DeviceId::from_bytes([3; 16])
}

#[tokio::test]
async fn every_error_of_the_durability_plane_crosses_unchanged() {
    let errors: [fn() -> IngestError; 11] = [
        || IngestError::ChatNotFound,
        || IngestError::NotAMember,
        || IngestError::IdempotencyKeyReused,
        || IngestError::Blocked,
        || IngestError::Blocking,
        || IngestError::Suspended,
        || IngestError::CounterMissing,
        || IngestError::Unreadable,
        || IngestError::AboveHead { head: Sequence(u64::MAX) },
        || IngestError::Busy,
        || IngestError::Unavailable { retry_after: Duration::from_millis(1500) },
    ];
    for error in errors {
        let (_process, _says, caller) = meet(Says { ingest: Some(error), ..Says::default() }).await;
        let expected = format!("{:?}", error());
        let sent = soon(caller.send(request(chat(), user(), "hi"))).await;
        assert_eq!(format!("{:?}", sent.unwrap_err()), expected);
        let sync = sync(user(), chat(), 0, 1);
        assert_eq!(format!("{:?}", soon(caller.ingest.sync(sync)).await.unwrap_err()), expected);
        let advanced = soon(caller.ingest.advance(advance(user(), chat(), WatermarkKind::Delivered, 1))).await;
        assert_eq!(format!("{:?}", advanced.unwrap_err()), expected);
    }
}

#[tokio::test]
async fn every_answer_about_a_token_crosses_unchanged() {
    let principal = || Principal {
        user_id: user(),
        session_id: Some(session(4)),
        device_id: Some(device()),
        token_expires_at: Timestamp::from_millis(1_769_783_400_007),
        assertion: None,
    };
    let answers: [fn(Principal) -> Result<Principal, IdentityError>; 8] = [
        Ok,
        |principal| Ok(Principal { assertion: Some(assertion()), ..principal }),
        |principal| Ok(Principal { session_id: None, device_id: None, ..principal }),
        |_| Err(IdentityError::InvalidToken("it has expired".into())),
        |_| Err(IdentityError::TokenRevoked),
        |_| Err(IdentityError::Suspended),
        |_| Err(IdentityError::Unavailable(StoreError::unavailable("the disk is full"))),
        |_| Err(IdentityError::Unavailable(StoreError::Corrupt { table: "sessions", source: "an odd byte".into() })),
    ];
    // On the other side the cause is a plain text, which includes the table name.
    let shown = |answer: &Result<Principal, IdentityError>| match answer {
        Err(IdentityError::Unavailable(StoreError::Unavailable(source))) => format!("unavailable {source}"),
        Err(IdentityError::Unavailable(StoreError::Corrupt { .. })) => "corrupt".to_owned(),
        answer => format!("{answer:?}"),
    };
    for answer in answers {
        let (_process, says, caller) = meet(Says::identity(move || answer(principal()))).await;
        let identity = RemoteIdentity::new(caller.directory.clone());
        let expected = shown(&answer(principal()));
        assert_eq!(shown(&soon(identity.identify("token", device())).await), expected);
        assert_eq!(shown(&soon(identity.redeem("ticket", device())).await), expected);
        assert_eq!(says.take(), [format!("identify token {}", device()), format!("redeem ticket {}", device())]);
        let renewed = soon(identity.renew(&assertion())).await.map(|assertion| {
            assert_eq!(assertion, self::assertion());
            answer(principal()).unwrap()
        });
        assert_eq!(shown(&renewed), expected);
        assert_eq!(says.take(), ["renew [7, 8, 9]"]);
    }
}

#[tokio::test]
async fn connections_are_answered_in_the_order_asked_however_many_there_are() {
    let (_process, _says, caller) = meet(Says::default()).await;
    let identity = RemoteIdentity::new(caller.directory.clone());
    let sessions = (0..20_000u32).map(|n| (n % 7 > 0).then(|| session((n % 251) as u8)));
    let expected: Vec<_> = (0..20_000u32).map(|n| n % 7 == 0 || n % 251 % 3 == 0).collect();
    assert_eq!(soon(identity.live(&sessions.map(holder).collect::<Vec<_>>())).await.unwrap(), expected);
    assert_eq!(soon(identity.live(&[])).await.unwrap(), [false; 0]);
}

#[tokio::test]
async fn signals_cross_unchanged() {
    let (_process, says, caller) = meet(Says::default()).await;
    let signals = RemoteSignals::new(caller.directory.clone());
    let watermarks = Watermarks { delivered: Sequence(9), read: Sequence(7) };
    for (signal, passed_on) in [
        (Signal::Typing { chat_id: chat(), user_id: user(), is_typing: true }, false),
        (Signal::Typing { chat_id: chat(), user_id: user(), is_typing: false }, false),
        (Signal::Receipt { chat_id: chat(), user_id: user(), watermarks }, true),
    ] {
        assert_eq!(soon(signals.signal(signal.clone())).await.unwrap(), passed_on);
        assert_eq!(says.take(), [format!("{signal:?}")]);
    }
}

#[tokio::test]
async fn looks_are_answered_in_the_order_asked_however_many_there_are() {
    let (_process, _says, caller) = meet(Says::default()).await;
    let presences = RemotePresences::new(caller.directory.clone());
    let lookups: Vec<_> = (0..2_500u32)
        .map(|n| PresenceLookup { viewer: user(), user_id: UserId::from_bytes([(n % 251) as u8; 16]) })
        .collect();
    let expected: Vec<_> = lookups.iter().map(view).collect();
    assert_eq!(soon(presences.lookup(&lookups)).await.unwrap(), expected);
    assert_eq!(soon(presences.lookup(&[])).await.unwrap(), []);
}

#[tokio::test]
async fn pushes_and_revocations_reach_the_gateway_that_is_meant() {
    let (_process, says, caller) = meet(Says::default()).await;
    let delivery = RemoteDelivery::new(caller.directory.clone());
    let gateway = GatewayId("a".into());
    let except = Some(ConnectionId::from_bytes([5; 16]));
    let pushes = vec![
        Push {
            recipients: vec![user(), UserId::from_bytes([6; 16])],
            except,
            frame: Bytes::from_static(b"{}"),
            trace: None,
        },
        Push { recipients: vec![user()], except: None, frame: Bytes::from_static(b"[]"), trace: None },
    ];
    soon(delivery.deliver(&gateway, &pushes)).await.unwrap();
    assert_eq!(says.take(), [format!("{gateway:?} {pushes:?}")]);
    for revocation in [Revocation::Session(session(4)), Revocation::User(user()), Revocation::Token(user())] {
        soon(delivery.revoke(revocation)).await.unwrap();
        assert_eq!(says.take(), [format!("revoke {revocation:?}")]);
    }
    let StoreError::Unavailable(source) = soon(delivery.deliver(&GatewayId("b".into()), &pushes)).await.unwrap_err()
    else {
        panic!("there is no such gateway");
    };
    assert_eq!(source.to_string(), "no gateway `b` is known");
}

#[tokio::test]
async fn a_gateway_that_has_come_to_the_address_of_another_takes_no_pushes() {
    let (world, says) = (World::new(), Arc::new(Says::default()));
    let services = RpcServices { delivery: Some((GatewayId("new".into()), says.clone())), ..RpcServices::default() };
    let process = FleetProcess::start("old", secret(), || services);
    world.list.add(ProcessRole::Gateway, &process.peer);
    let caller = CallingProcess::start(&world).await;
    let delivery = RemoteDelivery::new(caller.directory.clone());
    let push = Push { recipients: vec![user()], except: None, frame: Bytes::from_static(b"{}"), trace: None };
    assert!(soon(delivery.deliver(&GatewayId("old".into()), &[push])).await.is_err());
    assert_eq!(says.take(), [""; 0]);
}

#[tokio::test]
async fn a_pause_of_the_webhook_reaches_every_other_api_process() {
    let (world, says) = (World::new(), [(); 3].map(|()| Arc::new(Says::default())));
    let mut processes = vec![];
    for (id, says) in ["a", "b", "me"].into_iter().zip(&says) {
        let services = RpcServices { webhook: Some(says.clone()), ..RpcServices::default() };
        let process = FleetProcess::start(id, secret(), || services);
        world.list.add(ProcessRole::Api, &process.peer);
        processes.push(process);
    }
    // It delivers no events, or is of an earlier release.
    let without = FleetProcess::start("without", secret(), RpcServices::default);
    world.list.add(ProcessRole::Api, &without.peer);
    let caller = CallingProcess::start(&world).await;
    let webhooks = RemoteWebhooks::new(caller.directory.clone(), "me".into());
    for time in [Duration::from_millis(1500), Duration::ZERO] {
        soon(webhooks.pause(time)).await.unwrap();
        let expected = [vec![format!("pause {time:?}")], vec![format!("pause {time:?}")], vec![]];
        assert_eq!([0, 1, 2].map(|n: usize| says[n].take()), expected);
    }
    // One cannot be called: that is an error, and the others are paused all the same.
    processes.remove(0).kill();
    assert!(soon(webhooks.pause(Duration::from_secs(1))).await.is_err());
    assert_eq!(says[1].take(), ["pause 1s"]);
}

#[tokio::test]
async fn an_error_of_a_store_elsewhere_is_one_here() {
    let broken = Says { store: Some(|| StoreError::unavailable("the disk is full")), ..Says::default() };
    let (_process, _says, caller) = meet(broken).await;
    let push = Push { recipients: vec![user()], except: None, frame: Bytes::from_static(b"{}"), trace: None };
    let delivery = RemoteDelivery::new(caller.directory.clone());
    let typing = Signal::Typing { chat_id: chat(), user_id: user(), is_typing: true };
    let look = PresenceLookup { viewer: user(), user_id: user() };
    for error in [
        soon(delivery.deliver(&GatewayId("a".into()), &[push])).await.unwrap_err(),
        soon(delivery.revoke(Revocation::Session(session(4)))).await.unwrap_err(),
        soon(RemoteSignals::new(caller.directory.clone()).signal(typing)).await.unwrap_err(),
        soon(RemoteIdentity::new(caller.directory.clone()).live(&[holder(Some(session(4)))])).await.unwrap_err(),
        soon(RemotePresences::new(caller.directory.clone()).lookup(&[look])).await.unwrap_err(),
        soon(RemoteWebhooks::new(caller.directory.clone(), "me".into()).pause(Duration::ZERO)).await.unwrap_err(),
    ] {
        assert!(matches!(&error, StoreError::Unavailable(_)), "{error:?}");
        assert!(error_chain(&error).to_string().ends_with("the disk is full"), "{error:?}");
    }
}
