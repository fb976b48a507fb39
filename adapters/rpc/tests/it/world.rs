use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use async_trait::async_trait;
use domain::{Body, ChatId, ContentType, IngestError, Sequence, UserId, WatermarkKind, Watermarks};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ingest::{Ingester, Ports};
use memory::{MemoryStore, SequentialIds};
use ports::{
    AdvanceRequest, ChatWriter, Clock, Ids, Ingest, NewGroup, Page, PeerProcess, PeerRegistry, ProcessRole,
    SendContent, SendRequest, Sent, Signal, SignalSender, StoreError, SyncRequest, SystemClock,
};
use tidings_rpc::{
    Asserter, AssertionKey, AssertionPolicy, Config, Directory, RemoteIngest, RpcServices, Security, serve,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time;

/// The shared parts of a fleet: the store, and the list of processes.
pub(crate) struct World {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) list: Arc<PeerList>,
    ids: Arc<SequentialIds>,
}

impl World {
    pub(crate) fn new() -> Self {
        let ids = Arc::new(SequentialIds::default());
        Self { store: Arc::new(MemoryStore::new(ids.clone())), list: Arc::default(), ids }
    }

    /// A listed ingest process.
    pub(crate) fn ingest(&self, id: &str) -> (FleetProcess, Arc<Tap>) {
        let mut tap = None;
        let process = FleetProcess::start(id, secret(), || {
            let made = self.tap();
            tap = Some(made.clone());
            RpcServices { ingest: Some((made, required())), ..RpcServices::default() }
        });
        self.list.add(ProcessRole::Ingest, &process.peer);
        (process, tap.unwrap())
    }

    /// A durability plane on the caller's runtime.
    pub(crate) fn tap(&self) -> Arc<Tap> {
        let ports = Ports {
            writer: self.store.clone(),
            messages: self.store.clone(),
            chats: self.store.clone(),
            watermarks: self.store.clone(),
            signals: Arc::new(IgnoredSignals),
            clock: Arc::new(SystemClock),
            ids: self.ids.clone(),
        };
        let mut lanes = JoinSet::new();
        let ingester = Ingester::start(ingest::Config::default(), ports, &mut lanes);
        Arc::new(Tap {
            ingester,
            taken: watch::Sender::default(),
            syncs: AtomicUsize::new(0),
            gate: Arc::new(Semaphore::new(OPEN)),
            _lanes: lanes,
        })
    }

    pub(crate) fn user(&self) -> UserId {
        self.ids.ulid().into()
    }

    pub(crate) async fn group(&self, owner: UserId) -> ChatId {
        let group = NewGroup {
            chat_id: self.ids.ulid().into(),
            name: "group".to_owned().try_into().unwrap(),
            created_by: owner,
            members: vec![],
            created_at: SystemClock.now(),
        };
        self.store.create_group(group).await.unwrap().chat().chat_id
    }

    pub(crate) async fn groups(&self, owner: UserId, count: usize) -> Vec<ChatId> {
        let mut chats = vec![];
        for _ in 0..count {
            chats.push(self.group(owner).await);
        }
        chats
    }
}

/// The list of processes, which can be made unreadable.
#[derive(Default)]
pub(crate) struct PeerList {
    peers: Mutex<BTreeMap<ProcessRole, Vec<PeerProcess>>>,
    pub(crate) is_broken: AtomicBool,
    /// Number of reads.
    pub(crate) reads: watch::Sender<usize>,
}

impl PeerList {
    pub(crate) fn add(&self, role: ProcessRole, peer: &PeerProcess) {
        self.peers.lock().unwrap().entry(role).or_default().push(peer.clone());
    }

    pub(crate) fn remove(&self, role: ProcessRole, peer: &PeerProcess) {
        self.peers.lock().unwrap().entry(role).or_default().retain(|listed| listed != peer);
    }
}

#[async_trait]
impl PeerRegistry for PeerList {
    async fn announce(&self, peer: &PeerProcess, roles: &[ProcessRole]) -> Result<(), StoreError> {
        roles.iter().for_each(|role| self.add(*role, peer));
        Ok(())
    }

    async fn leave(&self, peer: &PeerProcess, roles: &[ProcessRole]) -> Result<(), StoreError> {
        roles.iter().for_each(|role| self.remove(*role, peer));
        Ok(())
    }

    async fn peers(&self, role: ProcessRole) -> Result<Vec<PeerProcess>, StoreError> {
        self.reads.send_modify(|reads| *reads += 1);
        if self.is_broken.load(Ordering::SeqCst) {
            return Err(StoreError::unavailable("the list is away"));
        }
        Ok(self.peers.lock().unwrap().get(&role).cloned().unwrap_or_default())
    }
}

/// A process of the fleet. Dropping it kills the process.
pub(crate) struct FleetProcess {
    pub(crate) peer: PeerProcess,
    runtime: Option<Runtime>,
    shutdown: Option<oneshot::Sender<()>>,
    served: Option<JoinHandle<Result<(), tidings_rpc::ServeError>>>,
}

impl FleetProcess {
    /// Starts a server with the services that `services` creates on its runtime.
    pub(crate) fn start(id: &str, security: Security, services: impl FnOnce() -> RpcServices) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = format!("localhost:{}", listener.local_addr().unwrap().port());
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let _entered = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let (shutdown, asked) = oneshot::channel();
        let served = runtime.spawn(serve(listener, services(), security, async { drop(asked.await) }));
        let peer = PeerProcess { id: id.into(), address: address.into() };
        Self { peer, runtime: Some(runtime), shutdown: Some(shutdown), served: Some(served) }
    }

    /// Starts a graceful shutdown.
    pub(crate) fn begin_shutdown(&mut self) {
        self.shutdown.take().unwrap().send(()).unwrap();
    }

    /// Waits until the shutdown is complete.
    pub(crate) async fn ended(&mut self) {
        soon(self.served.take().unwrap()).await.unwrap().unwrap();
    }

    /// Makes the process hang until the returned sender is dropped.
    pub(crate) fn hang(&self) -> mpsc::Sender<()> {
        let (held, released) = mpsc::channel();
        let (hanging, hangs) = mpsc::channel();
        // Blocks the only worker thread of the process.
        self.runtime.as_ref().unwrap().spawn(async move {
            hanging.send(()).unwrap();
            released.recv().unwrap_err();
        });
        hangs.recv().unwrap();
        held
    }

    /// Kills the process at once.
    pub(crate) fn kill(mut self) {
        self.die();
    }

    fn die(&mut self) {
        // Dropping the sender first would start a graceful shutdown.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for FleetProcess {
    fn drop(&mut self) {
        self.die();
    }
}

/// The durability plane of a process. It records its sends, and can hold back answers.
pub(crate) struct Tap {
    ingester: Ingester,
    /// The chats of all sends, in the order of their arrival.
    pub(crate) taken: watch::Sender<Vec<ChatId>>,
    /// Number of syncs.
    pub(crate) syncs: AtomicUsize,
    /// Permits for answers.
    pub(crate) gate: Arc<Semaphore>,
    _lanes: JoinSet<()>,
}

/// More answers than any test needs.
pub(crate) const OPEN: usize = 1_000_000;

impl Tap {
    /// Holds back all answers from now on.
    pub(crate) fn shut(&self) {
        self.gate.forget_permits(OPEN);
    }

    pub(crate) fn open(&self) {
        self.gate.add_permits(OPEN);
    }

    /// Waits until `count` sends have arrived.
    pub(crate) async fn until(&self, count: usize) {
        soon(self.taken.subscribe().wait_for(|taken| taken.len() >= count)).await.unwrap();
    }

    pub(crate) fn count(&self, chat_id: ChatId) -> usize {
        self.taken.borrow().iter().filter(|taken| **taken == chat_id).count()
    }
}

#[async_trait]
impl Ingest for Tap {
    fn send(&self, request: SendRequest) -> BoxFuture<'static, Result<Sent, IngestError>> {
        self.taken.send_modify(|taken| taken.push(request.chat_id));
        let (sent, gate) = (self.ingester.send(request), self.gate.clone());
        async move {
            let sent = sent.await;
            gate.acquire().await.unwrap().forget();
            sent
        }
        .boxed()
    }

    async fn sync(&self, request: SyncRequest) -> Result<Page, IngestError> {
        self.syncs.fetch_add(1, Ordering::SeqCst);
        self.ingester.sync(request).await
    }

    async fn advance(&self, request: AdvanceRequest) -> Result<Watermarks, IngestError> {
        self.ingester.advance(request).await
    }
}

struct IgnoredSignals;

#[async_trait]
impl SignalSender for IgnoredSignals {
    async fn signal(&self, _: Signal) -> Result<bool, StoreError> {
        Ok(true)
    }
}

/// A process that calls the others.
pub(crate) struct CallingProcess {
    pub(crate) directory: Arc<Directory>,
    pub(crate) ingest: Arc<RemoteIngest>,
    _tasks: JoinSet<()>,
}

impl CallingProcess {
    /// A caller that knows the listed processes.
    pub(crate) async fn start(world: &World) -> Self {
        Self::with(world, secret(), config(), None).await
    }

    pub(crate) async fn with(
        world: &World,
        security: Security,
        config: Config,
        local: Option<(PeerProcess, Arc<dyn Ingest>)>,
    ) -> Self {
        let directory = Arc::new(Directory::new(world.list.clone(), security, config).unwrap());
        let ingest = Arc::new(RemoteIngest::new(directory.clone(), local));
        let mut tasks = JoinSet::new();
        let (following, carrying) = (directory.clone(), ingest.clone());
        tasks.spawn(async move { match following.run().await {} });
        tasks.spawn(async move { match carrying.run().await {} });
        let caller = Self { directory, ingest, _tasks: tasks };
        caller.refreshed(world).await;
        caller
    }

    /// Waits until the caller knows the current list.
    pub(crate) async fn refreshed(&self, world: &World) {
        let mut reads = world.list.reads.subscribe();
        // The first read may have begun before, and the second reads the current list. The third shows that the result
        // of the second was applied.
        let enough = *reads.borrow() + 3 * ProcessRole::ALL.len();
        soon(reads.wait_for(|reads| *reads >= enough)).await.unwrap();
    }

    pub(crate) fn send(&self, request: SendRequest) -> BoxFuture<'static, Result<Sent, IngestError>> {
        self.ingest.send(request)
    }
}

/// Default limits, with a short refresh interval.
pub(crate) fn config() -> Config {
    Config { refresh: Duration::from_millis(10), ..Config::new(ProcessRole::ALL.to_vec()) }
}

pub(crate) fn secret() -> Security {
    Security::Secret("the secret of the fleet".to_owned().try_into().unwrap())
}

/// A new send.
pub(crate) fn request(chat_id: ChatId, sender_id: UserId, text: &str) -> SendRequest {
    SendRequest {
        chat_id,
        sender_id,
        client_message_id: uuid::Uuid::new_v4().into(),
        content: SendContent::Message {
            body: Body::new(text.to_owned().try_into().unwrap(), ContentType::Text),
            ttl: None,
        },
        origin_connection_id: None,
        assertion: Some(asserter().assert_user(sender_id)),
    }
}

/// A sync of the messages after a sequence.
pub(crate) fn sync(user_id: UserId, chat_id: ChatId, after: u64, limit: usize) -> SyncRequest {
    let assertion = Some(asserter().assert_user(user_id));
    SyncRequest { user_id, chat_id, after: Sequence(after), limit, assertion }
}

pub(crate) fn advance(user_id: UserId, chat_id: ChatId, kind: WatermarkKind, to: u64) -> AdvanceRequest {
    let assertion = Some(asserter().assert_user(user_id));
    AdvanceRequest { user_id, chat_id, kind, to: Sequence(to), assertion }
}

fn assertion_key() -> AssertionKey {
    AssertionKey::new(&[7; 32])
}

/// Issues the assertions that ingest processes of the tests accept.
pub(crate) fn asserter() -> Asserter {
    Asserter::new(assertion_key(), Duration::from_secs(600), Arc::new(SystemClock))
}

pub(crate) fn required() -> AssertionPolicy {
    AssertionPolicy::Required(assertion_key())
}

/// Fails the test if the event does not happen in time.
pub(crate) async fn soon<T>(event: impl Future<Output = T>) -> T {
    time::timeout(Duration::from_secs(20), event).await.expect("it happens soon")
}
