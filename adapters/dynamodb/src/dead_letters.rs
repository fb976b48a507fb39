use async_trait::async_trait;
use domain::limits::RETENTION;
use domain::{Sequence, Timestamp};
use ports::{DeadLetter, DeadLetterId, DeadLetterStore, Position, StoreError, UndeliveredItem};

use crate::DynamoStore;
use crate::db::{Bound, PartitionQuery};
use crate::item::{DynamoItem, ItemKey, ItemReader, item, number, text, ttl};
use crate::schema::{TTL, Table};
use crate::write::Write;

/// All dead letters are in one partition, because they are listed in one order. In normal operation there are few.
const SHARD: &str = "all";

#[async_trait]
impl DeadLetterStore for DynamoStore {
    async fn add_dead_letter(&self, letter: DeadLetter) -> Result<(), StoreError> {
        let writes = || vec![Write::create(letter_key(letter.id), letter_item(&letter))];
        // An existing letter stays unchanged.
        self.db().transact(writes).await.map(drop)
    }

    async fn dead_letters(&self, after: Option<DeadLetterId>, count: usize) -> Result<Vec<DeadLetter>, StoreError> {
        let query = PartitionQuery {
            bound: after.map(|id| Bound::Above(text(id))),
            ..PartitionQuery::partition(Table::DeadLetters, SHARD)
        };
        let (now, mut letters, mut start) = (self.clock().now(), vec![], None);
        while letters.len() < count {
            let (items, next) = self.db().page(&query, count - letters.len(), start).await?;
            for item in &items {
                letters.extend(Some(read_letter(item)?).filter(|letter| is_kept(letter, now)));
            }
            start = next;
            if start.is_none() {
                break;
            }
        }
        Ok(letters)
    }

    async fn dead_letter(&self, id: DeadLetterId) -> Result<Option<DeadLetter>, StoreError> {
        let letter = self.db().get(&letter_key(id)).await?.map(|item| read_letter(&item)).transpose()?;
        Ok(letter.filter(|letter| is_kept(letter, self.clock().now())))
    }

    async fn remove_dead_letter(&self, id: DeadLetterId) -> Result<bool, StoreError> {
        let forgotten = self.db().transact(|| vec![Write::delete(letter_key(id)).if_there()]).await?;
        Ok(forgotten.is_committed())
    }
}

/// The TTL deletes letters up to some days late, so reads check the age.
fn is_kept(letter: &DeadLetter, now: Timestamp) -> bool {
    now.since(letter.dead_at) < RETENTION
}

fn letter_key(id: DeadLetterId) -> ItemKey {
    ItemKey::of(Table::DeadLetters, SHARD, id)
}

fn letter_item(letter: &DeadLetter) -> DynamoItem {
    let mut attributes = match &letter.what {
        UndeliveredItem::Event { position, event_id, chat_id } => item([
            ("what", Some(text("event"))),
            ("position", Some(number(position.0))),
            ("event_id", Some(text(event_id))),
            ("chat_id", Some(text(chat_id))),
        ]),
        UndeliveredItem::Unreadable { position } => {
            item([("what", Some(text("unreadable"))), ("position", Some(number(position.0)))])
        }
        UndeliveredItem::Notification { user_id, device_id, chat_id, from } => item([
            ("what", Some(text("notification"))),
            ("user_id", Some(text(user_id))),
            ("device_id", Some(text(device_id))),
            ("chat_id", Some(text(chat_id))),
            ("from_sequence", Some(number(from.0))),
        ]),
    };
    attributes.extend(item([
        ("attempts", Some(number(letter.attempts.into()))),
        ("reason", Some(text(&letter.reason))),
        ("dead_at", Some(text(letter.dead_at))),
        (TTL, Some(ttl(letter.dead_at + RETENTION))),
    ]));
    attributes
}

pub(crate) fn read_letter(item: &DynamoItem) -> Result<DeadLetter, StoreError> {
    let row = ItemReader { table: Table::DeadLetters, item };
    let position = || row.number("position").map(Position);
    let what = match row.text("what")? {
        "event" => UndeliveredItem::Event {
            position: position()?,
            event_id: row.parsed("event_id")?,
            chat_id: row.parsed("chat_id")?,
        },
        "unreadable" => UndeliveredItem::Unreadable { position: position()? },
        "notification" => UndeliveredItem::Notification {
            user_id: row.parsed("user_id")?,
            device_id: row.parsed("device_id")?,
            chat_id: row.parsed("chat_id")?,
            from: Sequence(row.number("from_sequence")?),
        },
        other => return Err(row.unreadable(format!("`{other}` is not a known kind of delivery"))),
    };
    let id = row.text("dead_letter_id")?;
    Ok(DeadLetter {
        id: DeadLetterId::from_string(id).map_err(|error| row.unreadable(error.to_string()))?,
        what,
        attempts: row.count("attempts")?,
        reason: row.text("reason")?.to_owned(),
        dead_at: row.parsed("dead_at")?,
    })
}
