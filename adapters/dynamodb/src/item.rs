//! Conversion between values and attributes. Items are validated when read, because a table may contain items of
//! another version.

use std::collections::HashMap;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use domain::{Timestamp, Ttl};
use ports::{BoxError, StoreError};

use crate::schema::{Attribute, TTL, Table};

/// An item as the SDK represents it.
pub(crate) type DynamoItem = HashMap<String, AttributeValue>;

/// When an item was last written.
pub(crate) const UPDATED_AT: &str = "updated_at";

/// A string attribute.
pub(crate) fn text(value: impl Display) -> AttributeValue {
    AttributeValue::S(value.to_string())
}

/// A number attribute.
pub(crate) fn number(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// A binary attribute.
pub(crate) fn bytes(value: &[u8]) -> AttributeValue {
    AttributeValue::B(Blob::new(value))
}

/// A digest as part of a key.
pub(crate) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A TTL in whole seconds.
pub(crate) fn seconds(ttl: Ttl) -> AttributeValue {
    number(ttl.as_duration().as_secs())
}

/// The second from which an item that is obsolete at `end` may be deleted.
pub(crate) fn ttl(end: Timestamp) -> AttributeValue {
    number((end + Duration::from_millis(999)).as_secs())
}

/// An item from its attributes; absent values are left out.
pub(crate) fn item<const N: usize>(attributes: [(&'static str, Option<AttributeValue>); N]) -> DynamoItem {
    attributes.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// The location of an item: its table and key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ItemKey {
    pub(crate) table: Table,
    partition: String,
    sort: Option<String>,
}

impl ItemKey {
    /// The key of an item in a table without a sort key.
    pub(crate) fn one(table: Table, partition: impl Display) -> Self {
        Self { table, partition: partition.to_string(), sort: None }
    }

    /// The key of an item in a table with a sort key.
    pub(crate) fn of(table: Table, partition: impl Display, sort: impl Display) -> Self {
        Self { table, partition: partition.to_string(), sort: Some(sort.to_string()) }
    }

    /// The key of an item.
    pub(crate) fn read(table: Table, item: &DynamoItem) -> Result<Self, StoreError> {
        let (definition, row) = (table.definition(), ItemReader { table, item });
        let partition = row.text(definition.partition_key)?.to_owned();
        let sort = match definition.sort_key {
            None => None,
            Some(Attribute::Text(name)) => Some(row.text(name)?.to_owned()),
            Some(Attribute::Number(name)) => Some(row.number(name)?.to_string()),
        };
        Ok(Self { table, partition, sort })
    }

    /// The partition key and the sort key.
    pub(crate) fn parts(&self) -> (&str, Option<&str>) {
        (&self.partition, self.sort.as_deref())
    }

    pub(crate) fn attributes(&self) -> DynamoItem {
        let definition = self.table.definition();
        let sort = self.sort.clone().zip(definition.sort_key).map(|(sort, attribute)| match attribute {
            Attribute::Text(name) => (name.to_owned(), AttributeValue::S(sort)),
            Attribute::Number(name) => (name.to_owned(), AttributeValue::N(sort)),
        });
        let partition = (definition.partition_key.to_owned(), AttributeValue::S(self.partition.clone()));
        std::iter::once(partition).chain(sort).collect()
    }
}

/// A reader of an item's attributes.
#[derive(Clone, Copy)]
pub(crate) struct ItemReader<'a> {
    pub(crate) table: Table,
    pub(crate) item: &'a DynamoItem,
}

impl<'a> ItemReader<'a> {
    /// Whether the item has the attribute.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.item.contains_key(name)
    }

    pub(crate) fn text(&self, name: &'static str) -> Result<&'a str, StoreError> {
        self.required(name, self.maybe_text(name)?)
    }

    pub(crate) fn maybe_text(&self, name: &'static str) -> Result<Option<&'a str>, StoreError> {
        self.item
            .get(name)
            .map(|value| value.as_s().map(String::as_str))
            .transpose()
            .map_err(|_| self.unreadable(format!("attribute `{name}` is not a text")))
    }

    /// A value that is stored as text and parsed.
    pub(crate) fn parsed<T: FromStr<Err: Into<BoxError>>>(&self, name: &'static str) -> Result<T, StoreError> {
        self.required(name, self.maybe_parsed(name)?)
    }

    pub(crate) fn maybe_parsed<T: FromStr<Err: Into<BoxError>>>(
        &self,
        name: &'static str,
    ) -> Result<Option<T>, StoreError> {
        self.maybe_text(name)?.map(str::parse).transpose().map_err(|error| self.unreadable(error))
    }

    /// A value that is stored as text and converted.
    pub(crate) fn made<T: TryFrom<String, Error: Into<BoxError>>>(&self, name: &'static str) -> Result<T, StoreError> {
        self.required(name, self.maybe_made(name)?)
    }

    pub(crate) fn maybe_made<T: TryFrom<String, Error: Into<BoxError>>>(
        &self,
        name: &'static str,
    ) -> Result<Option<T>, StoreError> {
        let text = self.maybe_text(name)?.map(str::to_owned);
        text.map(T::try_from).transpose().map_err(|error| self.unreadable(error))
    }

    pub(crate) fn number(&self, name: &'static str) -> Result<u64, StoreError> {
        self.required(name, self.maybe_number(name)?)
    }

    pub(crate) fn maybe_number(&self, name: &'static str) -> Result<Option<u64>, StoreError> {
        let number = |value: &AttributeValue| value.as_n().ok().and_then(|text| text.parse().ok());
        let not_one = || self.unreadable(format!("attribute `{name}` is not a valid number"));
        self.item.get(name).map(|value| number(value).ok_or_else(not_one)).transpose()
    }

    /// A number that fits 32 bits.
    pub(crate) fn count(&self, name: &'static str) -> Result<u32, StoreError> {
        u32::try_from(self.number(name)?).map_err(|error| self.unreadable(error))
    }

    pub(crate) fn maybe_life(&self, name: &'static str) -> Result<Option<Ttl>, StoreError> {
        let life = |seconds| {
            Ttl::from_secs(seconds)
                .ok_or_else(|| self.unreadable(format!("a message cannot live for {seconds} seconds")))
        };
        self.maybe_number(name)?.map(life).transpose()
    }

    pub(crate) fn bytes(&self, name: &'static str) -> Result<&'a [u8], StoreError> {
        let value = self.item.get(name).map(AttributeValue::as_b).transpose();
        let value = value.map_err(|_| self.unreadable(format!("attribute `{name}` is not bytes")))?;
        self.required(name, value.map(Blob::as_ref))
    }

    /// Bytes of a known length.
    pub(crate) fn array<const N: usize>(&self, name: &'static str) -> Result<[u8; N], StoreError> {
        self.bytes(name)?.try_into().map_err(|_| self.unreadable(format!("attribute `{name}` is not {N} bytes")))
    }

    /// The error for an invalid item.
    pub(crate) fn unreadable(&self, source: impl Into<BoxError>) -> StoreError {
        StoreError::Corrupt { table: self.table.name(), source: source.into() }
    }

    fn required<T>(&self, name: &'static str, value: Option<T>) -> Result<T, StoreError> {
        value.ok_or_else(|| self.unreadable(format!("attribute `{name}` is missing")))
    }
}

/// The expiry of an item in milliseconds, next to [`TTL`].
pub(crate) const EXPIRES_AT: &str = "expires_at";

/// Both attributes of an item's expiry.
pub(crate) fn end(at: Option<Timestamp>) -> [(&'static str, Option<AttributeValue>); 2] {
    [(EXPIRES_AT, at.map(text)), (TTL, at.map(ttl))]
}

/// The size of an item as the service counts it.
pub(crate) fn item_bytes(item: &DynamoItem) -> usize {
    item.iter().map(|(name, value)| name.len() + value_bytes(value)).sum()
}

fn value_bytes(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::N(digits) => digits.len() / 2 + 2,
        AttributeValue::B(bytes) => bytes.as_ref().len(),
        AttributeValue::L(values) => 3 + values.iter().map(|value| 1 + value_bytes(value)).sum::<usize>(),
        AttributeValue::M(item) => 3 + item_bytes(item),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &'static str, value: AttributeValue, expected: &str) {
        let item = HashMap::from([(name.to_owned(), value)]);
        let row = ItemReader { table: Table::Messages, item: &item };
        let error = match name {
            "number" => row.number(name).unwrap_err(),
            "bytes" => row.array::<16>(name).unwrap_err(),
            _ => row.parsed::<Timestamp>("time").unwrap_err(),
        };
        let StoreError::Corrupt { table, source } = error else { panic!("{error:?}") };
        assert_eq!((table, source.to_string().as_str()), ("messages", expected));
    }

    #[test]
    fn an_invalid_attribute_is_an_error_that_names_it() {
        check("number", text("7"), "attribute `number` is not a valid number");
        check("number", AttributeValue::N("-7.5".to_owned()), "attribute `number` is not a valid number");
        check("bytes", bytes(&[1; 15]), "attribute `bytes` is not 16 bytes");
        check("bytes", number(1), "attribute `bytes` is not bytes");
        check("other", text(""), "attribute `time` is missing");
        check("time", number(7), "attribute `time` is not a text");
    }

    #[test]
    fn an_item_is_deleted_no_earlier_than_it_ends() {
        for (end, second) in [(0, 0), (1, 1), (1000, 1), (1001, 2), (1999, 2)] {
            assert_eq!(ttl(Timestamp::from_millis(end)), number(second), "{end} ms");
        }
    }

    #[test]
    fn a_key_is_found_again_in_its_item() {
        for key in [
            ItemKey::one(Table::Chats, "a"),
            ItemKey::of(Table::Messages, "a", 7),
            ItemKey::of(Table::Requests, "a", "b"),
        ] {
            assert_eq!(ItemKey::read(key.table, &key.attributes()).unwrap(), key);
        }
    }
}
