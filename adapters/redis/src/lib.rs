//! What a fleet shares and may lose: Redis, or a Redis Cluster, behind our ports.
//!
//! Routes, the comings and goings of users, rate limits, tickets and the member cache of many processes, which
//! processes there are, and the way of pushes between them. Nothing here is the truth of anything. Redis can be wiped
//! at any moment: routes and processes come back with the next beat, within 5 s of a 15 s life, and everything else is
//! asked for again. Every key has an expiry, and no command touches keys of two slots. While a cluster moves a slot,
//! the routes of the users in it are refused until it has moved, because they are several keys.
//!
//! Redis 7.0 is what is tested; 6.2 is the first that knows all commands. A user of the ACL needs the commands of
//! `@read`, `@write`, `@scripting`, `@pubsub` and `@connection`, in a cluster `cluster|slots` too, on the keys of
//! `keys` and the channels `server:*`. With `info` besides, our metrics tell how Redis is.
//!
//! Reading order: `keys` says what is in Redis, `call`, `link` and `client` how it gets there, and the modules named
//! after ports answer for them. `leases`, `routes`, `registration`, `due` and `transitions` are where users are and how
//! they come and go; `envelope`, `delivery` and `inbox` are the way of a push from one process to another.
//! `audit` shows routes to whoever checks them.
#![warn(missing_docs)]

mod audit;
mod call;
mod client;
mod config;
mod delivery;
mod due;
mod envelope;
mod inbox;
mod keys;
mod leases;
mod limits;
mod link;
mod member_cache;
mod meter;
mod peers;
mod registration;
mod routes;
mod tickets;
mod transitions;

pub use client::{OpenError, Redis};
pub use config::{Config, Nodes, Password, Url, UrlError};
pub use delivery::RedisDelivery;
pub use inbox::{Inbox, InboxState};
pub use limits::RedisLimits;
pub use member_cache::RedisMemberCache;
pub use meter::RedisMetrics;
pub use peers::RedisPeers;
pub use ports::Health;
pub use routes::RedisRoutes;
pub use tickets::RedisTickets;
