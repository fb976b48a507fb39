//! Runs the contract suites of the ports against the memory adapter.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use contract::transfer::TransferStore;
use contract::{ContractStores, FaultInjection, RecipientPorts, Routing, StoresWithOutbox, Timed};
use domain::{ChatId, Event, EventBody, Sequence, Timestamp};
use ports::{Clock, EventProducer, MemberCache, Outbox, PeerRegistry, RateLimiter, Stores, SystemClock};
use tidings_memory::{
    ManualClock, MemoryLimits, MemoryLog, MemoryMemberCache, MemoryOutbox, MemoryPeers, MemoryRecipients, MemoryRoutes,
    MemoryStore, MemoryTickets, SequentialIds,
};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

contract::tests!(durable_with_log: stores());
contract::tests!(tickets: Arc::new(MemoryTickets::new(Arc::new(SystemClock))));
contract::tests!(limits: timed(|clock| Arc::new(MemoryLimits::new(clock)) as Arc<dyn RateLimiter>));
contract::tests!(routes: timed(|clock| Arc::new(MemoryRoutes::new(clock, EXPIRY)) as Arc<dyn Routing>));
contract::tests!(transitions: timed(|clock| Arc::new(MemoryRoutes::new(clock, EXPIRY)) as Arc<dyn Routing>));
contract::tests!(member_cache: timed(|clock| Arc::new(MemoryMemberCache::new(clock)) as Arc<dyn MemberCache>));
contract::tests!(recipients: timed(|clock| Arc::new(recipients(clock))));
contract::tests!(outbox: with_outbox());
contract::tests!(transfer: [movable(), movable()]);
contract::tests!(peers: timed(|clock| Arc::new(MemoryPeers::new(clock)) as Arc<dyn PeerRegistry>));

/// A separate log satisfies the same contract as the log inside the store.
mod beside {
    use super::*;

    contract::tests!(log: relayed());
}

/// Heartbeat expiry of a gateway.
const EXPIRY: Duration = Duration::from_secs(15);

fn stores() -> ContractStores {
    let store = Arc::new(MemoryStore::new(Arc::new(SequentialIds::default())));
    stores_of(&store)
}

/// The lookup of one process, for both.
fn recipients(clock: Arc<dyn Clock>) -> RecipientPorts {
    let routes = Arc::new(MemoryRoutes::new(clock.clone(), EXPIRY));
    let cache = Arc::new(MemoryMemberCache::new(clock));
    let lookup = Arc::new(MemoryRecipients::new(routes.clone(), cache.clone()));
    RecipientPorts { lookups: [lookup.clone(), lookup], routes, cache }
}

/// The store of a fleet, and the outbox of its only process.
fn with_outbox() -> StoresWithOutbox {
    let store = Arc::new(MemoryStore::beside_a_log(Arc::new(SequentialIds::default())));
    let outbox = Arc::new(MemoryOutbox::new((*store).clone(), Arc::new(SystemClock)));
    StoresWithOutbox { stores: stores_of(&store), outbox }
}

/// The store of a fleet for the transfer contract, with an outbox.
fn movable() -> TransferStore {
    let store = Arc::new(MemoryStore::beside_a_log(Arc::new(SequentialIds::default())));
    let outbox = Arc::new(MemoryOutbox::new((*store).clone(), Arc::new(SystemClock)));
    TransferStore { stores: stores_of(&store), source: store.clone(), target: store, outbox: Some(outbox) }
}

/// The store of a fleet, a separate log, and a running relay between them.
fn relayed() -> ContractStores {
    let StoresWithOutbox { stores, outbox } = with_outbox();
    let log = MemoryLog::new(Arc::new(SystemClock));
    let relay = Arc::new(TestRelay { outbox, log: log.clone(), turn: Mutex::default() });
    let mut running = JoinSet::new();
    running.spawn(relay.clone().run());
    let sabotage = Arc::new(RelayedSaboteur { saboteur: stores.sabotage, relay, _running: running });
    ContractStores { log: Arc::new(log), sabotage, ..stores }
}

fn stores_of(store: &Arc<MemoryStore>) -> ContractStores {
    ContractStores { stores: Stores::on(store), log: store.clone(), sabotage: Arc::new(MemorySaboteur(store.clone())) }
}

/// A port with a clock that the contract advances.
fn timed<P: ?Sized>(port: impl FnOnce(Arc<dyn Clock>) -> Arc<P>) -> Timed<P> {
    let clock = Arc::new(ManualClock::at(SystemClock.now()));
    Timed { port: port(clock.clone()), pass: Box::new(move |duration| clock.advance(duration)) }
}

struct MemorySaboteur(Arc<MemoryStore>);

#[async_trait]
impl FaultInjection for MemorySaboteur {
    async fn drop_head(&self, chat_id: ChatId) {
        self.0.drop_head(chat_id);
    }

    async fn purge_expired(&self) {
        self.0.purge_expired(SystemClock.now());
    }
}

/// Memory ports cannot fail.
const WORKS: &str = "memory does not fail";

/// A minimal relay: publishes all pending events.
struct TestRelay {
    outbox: Arc<dyn Outbox>,
    log: MemoryLog,
    /// One run at a time, so that no event is published twice.
    turn: Mutex<()>,
}

impl TestRelay {
    async fn run(self: Arc<Self>) {
        loop {
            self.outbox.committed().await;
            self.publish_all().await;
        }
    }

    async fn publish_all(&self) {
        let _turn = self.turn.lock().await;
        for chat_id in self.outbox.overdue(Timestamp::MAX).await.expect(WORKS) {
            let waiting = self.outbox.pending_changes(chat_id).await.expect(WORKS);
            let (keys, events): (Vec<_>, Vec<_>) = waiting.into_iter().map(|one| (one.key, one.event)).unzip();
            self.log.publish(&events).await.expect(WORKS);
            self.outbox.confirm_changes(chat_id, &keys).await.expect(WORKS);
            loop {
                let messages = self.outbox.unpublished(chat_id).await.expect(WORKS);
                let Some(last) = messages.last() else { break };
                self.log.publish(&messages).await.expect(WORKS);
                self.outbox.published(chat_id, sequence(last)).await.expect(WORKS);
            }
        }
    }
}

fn sequence(event: &Event) -> Sequence {
    match &event.body {
        EventBody::MessagePersisted { message, .. } => message.sequence,
        other => panic!("expected a message, got {other:?}"),
    }
}

struct RelayedSaboteur {
    saboteur: Arc<dyn FaultInjection>,
    relay: Arc<TestRelay>,
    _running: JoinSet<()>,
}

#[async_trait]
impl FaultInjection for RelayedSaboteur {
    async fn drop_head(&self, chat_id: ChatId) {
        self.saboteur.drop_head(chat_id).await;
    }

    async fn purge_expired(&self) {
        self.saboteur.purge_expired().await;
    }

    async fn published(&self) {
        self.relay.publish_all().await;
    }
}
