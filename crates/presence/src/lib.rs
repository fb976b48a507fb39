//! Presence: who is online, when somebody was last seen, and who may see it.
//!
//! Presence is derived from routes and never stronger than they are: a user is online while a live route leads to them.
//! Three questions, a file each. What may one user see of another (`look`): the one place where privacy is judged, for
//! REST, subscriptions and pushes alike. Who is told unasked (`reach`): those online who share a chat with the user that
//! was active in the last 24 h, bounded in chats and people. And when (`announce`): each coming and going is claimed
//! once over all processes, written down, told and settled. `settings` sees to those who watch while somebody changes
//! who may see them, and `doubts` to those whom that did not reach.
//!
//! Explicit subscribers are known to their gateways alone. Those hear of every change, and ask again what each of their
//! watchers may see.
#![warn(missing_docs)]

mod announce;
mod doubts;
mod look;
mod presence;
mod reach;
mod settings;

pub use doubts::{Doubting, Doubts};
pub use presence::Presence;
