//! Presence: online state, last-seen times, and their privacy rules.
//!
//! Presence is derived from routes and is only as accurate as they are: a user is online while a live route leads to them.
//!
//! - `lookup` answers which presence a viewer sees of a user. All privacy checks are here, for REST, subscriptions and pushes.
//! - `recipients` selects the recipients of a presence transition without a subscription. These are online users that share a
//!   chat with the user that was active in the last 24 h. The numbers of chats and recipients are bounded.
//! - `announce` claims each transition once over all processes, stores last seen, notifies gateways and settles the claim.
//! - `settings` notifies viewers after a change of visibility, contacts or blocks.
//! - `rechecks` retries the notifications that failed, as presence re-checks.
//!
//! Only the gateways know their subscribers. Every gateway receives every presence change and looks the user up again for
//! each of its subscribers.
#![warn(missing_docs)]

mod announce;
mod lookup;
mod presence;
mod rechecks;
mod recipients;
mod settings;

pub use presence::Presence;
pub use rechecks::{PendingRechecks, RecheckGuard};
