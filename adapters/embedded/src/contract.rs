//! Runs the contract suite of the ports against the embedded store. It runs inside the crate, because damaging a store
//! for it requires a transaction that no port offers.

use std::sync::Arc;

use async_trait::async_trait;
use contract::transfer::TransferStore;
use contract::{ContractStores, FaultInjection};
use domain::ChatId;
use ports::{RandomIds, Stores, SystemClock};
use tempfile::TempDir;

use crate::keys;
use crate::tables::Table;
use crate::{Config, EmbeddedStore, trim};

contract::tests!(durable_with_log: stores(Config::default()));
contract::tests!(transfer: [movable(Config::default()), movable(Config::default())]);

/// Consumers that keep up read from memory; here all consumers read from disk.
mod without_a_tail {
    use super::*;

    contract::tests!(log: stores(Config { tail_events_max: 0, ..Config::default() }));
}

/// The same contract on an encrypted store.
mod encrypted {
    use super::*;
    use crate::StoreKey;

    contract::tests!(durable_with_log: stores(config()));
    contract::tests!(transfer: [movable(config()), movable(Config::default())]);

    fn config() -> Config {
        Config { key: Some(StoreKey::derive(&[7; 32]).unwrap()), ..Config::default() }
    }
}

fn stores(config: Config) -> ContractStores {
    opened(config).1
}

fn movable(config: Config) -> TransferStore {
    let (store, stores) = opened(config);
    TransferStore { stores, source: store.clone(), target: store, outbox: None }
}

fn opened(config: Config) -> (Arc<EmbeddedStore>, ContractStores) {
    let directory = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(directory.path(), config, Arc::new(SystemClock), Arc::new(RandomIds));
    let store = Arc::new(store.unwrap());
    let stores = ContractStores {
        stores: Stores::on(&store),
        log: store.clone(),
        sabotage: Arc::new(EmbeddedSaboteur { store: store.clone(), _directory: directory }),
    };
    (store, stores)
}

struct EmbeddedSaboteur {
    store: Arc<EmbeddedStore>,
    _directory: TempDir,
}

#[async_trait]
impl FaultInjection for EmbeddedSaboteur {
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
