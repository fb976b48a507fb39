//! The store keeps the promises of the ports against a real server. The suite runs inside the crate, because breaking a
//! store for it takes a request that no port offers.

use std::sync::Arc;

use async_trait::async_trait;
use domain::ChatId;
use memory::MemoryStore;
use ports::contract::transfer::Movable;
use ports::contract::{Sabotage, Stores, WithOutbox};
use ports::{Clock, RandomIds, SystemClock};

use crate::DynamoStore;
use crate::item::Key;
use crate::schema::Table;
use crate::schema::access::Port;
use crate::schema::access::guard::{Done, client_of};
use crate::testing::Server;

ports::contract_tests!(messages: stores().await);
ports::contract_tests!(pages: stores().await);
ports::contract_tests!(unread: stores().await);
ports::contract_tests!(chats: stores().await);
ports::contract_tests!(users: stores().await);
ports::contract_tests!(contacts: stores().await);
ports::contract_tests!(blocks: stores().await);
ports::contract_tests!(reports: stores().await);
ports::contract_tests!(last_seen: stores().await);
ports::contract_tests!(sessions: stores().await);
ports::contract_tests!(codes: stores().await);
ports::contract_tests!(watermarks: stores().await);
ports::contract_tests!(requests: stores().await);
ports::contract_tests!(push_devices: stores().await);
ports::contract_tests!(notices: stores().await);
ports::contract_tests!(dead_letters: stores().await);
ports::contract_tests!(accounts: stores().await);
ports::contract_tests!(expiry: stores().await);
ports::contract_tests!(outbox: with_outbox().await);
ports::contract_tests!(transfer: [movable().await, movable().await]);

async fn stores() -> Stores {
    with_outbox().await.stores
}

async fn with_outbox() -> WithOutbox {
    guarded(&Done::default()).await
}

/// The ports as roles have them, and both sides of a move as an operator has them.
async fn movable() -> Movable {
    let server = Server::with_tables().await;
    let store = Arc::new(server.store());
    let WithOutbox { stores, outbox } = guarded_on(server, &Done::default());
    Movable { stores, source: store.clone(), target: store, outbox: Some(outbox) }
}

/// Ports that may do what policies allow them and nothing else. What they do is noted.
pub(crate) async fn guarded(done: &Done) -> WithOutbox {
    guarded_on(Server::with_tables().await, done)
}

fn guarded_on(server: Server, done: &Done) -> WithOutbox {
    let store = server.store();
    let of = |port| Arc::new(store.through(client_of(&server, port, done), &server.config));
    let (outbox, purge) = (of(Port::Outbox), of(Port::Purge));
    let stores = Stores {
        message_writer: of(Port::MessageWriter),
        message_reader: of(Port::MessageReader),
        chat_writer: of(Port::ChatWriter),
        chat_reader: of(Port::ChatReader),
        user_writer: of(Port::UserWriter),
        user_reader: of(Port::UserReader),
        contacts: of(Port::Contacts),
        blocks: of(Port::Blocks),
        reports: of(Port::Reports),
        last_seen: of(Port::LastSeen),
        sessions: of(Port::Sessions),
        codes: of(Port::Codes),
        watermarks: of(Port::Watermarks),
        // None of the suites above reads the log.
        log: Arc::new(MemoryStore::new(Arc::new(RandomIds))),
        requests: of(Port::Requests),
        push_devices: of(Port::PushDevices),
        notices: of(Port::Notices),
        dead_letters: of(Port::DeadLetters),
        accounts: of(Port::Accounts),
        expirer: of(Port::Expirer),
        sabotage: Arc::new(Saboteur { server, purge }),
    };
    WithOutbox { stores, outbox }
}

struct Saboteur {
    server: Server,
    purge: Arc<DynamoStore>,
}

#[async_trait]
impl Sabotage for Saboteur {
    async fn drop_head(&self, chat_id: ChatId) {
        let (table, key) = (self.server.name(Table::ChatCounters), Key::one(Table::ChatCounters, chat_id).attributes());
        self.server.client.delete_item().table_name(table).set_key(Some(key)).send().await.unwrap();
    }

    async fn purge_expired(&self) {
        while self.purge.purge_expired(SystemClock.now()).await.unwrap() > 0 {}
    }
}
