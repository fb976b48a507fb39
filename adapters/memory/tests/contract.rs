//! The memory adapter keeps every promise of the ports.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::ChatId;
use ports::contract::{Routing, Sabotage, Stores, Timed};
use ports::{Clock, MemberCache, Peers, RateLimiter, SystemClock};
use tidings_memory::{
    ManualClock, MemoryLimits, MemoryMemberCache, MemoryPeers, MemoryRoutes, MemoryStore, MemoryTickets, SequentialIds,
};

ports::contract_tests!(durable: stores());
ports::contract_tests!(tickets: Arc::new(MemoryTickets::new(Arc::new(SystemClock))));
ports::contract_tests!(limits: timed(|clock| Arc::new(MemoryLimits::new(clock)) as Arc<dyn RateLimiter>));
ports::contract_tests!(routes: timed(|clock| Arc::new(MemoryRoutes::new(clock, EXPIRY)) as Arc<dyn Routing>));
ports::contract_tests!(transitions: timed(|clock| Arc::new(MemoryRoutes::new(clock, EXPIRY)) as Arc<dyn Routing>));
ports::contract_tests!(member_cache: timed(|clock| Arc::new(MemoryMemberCache::new(clock)) as Arc<dyn MemberCache>));
ports::contract_tests!(peers: timed(|clock| Arc::new(MemoryPeers::new(clock)) as Arc<dyn Peers>));

/// How long a gateway lives after its last beat.
const EXPIRY: Duration = Duration::from_secs(15);

fn stores() -> Stores {
    let store = Arc::new(MemoryStore::new(Arc::new(SequentialIds::default())));
    Stores {
        message_writer: store.clone(),
        message_reader: store.clone(),
        chat_writer: store.clone(),
        chat_reader: store.clone(),
        user_writer: store.clone(),
        user_reader: store.clone(),
        contacts: store.clone(),
        last_seen: store.clone(),
        sessions: store.clone(),
        codes: store.clone(),
        watermarks: store.clone(),
        log: store.clone(),
        requests: store.clone(),
        push_devices: store.clone(),
        notices: store.clone(),
        dead_letters: store.clone(),
        sabotage: Arc::new(Saboteur(store)),
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
