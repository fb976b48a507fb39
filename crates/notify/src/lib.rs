//! Outbound notifications: to the devices of offline members, and to the application's server.
//!
//! Both are consumers of the event log with their own offset, so an unavailable receiver delays only its own deliveries.
//!
//! - [`Notifications`] queues a notice for each device of an offline member and delivers it through the port `Notifier`.
//!   [`Providers`] implements this port.
//! - [`EventWebhook`] posts every event to the application, in order per chat, with retries.
//! - A permanently rejected delivery becomes a dead letter. [`DeadLetters`] redelivers it on request.
//!
//! Neither replies to a sender, and both commit their offset after the work: a crash repeats events and skips none.

mod wait;

mod notice_delivery;
mod notifications;

mod body;
mod encryption;
mod endpoint;
mod providers;
mod vapid;
mod web_push;
mod webhook_notifier;

mod chat_order;
mod delivery_attempts;
mod event_webhook;
mod lanes;
mod status;

mod dead_letters;

pub use dead_letters::{DeadLetters, Redelivery};
pub use event_webhook::{EventWebhook, EventWebhookConfig, EventWebhookPorts, Replay, ReplayError};
pub use notifications::{NotificationPorts, Notifications, NotificationsConfig};
pub use providers::Providers;
pub use status::WebhookStatus;
pub use vapid::VapidKeys;
pub use web_push::{WebPushConfig, WebPushNotifier};
pub use webhook_notifier::WebhookNotifier;
