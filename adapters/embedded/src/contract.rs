//! The embedded store keeps every promise of the ports. The suite runs inside the crate, because breaking a store for it
//! takes a transaction that no port offers.

use std::sync::Arc;

use async_trait::async_trait;
use domain::ChatId;
use ports::contract::transfer::Movable;
use ports::contract::{Sabotage, Stores};
use ports::{RandomIds, SystemClock};
use tempfile::TempDir;

use crate::keys;
use crate::tables::Table;
use crate::{Config, EmbeddedStore, trim};

ports::contract_tests!(durable: stores(Config::default()));
ports::contract_tests!(transfer: [movable(), movable()]);

/// Consumers that keep up read memory; here everybody reads the disk.
mod without_a_tail {
    use super::*;

    ports::contract_tests!(log: stores(Config { tail_events_max: 0, ..Config::default() }));
}

fn stores(config: Config) -> Stores {
    opened(config).1
}

fn movable() -> Movable {
    let (store, stores) = opened(Config::default());
    Movable { stores, source: store.clone(), target: store, outbox: None }
}

fn opened(config: Config) -> (Arc<EmbeddedStore>, Stores) {
    let directory = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(directory.path(), config, Arc::new(SystemClock), Arc::new(RandomIds));
    let store = Arc::new(store.unwrap());
    let stores = Stores {
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
        log: store.clone(),
        requests: store.clone(),
        push_devices: store.clone(),
        notices: store.clone(),
        dead_letters: store.clone(),
        accounts: store.clone(),
        expirer: store.clone(),
        sabotage: Arc::new(Saboteur { store: store.clone(), _directory: directory }),
    };
    (store, stores)
}

struct Saboteur {
    store: Arc<EmbeddedStore>,
    _directory: TempDir,
}

#[async_trait]
impl Sabotage for Saboteur {
    async fn drop_head(&self, chat_id: ChatId) {
        let dropped = self.store.write(move |tx| {
            tx.delete(Table::Heads, &keys::chat(chat_id));
            Ok(())
        });
        dropped.await.unwrap();
    }

    async fn purge_expired(&self) {
        trim::purge_all(self.store.link().clone(), Arc::new(SystemClock)).await;
    }
}
