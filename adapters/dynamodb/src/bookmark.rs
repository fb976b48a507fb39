//! Pages of whole tables, for audits and exports. A bookmark is the last key of a page.

use ports::{PageBookmark, StoreError};

use crate::DynamoStore;
use crate::db::ScanFreshness;
use crate::item::{DynamoItem, ItemKey};
use crate::schema::Table;
use crate::transfer::is_mark;

impl DynamoStore {
    /// The items of a table after a bookmark, without the mark of an import.
    pub(crate) async fn scan(
        &self,
        table: Table,
        after: Option<&PageBookmark>,
        count: usize,
        freshness: ScanFreshness,
    ) -> Result<(Vec<DynamoItem>, Option<PageBookmark>), StoreError> {
        let after = after.map(|PageBookmark(text)| key_of(table, text)).transpose()?;
        let (mut items, next) = self.db().scan(table, after.as_ref(), count, freshness).await?;
        items.retain(|item| !is_mark(table, item));
        Ok((items, next.map(|key| PageBookmark(bookmark(&key)))))
    }
}

/// A key as a bookmark: the length of its first part, then both parts.
fn bookmark(key: &ItemKey) -> String {
    let (partition, sort) = key.parts();
    format!("{}:{partition}{}", partition.len(), sort.unwrap_or_default())
}

fn key_of(table: Table, text: &str) -> Result<ItemKey, StoreError> {
    let parse = || {
        let (len, rest) = text.split_once(':')?;
        let (partition, sort) = rest.split_at_checked(len.parse().ok()?)?;
        Some(match table.definition().sort_key {
            Some(_) => ItemKey::of(table, partition, sort),
            None => ItemKey::one(table, partition),
        })
    };
    parse().ok_or_else(|| strange(text))
}

/// The error for a bookmark that this store did not make.
pub(crate) fn strange(text: &str) -> StoreError {
    StoreError::unavailable(format!("`{text}` is not a bookmark of this store"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bookmark_is_the_key_that_it_was_made_from() {
        for key in [
            ItemKey::one(Table::Chats, "a:b c"),
            ItemKey::of(Table::Messages, "chat", 7),
            ItemKey::of(Table::Requests, "é", "b:1"),
        ] {
            assert_eq!(key_of(key.table, &bookmark(&key)).unwrap(), key);
        }
        for text in ["", "x", "3:a", "1:é"] {
            assert!(key_of(Table::Chats, text).is_err(), "{text}");
        }
    }
}
