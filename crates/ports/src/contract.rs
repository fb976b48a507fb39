//! The promises of the ports as tests, run by every adapter on its real engine.
//!
//! Each suite is a module of async functions, one for each promise, named after it; a name begins with the guarantee or
//! the scenario it shows, where there is one. An adapter hands over a fresh, empty subject for each:
//!
//! ```text
//! ports::contract_tests!(durable: stores());
//! ports::contract_tests!(routes: Timed { port: Arc::new(MyRoutes::new(clock)), pass });
//! ```
//!
//! which makes every function a test of its own, `messages::g2_…` and so on. A promise that an adapter cannot keep is
//! a bug in the adapter or in the port's doc comment, never an exception here.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::ChatId;

use crate::{
    AccountStore, BlockStore, ChatReader, ChatWriter, CodeStore, ContactStore, DeadLetterStore, EventLog,
    LastSeenStore, MessageExpirer, MessageReader, MessageWriter, NoticeStore, Outbox, PushDeviceStore, ReportStore,
    RequestStore, RouteWriter, Routes, SessionStore, Transitions, UserReader, UserWriter, WatermarkStore,
};

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
pub mod last_seen;
pub mod limits;
pub mod log;
pub mod member_cache;
pub mod messages;
pub mod notices;
pub mod outbox;
pub mod pages;
pub mod peers;
pub mod push_devices;
pub mod reports;
pub mod requests;
pub mod routes;
pub mod sessions;
pub mod tickets;
pub mod transfer;
pub mod transitions;
pub mod unread;
pub mod users;
pub mod watermarks;

pub use peopled::Peopled;
pub use violations::Violations;

/// The durable ports of one adapter, all on one store with nothing in it.
#[derive(Clone)]
pub struct Stores {
    /// Writes messages.
    pub message_writer: Arc<dyn MessageWriter>,
    /// Reads messages.
    pub message_reader: Arc<dyn MessageReader>,
    /// Writes chats.
    pub chat_writer: Arc<dyn ChatWriter>,
    /// Reads chats.
    pub chat_reader: Arc<dyn ChatReader>,
    /// Writes users.
    pub user_writer: Arc<dyn UserWriter>,
    /// Reads users.
    pub user_reader: Arc<dyn UserReader>,
    /// Keeps who has listed whom.
    pub contacts: Arc<dyn ContactStore>,
    /// Keeps who has blocked whom.
    pub blocks: Arc<dyn BlockStore>,
    /// Keeps what users report.
    pub reports: Arc<dyn ReportStore>,
    /// Keeps when users were last seen.
    pub last_seen: Arc<dyn LastSeenStore>,
    /// Keeps logins.
    pub sessions: Arc<dyn SessionStore>,
    /// Keeps one-time codes.
    pub codes: Arc<dyn CodeStore>,
    /// Keeps watermarks.
    pub watermarks: Arc<dyn WatermarkStore>,
    /// The events of all of the above.
    pub log: Arc<dyn EventLog>,
    /// Keeps answers to repeatable requests.
    pub requests: Arc<dyn RequestStore>,
    /// Keeps registrations for notifications.
    pub push_devices: Arc<dyn PushDeviceStore>,
    /// Keeps owed notifications.
    pub notices: Arc<dyn NoticeStore>,
    /// Keeps what could not be delivered.
    pub dead_letters: Arc<dyn DeadLetterStore>,
    /// Deletes accounts.
    pub accounts: Arc<dyn AccountStore>,
    /// Has messages end sooner.
    pub expirer: Arc<dyn MessageExpirer>,
    /// Breaks the store. Whatever the store needs to live, a directory for instance, can be kept alive in here too.
    pub sabotage: Arc<dyn Sabotage>,
}

/// The durable ports of an adapter whose log is not part of its store, and what waits there for the log.
#[derive(Clone)]
pub struct WithOutbox {
    /// The ports, all on one store with nothing in it.
    pub stores: Stores,
    /// The outbox of that store, in the process that the ports write from.
    pub outbox: Arc<dyn Outbox>,
}

/// Does to a store what no port can, and operators, disks and time sometimes do.
#[async_trait]
pub trait Sabotage: Send + Sync {
    /// Removes the head row of a chat and leaves everything else.
    async fn drop_head(&self, chat_id: ChatId);

    /// Purges what has expired, which the store does by itself sooner or later.
    async fn purge_expired(&self);

    /// Waits until the log has everything that was committed. Where it is part of the store, it has.
    async fn published(&self) {}
}

/// What keeps routes: its three sides on one state.
pub trait Routing: Routes + RouteWriter + Transitions {}

impl<T: Routes + RouteWriter + Transitions> Routing for T {}

/// A port that forgets with time, and the hand on its clock.
pub struct Timed<P: ?Sized> {
    /// The port, with nothing in it.
    pub port: Arc<P>,
    /// Makes this much time pass for the port.
    pub pass: Box<dyn Fn(Duration) + Send + Sync>,
}
