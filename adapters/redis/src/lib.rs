//! The shared, disposable state of a fleet: implements our ports on Redis or Redis Cluster.
//!
//! It holds routes, presence changes, rate limits, tickets, the member cache and the list of processes, and it carries
//! pushes between processes. None of it is authoritative. Redis can be wiped at any time: routes and processes return
//! with the next heartbeat (every 5 s, valid for 15 s), and everything else is loaded again. Every key has an expiry,
//! and no command uses keys of two slots. While a cluster migrates a slot, commands on the routes of its users fail
//! until the migration ends, because they use several keys.
//!
//! Tested with Redis 7.0; all commands exist since 6.2. An ACL user needs the commands of `@read`, `@write`,
//! `@scripting`, `@pubsub` and `@connection`, in a cluster also `cluster|slots`, on the keys of `keys` and the channels
//! `server:*`. With `info` in addition, our metrics report the state of Redis.
//!
//! Reading order: `keys` names the keys, and `call`, `link` and `client` run commands. Modules named after ports
//! implement them. `leases`, `routes`, `registration`, `due` and `transitions` handle routes and presence changes.
//! `envelope`, `delivery` and `inbox` carry pushes from one process to another. `audit` exposes routes to audits.
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
mod recipients;
mod registration;
mod routes;
mod tickets;
mod transitions;

pub use client::{Redis, RedisOpenError};
pub use config::{Config, Nodes, Url, UrlError};
pub use delivery::RedisDelivery;
pub use inbox::{Inbox, InboxState};
pub use limits::RedisLimits;
pub use member_cache::RedisMemberCache;
pub use meter::RedisMetrics;
pub use peers::RedisPeers;
pub use ports::EngineHealth;
pub use recipients::RedisRecipients;
pub use routes::RedisRoutes;
pub use tickets::RedisTickets;
