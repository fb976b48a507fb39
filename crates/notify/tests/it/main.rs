//! Notifications and the application's webhook over the memory store, with receivers that tests control.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod delivering;
mod failing;
mod notifying;
mod ordering;
mod providers;
mod receiver;
mod recorder;
mod replaying;
mod secrecy;
mod vapid;
mod web_push;
mod webhook_world;
mod world;
