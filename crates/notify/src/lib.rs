//! Tells those who have no connection: the devices of members who are away, and the application's own server.
//!
//! Both are consumers of the event log with a place of their own, so a receiver that sleeps delays itself and nobody else.
//! [`Notifications`] owes a notice to each device of a member who is away and settles it through the port `Notifier`, for
//! which [`Providers`] are the implementations. [`EventWebhook`] posts every event to the application, in order per chat,
//! for as long as it takes. What somebody refuses for good becomes a dead letter, which [`DeadLetters`] delivers again
//! when somebody asks.
//!
//! Neither answers a sender, and both commit their place behind their work: a crash repeats and skips nothing.

mod backoff;
mod wait;

mod notifications;
mod telling;

mod body;
mod endpoint;
mod providers;
mod vapid;
mod web_push;
mod webhook_notifier;

mod event_webhook;
mod lanes;
mod status;
mod tries;

mod dead_letters;

pub use backoff::Backoff;
pub use dead_letters::{DeadLetters, Redelivery};
pub use event_webhook::{EventWebhook, EventWebhookConfig, EventWebhookPorts, Replay, ReplayError};
pub use notifications::{NotificationPorts, Notifications, NotificationsConfig};
pub use providers::Providers;
pub use status::WebhookStatus;
pub use vapid::VapidKeys;
pub use web_push::{WebPushConfig, WebPushNotifier};
pub use webhook_notifier::WebhookNotifier;
