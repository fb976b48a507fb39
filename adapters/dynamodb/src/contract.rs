//! The store keeps the promises of the ports against a real server. The suite runs inside the crate, because breaking a
//! store for it takes a request that no port offers.

use std::sync::Arc;

use async_trait::async_trait;
use domain::ChatId;
use memory::MemoryStore;
use ports::RandomIds;
use ports::contract::{Sabotage, Stores};

use crate::item::Key;
use crate::schema::Table;
use crate::testing::Server;

ports::contract_tests!(messages: stores().await);
ports::contract_tests!(pages: stores().await);
ports::contract_tests!(unread: stores().await);
ports::contract_tests!(chats: stores().await);
ports::contract_tests!(users: stores().await);
ports::contract_tests!(sessions: stores().await);
ports::contract_tests!(codes: stores().await);
ports::contract_tests!(watermarks: stores().await);
ports::contract_tests!(requests: stores().await);
ports::contract_tests!(push_devices: stores().await);
ports::contract_tests!(notices: stores().await);
ports::contract_tests!(dead_letters: stores().await);

async fn stores() -> Stores {
    let server = Server::with_tables().await;
    let store = Arc::new(server.store());
    Stores {
        message_writer: store.clone(),
        message_reader: store.clone(),
        chat_writer: store.clone(),
        chat_reader: store.clone(),
        user_writer: store.clone(),
        user_reader: store.clone(),
        sessions: store.clone(),
        codes: store.clone(),
        watermarks: store.clone(),
        // None of the suites above reads the log.
        log: Arc::new(MemoryStore::new(Arc::new(RandomIds))),
        requests: store.clone(),
        push_devices: store.clone(),
        notices: store.clone(),
        dead_letters: store,
        sabotage: Arc::new(Saboteur(server)),
    }
}

struct Saboteur(Server);

#[async_trait]
impl Sabotage for Saboteur {
    async fn drop_head(&self, chat_id: ChatId) {
        let (table, key) = (self.0.name(Table::ChatCounters), Key::one(Table::ChatCounters, chat_id).attributes());
        self.0.client.delete_item().table_name(table).set_key(Some(key)).send().await.unwrap();
    }

    async fn purge_expired(&self) {
        self.0.database.sweep_ttl().unwrap();
    }
}
