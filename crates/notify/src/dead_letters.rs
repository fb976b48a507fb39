use std::sync::Arc;

use metrics::counter;
use ports::{DeadLetter, DeadLetterId, DeadLetterStore, StoreError, Undelivered};

use crate::{EventWebhook, Notifications};

/// What could not be delivered, for somebody to look at and to deliver again.
pub struct DeadLetters {
    pub store: Arc<dyn DeadLetterStore>,
    /// What delivers events in this process, if anything does.
    pub webhook: Option<Arc<EventWebhook>>,
    /// What delivers notifications in this process, if anything does.
    pub notifications: Option<Arc<Notifications>>,
}

/// What became of a dead letter that was to be delivered again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redelivery {
    /// An event was taken, or a notification is owed anew. The letter is forgotten.
    Done,
    /// The receiver has not taken it, for this reason. The letter stays.
    Failed(String),
    /// What was to be delivered is no longer kept, or has expired. The letter stays for whoever wants to know.
    NoLongerKept,
    /// Nothing in this process delivers such letters.
    Off,
    /// There is no such letter.
    NotFound,
}

impl DeadLetters {
    /// Delivers a dead letter again, with one try.
    pub async fn redeliver(&self, id: DeadLetterId) -> Result<Redelivery, StoreError> {
        let Some(letter) = self.store.dead_letter(id).await? else { return Ok(Redelivery::NotFound) };
        let redelivery = match (letter.what, &self.webhook, &self.notifications) {
            (Undelivered::Event { position, .. }, Some(webhook), _) => {
                webhook.redeliver(position, letter.attempts + 1).await?
            }
            (Undelivered::Notification { user_id, device_id, chat_id, from }, _, Some(notifications)) => {
                notifications.owe_at_once(user_id, chat_id, device_id, from).await?;
                Redelivery::Done
            }
            // What cannot be read cannot be delivered either.
            (Undelivered::Unreadable { .. }, ..) => Redelivery::NoLongerKept,
            (Undelivered::Event { .. } | Undelivered::Notification { .. }, ..) => Redelivery::Off,
        };
        if redelivery == Redelivery::Done {
            self.store.forget(id).await?;
        }
        Ok(redelivery)
    }
}

pub(crate) async fn bury(store: &dyn DeadLetterStore, letter: DeadLetter) -> Result<(), StoreError> {
    let kind = match letter.what {
        Undelivered::Event { .. } => "event",
        Undelivered::Unreadable { .. } => "unreadable",
        Undelivered::Notification { .. } => "notification",
    };
    store.bury(letter).await?;
    counter!("tidings_dead_letters_total", "kind" => kind).increment(1);
    Ok(())
}
