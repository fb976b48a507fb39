//! The memory adapter keeps every promise of the ports.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{ChatId, Event, EventBody, Sequence, Timestamp};
use ports::contract::transfer::Movable;
use ports::contract::{Routing, Sabotage, Stores, Timed, WithOutbox};
use ports::{Clock, EventLog, EventProducer, MemberCache, Outbox, Peers, RateLimiter, SystemClock};
use tidings_memory::{
    ManualClock, MemoryLimits, MemoryLog, MemoryMemberCache, MemoryOutbox, MemoryPeers, MemoryRoutes, MemoryStore,
    MemoryTickets, SequentialIds,
};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

ports::contract_tests!(durable: stores());
ports::contract_tests!(tickets: Arc::new(MemoryTickets::new(Arc::new(SystemClock))));
ports::contract_tests!(limits: timed(|clock| Arc::new(MemoryLimits::new(clock)) as Arc<dyn RateLimiter>));
ports::contract_tests!(routes: timed(|clock| Arc::new(MemoryRoutes::new(clock, EXPIRY)) as Arc<dyn Routing>));
ports::contract_tests!(transitions: timed(|clock| Arc::new(MemoryRoutes::new(clock, EXPIRY)) as Arc<dyn Routing>));
ports::contract_tests!(member_cache: timed(|clock| Arc::new(MemoryMemberCache::new(clock)) as Arc<dyn MemberCache>));
ports::contract_tests!(outbox: with_outbox());
ports::contract_tests!(transfer: [movable(), movable()]);
ports::contract_tests!(peers: timed(|clock| Arc::new(MemoryPeers::new(clock)) as Arc<dyn Peers>));

/// The log that is beside the store keeps the promises of the one that is part of it.
mod beside {
    use super::*;

    ports::contract_tests!(log: relayed());
}

/// How long a gateway lives after its last beat.
const EXPIRY: Duration = Duration::from_secs(15);

fn stores() -> Stores {
    let store = Arc::new(MemoryStore::new(Arc::new(SequentialIds::default())));
    stores_of(store.clone(), store.clone(), Arc::new(Saboteur(store)))
}

/// A store of a fleet, and the outbox of its one process.
fn with_outbox() -> WithOutbox {
    let store = Arc::new(MemoryStore::beside_a_log(Arc::new(SequentialIds::default())));
    let outbox = Arc::new(MemoryOutbox::new((*store).clone(), Arc::new(SystemClock)));
    WithOutbox { stores: stores_of(store.clone(), store.clone(), Arc::new(Saboteur(store))), outbox }
}

/// A store of a fleet: what it holds moves as that of one machine does, and it has an outbox besides.
fn movable() -> Movable {
    let store = Arc::new(MemoryStore::beside_a_log(Arc::new(SequentialIds::default())));
    let outbox = Arc::new(MemoryOutbox::new((*store).clone(), Arc::new(SystemClock)));
    let stores = stores_of(store.clone(), store.clone(), Arc::new(Saboteur(store.clone())));
    Movable { stores, source: store.clone(), target: store, outbox: Some(outbox) }
}

/// A store of a fleet, the log beside it, and a relay that is at work between them.
fn relayed() -> Stores {
    let WithOutbox { stores, outbox } = with_outbox();
    let log = MemoryLog::new(Arc::new(SystemClock));
    let relay = Arc::new(Relay { outbox, log: log.clone(), turn: Mutex::default() });
    let mut running = JoinSet::new();
    running.spawn(relay.clone().run());
    let sabotage = Arc::new(RelayedSaboteur { saboteur: stores.sabotage, relay, _running: running });
    Stores { log: Arc::new(log), sabotage, ..stores }
}

fn stores_of(store: Arc<MemoryStore>, log: Arc<dyn EventLog>, sabotage: Arc<dyn Sabotage>) -> Stores {
    Stores {
        message_writer: store.clone(),
        message_reader: store.clone(),
        chat_writer: store.clone(),
        chat_reader: store.clone(),
        user_writer: store.clone(),
        user_reader: store.clone(),
        contacts: store.clone(),
        blocks: store.clone(),
        reports: store.clone(),
        last_seen: store.clone(),
        sessions: store.clone(),
        codes: store.clone(),
        watermarks: store.clone(),
        log,
        requests: store.clone(),
        push_devices: store.clone(),
        notices: store.clone(),
        dead_letters: store.clone(),
        accounts: store.clone(),
        expirer: store,
        sabotage,
    }
}

/// A port on a clock that the contract moves.
fn timed<P: ?Sized>(port: impl FnOnce(Arc<dyn Clock>) -> Arc<P>) -> Timed<P> {
    let clock = Arc::new(ManualClock::at(SystemClock.now()));
    Timed { port: port(clock.clone()), pass: Box::new(move |duration| clock.advance(duration)) }
}

struct Saboteur(Arc<MemoryStore>);

#[async_trait]
impl Sabotage for Saboteur {
    async fn drop_head(&self, chat_id: ChatId) {
        self.0.drop_head(chat_id);
    }

    async fn purge_expired(&self) {
        self.0.purge_expired(SystemClock.now());
    }
}

/// What failed if memory does.
const WORKS: &str = "memory does not fail";

/// Publishes what waits, the shortest way there is.
struct Relay {
    outbox: Arc<dyn Outbox>,
    log: MemoryLog,
    /// One at a time, so that nothing is in the log twice.
    turn: Mutex<()>,
}

impl Relay {
    async fn run(self: Arc<Self>) {
        loop {
            self.outbox.committed().await;
            self.publish_all().await;
        }
    }

    async fn publish_all(&self) {
        let _turn = self.turn.lock().await;
        for chat_id in self.outbox.overdue(Timestamp::MAX).await.expect(WORKS) {
            let waiting = self.outbox.waiting(chat_id).await.expect(WORKS);
            let (places, events): (Vec<_>, Vec<_>) = waiting.into_iter().map(|one| (one.place, one.event)).unzip();
            self.log.publish(&events).await.expect(WORKS);
            self.outbox.forget(chat_id, &places).await.expect(WORKS);
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
    saboteur: Arc<dyn Sabotage>,
    relay: Arc<Relay>,
    _running: JoinSet<()>,
}

#[async_trait]
impl Sabotage for RelayedSaboteur {
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
