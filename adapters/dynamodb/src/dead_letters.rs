use async_trait::async_trait;
use domain::limits::RETENTION;
use domain::{Sequence, Timestamp};
use ports::{DeadLetter, DeadLetterId, DeadLetterStore, Position, StoreError, Undelivered};

use crate::DynamoStore;
use crate::db::{Bound, Query};
use crate::item::{Item, Key, Row, item, number, text, ttl};
use crate::schema::{TTL, Table};
use crate::write::Write;

/// All dead letters are in one partition, because they are listed in one order. There are few, or something is wrong.
const SHARD: &str = "all";

#[async_trait]
impl DeadLetterStore for DynamoStore {
    async fn bury(&self, letter: DeadLetter) -> Result<(), StoreError> {
        let writes = || vec![Write::create(letter_key(letter.id), letter_item(&letter))];
        // One that is there stays as it was buried first.
        self.db().transact(writes).await.map(drop)
    }

    async fn dead_letters(&self, after: Option<DeadLetterId>, count: usize) -> Result<Vec<DeadLetter>, StoreError> {
        let query =
            Query { bound: after.map(|id| Bound::Above(text(id))), ..Query::partition(Table::DeadLetters, SHARD) };
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

    async fn forget(&self, id: DeadLetterId) -> Result<bool, StoreError> {
        let forgotten = self.db().transact(|| vec![Write::delete(letter_key(id)).if_there()]).await?;
        Ok(forgotten.is_committed())
    }
}

/// The table forgets by itself, some days late.
fn is_kept(letter: &DeadLetter, now: Timestamp) -> bool {
    now.since(letter.dead_at) < RETENTION
}

fn letter_key(id: DeadLetterId) -> Key {
    Key::of(Table::DeadLetters, SHARD, id)
}

fn letter_item(letter: &DeadLetter) -> Item {
    let mut attributes = match &letter.what {
        Undelivered::Event { position, event_id, chat_id } => item([
            ("what", Some(text("event"))),
            ("position", Some(number(position.0))),
            ("event_id", Some(text(event_id))),
            ("chat_id", Some(text(chat_id))),
        ]),
        Undelivered::Unreadable { position } => {
            item([("what", Some(text("unreadable"))), ("position", Some(number(position.0)))])
        }
        Undelivered::Notification { user_id, device_id, chat_id, from } => item([
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

fn read_letter(item: &Item) -> Result<DeadLetter, StoreError> {
    let row = Row { table: Table::DeadLetters, item };
    let position = || row.number("position").map(Position);
    let what = match row.text("what")? {
        "event" => Undelivered::Event {
            position: position()?,
            event_id: row.parsed("event_id")?,
            chat_id: row.parsed("chat_id")?,
        },
        "unreadable" => Undelivered::Unreadable { position: position()? },
        "notification" => Undelivered::Notification {
            user_id: row.parsed("user_id")?,
            device_id: row.parsed("device_id")?,
            chat_id: row.parsed("chat_id")?,
            from: Sequence(row.number("from_sequence")?),
        },
        other => return Err(row.unreadable(format!("`{other}` is nothing that is delivered"))),
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
