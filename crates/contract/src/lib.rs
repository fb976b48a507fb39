//! The guarantees of the ports as tests, which every adapter runs on its real engine.
//!
//! Each suite is a module of async functions, one per guarantee and named after it. A name starts with the id of the
//! guarantee or scenario, if it has one. An adapter passes a new, empty subject to each function:
//!
//! ```text
//! contract::tests!(durable_with_log: stores());
//! contract::tests!(routes: Timed { port: Arc::new(MyRoutes::new(clock)), pass });
//! ```
//!
//! The macro makes every function a test of its own, `messages::g2_…` and so on. If an adapter fails a test, the bug is
//! in the adapter or in the port's doc comment; there are no exceptions per adapter.
//!
//! Two tools of these suites serve other tests too: [`SampleData`] fills a store with rows of every kind, and
//! [`Violations`] counts broken invariants.

#![warn(missing_docs)]

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::ChatId;
use ports::{EventLog, MemberCache, Outbox, PresenceTransitions, RecipientLookup, RouteWriter, Routes, Stores};

mod fixtures;
mod list;
mod peopled;
mod violations;

pub mod accounts;
pub mod blocks;
pub mod chats;
pub mod codes;
pub mod contacts;
pub mod dead_letters;
pub mod expiry;
pub mod invitations;
pub mod last_seen;
pub mod limits;
pub mod log;
pub mod member_cache;
pub mod messages;
pub mod notices;
pub mod outbox;
pub mod pages;
pub mod passkeys;
pub mod peers;
pub mod push_devices;
pub mod recipients;
pub mod reports;
pub mod requests;
pub mod restrictions;
pub mod routes;
pub mod sessions;
pub mod tickets;
pub mod transfer;
pub mod transitions;
pub mod unread;
pub mod updates;
pub mod users;
pub mod watermarks;

pub use peopled::SampleData;
pub use violations::Violations;

/// The durable ports and the log of one adapter, all on one empty store. It dereferences to the ports.
#[derive(Clone)]
pub struct ContractStores {
    /// The durable ports.
    pub stores: Stores,
    /// Reads the events of all these ports.
    pub log: Arc<dyn EventLog>,
    /// Damages the store. It may also own resources that the store needs, for example a temporary directory.
    pub sabotage: Arc<dyn FaultInjection>,
}

impl Deref for ContractStores {
    type Target = Stores;

    fn deref(&self) -> &Stores {
        &self.stores
    }
}

/// The durable ports of an adapter with a separate log, and the outbox of its store.
#[derive(Clone)]
pub struct StoresWithOutbox {
    /// The ports, all on one empty store.
    pub stores: ContractStores,
    /// The outbox of that store, in the process that writes through the ports.
    pub outbox: Arc<dyn Outbox>,
}

/// Changes a store in ways that no port can, as operators, disk faults and background work do.
#[async_trait]
pub trait FaultInjection: Send + Sync {
    /// Deletes the head row of a chat and nothing else.
    async fn drop_head(&self, chat_id: ChatId);

    /// Purges expired rows now; in production a background task of the store does it.
    async fn purge_expired(&self);

    /// Waits until the log has every committed event. A log that is part of the store always has.
    async fn published(&self) {}

    /// Waits until the indexes of the store have every commit. Only [`Outbox::overdue`] and
    /// [`NoticeStore::take_due`](ports::NoticeStore::take_due) may use indexes that lag.
    async fn indexed(&self) {}
}

/// The three route ports on one shared state.
pub trait Routing: Routes + RouteWriter + PresenceTransitions {}

impl<T: Routes + RouteWriter + PresenceTransitions> Routing for T {}

/// The recipient lookups of two processes, with the routes and the member cache that they read.
pub struct RecipientPorts {
    /// The lookup in each process.
    pub lookups: [Arc<dyn RecipientLookup>; 2],
    /// Writes the routes.
    pub routes: Arc<dyn RouteWriter>,
    /// The member cache.
    pub cache: Arc<dyn MemberCache>,
}

/// A port with expiring state, and control over its clock.
pub struct Timed<P: ?Sized> {
    /// The port, empty.
    pub port: Arc<P>,
    /// Advances the port's clock.
    pub pass: Box<dyn Fn(Duration) + Send + Sync>,
}
