//! The location of each message, by its id (ADR 028). It is written in the transaction of the message, so a lookup
//! finds every acknowledged message. It expires with the message.

use domain::{ChatId, Message, MessageId, Sequence};
use ports::StoreError;

use crate::DynamoStore;
use crate::db::PartitionQuery;
use crate::item::{DynamoItem, ItemKey, ItemReader, end, item, number, text};
use crate::messages::message_key;
use crate::schema::Table;
use crate::write::Write;

impl DynamoStore {
    /// The key of the row of a message. A message without a location may be one of an earlier version: the index has
    /// it, and may lag.
    pub(crate) async fn locate(&self, message_id: MessageId) -> Result<Option<ItemKey>, StoreError> {
        if let Some(found) = self.db().get(&location_key(message_id)).await? {
            let (chat_id, sequence) = read_location(&found)?;
            return Ok(Some(message_key(chat_id, sequence)));
        }
        let index = PartitionQuery {
            index: Table::Messages.definition().index,
            ..PartitionQuery::partition(Table::Messages, message_id)
        };
        let found = self.db().query(&index, 1).await?.pop();
        found.map(|keys| ItemKey::read(Table::Messages, &keys)).transpose()
    }
}

/// Writes the location of a message. It needs no condition: an id belongs to one send, and the send key decides.
pub(crate) fn location_write(message: &Message) -> Write {
    Write::put(location_key(message.message_id), location_item(message))
}

pub(crate) fn location_key(message_id: MessageId) -> ItemKey {
    ItemKey::one(Table::MessageLocations, message_id)
}

pub(crate) fn location_item(message: &Message) -> DynamoItem {
    let [_, ttl] = end(message.expires_at);
    item([("chat_id", Some(text(message.chat_id))), ("sequence", Some(number(message.sequence.0))), ttl])
}

pub(crate) fn read_location(item: &DynamoItem) -> Result<(ChatId, Sequence), StoreError> {
    let row = ItemReader { table: Table::MessageLocations, item };
    Ok((row.parsed("chat_id")?, Sequence(row.number("sequence")?)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use domain::Ttl;
    use ports::{Clock, MessageReader, MessageWriter, NewMessage, SystemClock};

    use super::*;
    use crate::messages::message_item;
    use crate::testing::{DynamoServer, chat, message};

    #[tokio::test]
    async fn a_message_of_an_earlier_version_is_found_by_the_index() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        let old = message(chat_id, sender_id).at(Sequence(1), None);
        server.put(message_key(chat_id, Sequence(1)), message_item(&old, None, None)).await;
        assert_eq!(store.by_id(old.message_id, SystemClock.now()).await.unwrap(), Some(old));
    }

    #[tokio::test]
    async fn a_location_leads_only_to_its_own_message() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        let (sent, torn) = (message(chat_id, sender_id), message(chat_id, sender_id));
        store.append(vec![sent.clone()]).await.unwrap();
        // A restore kept the location of a lost message, and another message has its sequence.
        server.put(location_key(torn.message_id), location_item(&torn.clone().at(Sequence(1), None))).await;
        assert_eq!(store.by_id(torn.message_id, SystemClock.now()).await.unwrap(), None);
        assert!(store.by_id(sent.message_id, SystemClock.now()).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_location_expires_with_its_message() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let (chat_id, sender_id) = chat(&store).await;
        let long_gone = SystemClock.now().minus(Duration::from_secs(120));
        let gone = NewMessage { ttl: Ttl::from_secs(60), created_at: long_gone, ..message(chat_id, sender_id) };
        let kept = message(chat_id, sender_id);
        store.append(vec![gone.clone(), kept.clone()]).await.unwrap();
        server.database.sweep_ttl().unwrap();
        let locations = [gone, kept].map(|send| location_key(send.message_id));
        let found = store.db().get_many(&locations).await.unwrap();
        assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true]);
    }
}
