//! The store fulfils the contracts of the ports against a real server. The suite runs inside the crate, because
//! damaging a store requires requests that no port offers.

use std::sync::Arc;

use async_trait::async_trait;
use contract::transfer::TransferStore;
use contract::{ContractStores, FaultInjection, StoresWithOutbox};
use domain::ChatId;
use engines::LastingFault;
use memory::MemoryStore;
use ports::{Clock, RandomIds, Stores, SystemClock};

use crate::DynamoStore;
use crate::item::ItemKey;
use crate::schema::Table;
use crate::schema::access::StorePort;
use crate::schema::access::guard::{Done, client_of};
use crate::testing::DynamoServer;

/// All suites on a server, which is a new one for each test.
macro_rules! suites {
    ($server:expr) => {
        contract::tests!(durable: with_outbox($server).stores);
        contract::tests!(outbox: with_outbox($server));
        contract::tests!(transfer: [movable($server), movable($server)]);
    };
}

suites!(DynamoServer::with_tables().await);

// The same under conditions that the real service has, and local servers have not. `faults` shows that each of them
// changes answers.

mod lagging_indexes {
    use super::*;
    suites!(DynamoServer::with_lagging_indexes().await);
}

mod hot_partitions {
    use super::*;
    suites!(DynamoServer::with_fault(LastingFault::HotPartitions).await);
}

mod partial_batches {
    use super::*;
    suites!(DynamoServer::with_fault(LastingFault::PartialBatches).await);
}

mod conflicts {
    use super::*;
    suites!(DynamoServer::with_fault(LastingFault::Conflicts).await);
}

fn with_outbox(server: DynamoServer) -> StoresWithOutbox {
    guarded_on(server, &Done::default())
}

/// The ports with the access rights of roles, and both sides of a transfer with an operator's rights.
fn movable(server: DynamoServer) -> TransferStore {
    let store = Arc::new(server.store());
    let StoresWithOutbox { stores, outbox } = guarded_on(server, &Done::default());
    TransferStore { stores, source: store.clone(), target: store, outbox: Some(outbox) }
}

/// Ports restricted to their policies. Their accesses are recorded.
pub(crate) async fn guarded(done: &Done) -> StoresWithOutbox {
    guarded_on(DynamoServer::with_tables().await, done)
}

fn guarded_on(server: DynamoServer, done: &Done) -> StoresWithOutbox {
    let store = server.store();
    let of = |port| Arc::new(store.through(client_of(&server, port, done), &server.config));
    let (outbox, purge) = (of(StorePort::Outbox), of(StorePort::Purge));
    let stores = Stores {
        message_writer: of(StorePort::MessageWriter),
        message_reader: of(StorePort::MessageReader),
        chat_writer: of(StorePort::ChatWriter),
        chat_reader: of(StorePort::ChatReader),
        user_writer: of(StorePort::UserWriter),
        user_reader: of(StorePort::UserReader),
        contacts: of(StorePort::Contacts),
        blocks: of(StorePort::Blocks),
        invitations: of(StorePort::Invitations),
        reports: of(StorePort::Reports),
        last_seen: of(StorePort::LastSeen),
        sessions: of(StorePort::Sessions),
        restrictions: of(StorePort::Restrictions),
        passkeys: of(StorePort::Passkeys),
        codes: of(StorePort::Codes),
        watermarks: of(StorePort::Watermarks),
        requests: of(StorePort::Requests),
        push_devices: of(StorePort::PushDevices),
        notices: of(StorePort::Notices),
        dead_letters: of(StorePort::DeadLetters),
        accounts: of(StorePort::Accounts),
        expirer: of(StorePort::Expirer),
    };
    // None of the suites above reads the log.
    let log = Arc::new(MemoryStore::new(Arc::new(RandomIds)));
    let sabotage = Arc::new(DynamoSaboteur { server, purge });
    StoresWithOutbox { stores: ContractStores { stores, log, sabotage }, outbox }
}

struct DynamoSaboteur {
    server: DynamoServer,
    purge: Arc<DynamoStore>,
}

#[async_trait]
impl FaultInjection for DynamoSaboteur {
    async fn drop_head(&self, chat_id: ChatId) {
        let (table, key) =
            (self.server.name(Table::ChatCounters), ItemKey::one(Table::ChatCounters, chat_id).attributes());
        self.server.client.delete_item().table_name(table).set_key(Some(key)).send().await.unwrap();
    }

    async fn purge_expired(&self) {
        while self.purge.purge_expired(SystemClock.now()).await.unwrap() > 0 {}
    }

    async fn indexed(&self) {
        self.server.proxy.catch_up().await;
    }
}
