use std::sync::Arc;

use metrics::counter;
use ports::{DeadLetter, DeadLetterId, DeadLetterStore, StoreError, UndeliveredItem};

use crate::{EventWebhook, Notifications};

/// Undelivered events and notifications, for inspection and redelivery.
pub struct DeadLetters {
    pub store: Arc<dyn DeadLetterStore>,
    /// Delivers events, if this process does.
    pub webhook: Option<Arc<EventWebhook>>,
    /// Delivers notifications, if this process does.
    pub notifications: Option<Arc<Notifications>>,
}

/// Result of the redelivery of a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redelivery {
    /// The event was accepted, or the notification is queued again. The letter is deleted.
    Done,
    /// The receiver rejected it, for this reason. The letter stays.
    Failed(String),
    /// The event or message is no longer stored, or has expired. The letter stays for inspection.
    NoLongerKept,
    /// This process does not deliver letters of this kind.
    Off,
    /// There is no such letter.
    NotFound,
}

impl DeadLetters {
    /// Redelivers a dead letter, with one attempt.
    pub async fn redeliver(&self, id: DeadLetterId) -> Result<Redelivery, StoreError> {
        let Some(letter) = self.store.dead_letter(id).await? else { return Ok(Redelivery::NotFound) };
        let redelivery = match (letter.what, &self.webhook, &self.notifications) {
            (UndeliveredItem::Event { position, .. }, Some(webhook), _) => {
                webhook.redeliver(position, letter.attempts + 1).await?
            }
            (UndeliveredItem::Notification { user_id, device_id, chat_id, from }, _, Some(notifications)) => {
                notifications.queue_at_once(user_id, chat_id, device_id, from).await?;
                Redelivery::Done
            }
            // An unreadable record cannot be delivered.
            (UndeliveredItem::Unreadable { .. }, ..) => Redelivery::NoLongerKept,
            (UndeliveredItem::Event { .. } | UndeliveredItem::Notification { .. }, ..) => Redelivery::Off,
        };
        if redelivery == Redelivery::Done {
            self.store.remove_dead_letter(id).await?;
        }
        Ok(redelivery)
    }
}

pub(crate) async fn add_dead_letter(store: &dyn DeadLetterStore, letter: DeadLetter) -> Result<(), StoreError> {
    let kind = match letter.what {
        UndeliveredItem::Event { .. } => "event",
        UndeliveredItem::Unreadable { .. } => "unreadable",
        UndeliveredItem::Notification { .. } => "notification",
    };
    store.add_dead_letter(letter).await?;
    counter!("tidings_dead_letters_total", "kind" => kind).increment(1);
    Ok(())
}
