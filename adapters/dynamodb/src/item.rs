//! How values become attributes and come back. Items are checked on their way back, because a table may return what
//! this version has never written.

use std::collections::HashMap;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use domain::{Timestamp, Ttl};
use ports::{BoxError, StoreError};

use crate::schema::{Attribute, TTL, Table};

/// An item as the SDK has it.
pub(crate) type Item = HashMap<String, AttributeValue>;

/// A text.
pub(crate) fn text(value: impl Display) -> AttributeValue {
    AttributeValue::S(value.to_string())
}

/// A number.
pub(crate) fn number(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// Bytes.
pub(crate) fn bytes(value: &[u8]) -> AttributeValue {
    AttributeValue::B(Blob::new(value))
}

/// A digest as part of a key.
pub(crate) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whole seconds of a life.
pub(crate) fn seconds(ttl: Ttl) -> AttributeValue {
    number(ttl.as_duration().as_secs())
}

/// The second from which an item may be deleted that says nothing from `end` on.
pub(crate) fn ttl(end: Timestamp) -> AttributeValue {
    number((end + Duration::from_millis(999)).as_secs())
}

/// An item from its attributes; those that are absent are left out.
pub(crate) fn item<const N: usize>(attributes: [(&'static str, Option<AttributeValue>); N]) -> Item {
    attributes.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Where an item is in its table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) table: Table,
    partition: String,
    sort: Option<String>,
}

impl Key {
    /// The key of an item in a table without a sort key.
    pub(crate) fn one(table: Table, partition: impl Display) -> Self {
        Self { table, partition: partition.to_string(), sort: None }
    }

    /// The key of one of several items of a partition.
    pub(crate) fn of(table: Table, partition: impl Display, sort: impl Display) -> Self {
        Self { table, partition: partition.to_string(), sort: Some(sort.to_string()) }
    }

    /// The key that an item of the table has.
    pub(crate) fn read(table: Table, item: &Item) -> Result<Self, StoreError> {
        let (definition, row) = (table.definition(), Row { table, item });
        let partition = row.text(definition.partition_key)?.to_owned();
        let sort = match definition.sort_key {
            None => None,
            Some(Attribute::Text(name)) => Some(row.text(name)?.to_owned()),
            Some(Attribute::Number(name)) => Some(row.number(name)?.to_string()),
        };
        Ok(Self { table, partition, sort })
    }

    /// Its parts.
    pub(crate) fn parts(&self) -> (&str, Option<&str>) {
        (&self.partition, self.sort.as_deref())
    }

    pub(crate) fn attributes(&self) -> Item {
        let definition = self.table.definition();
        let sort = self.sort.clone().zip(definition.sort_key).map(|(sort, attribute)| match attribute {
            Attribute::Text(name) => (name.to_owned(), AttributeValue::S(sort)),
            Attribute::Number(name) => (name.to_owned(), AttributeValue::N(sort)),
        });
        let partition = (definition.partition_key.to_owned(), AttributeValue::S(self.partition.clone()));
        std::iter::once(partition).chain(sort).collect()
    }
}

/// An item of a table, to be read.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    pub(crate) table: Table,
    pub(crate) item: &'a Item,
}

impl<'a> Row<'a> {
    /// Whether there is such an attribute.
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

    /// A value that is kept as its text.
    pub(crate) fn parsed<T: FromStr<Err: Into<BoxError>>>(&self, name: &'static str) -> Result<T, StoreError> {
        self.required(name, self.maybe_parsed(name)?)
    }

    pub(crate) fn maybe_parsed<T: FromStr<Err: Into<BoxError>>>(
        &self,
        name: &'static str,
    ) -> Result<Option<T>, StoreError> {
        self.maybe_text(name)?.map(str::parse).transpose().map_err(|error| self.unreadable(error))
    }

    /// A value that is kept as its text and made from it.
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
        let not_one = || self.unreadable(format!("attribute `{name}` is not a number of ours"));
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

    /// Bytes of a length that is known.
    pub(crate) fn array<const N: usize>(&self, name: &'static str) -> Result<[u8; N], StoreError> {
        self.bytes(name)?.try_into().map_err(|_| self.unreadable(format!("attribute `{name}` is not {N} bytes")))
    }

    /// A list, each element of which `read` understands.
    pub(crate) fn list<T>(
        &self,
        name: &'static str,
        read: impl Fn(&AttributeValue) -> Option<T>,
    ) -> Result<Vec<T>, StoreError> {
        let list = self.item.get(name).and_then(|value| value.as_l().ok());
        let list = list.and_then(|values| values.iter().map(read).collect());
        list.ok_or_else(|| self.unreadable(format!("attribute `{name}` is not a list of ours")))
    }

    /// The item does not say what it should.
    pub(crate) fn unreadable(&self, source: impl Into<BoxError>) -> StoreError {
        StoreError::Corrupt { table: self.table.name(), source: source.into() }
    }

    fn required<T>(&self, name: &'static str, value: Option<T>) -> Result<T, StoreError> {
        value.ok_or_else(|| self.unreadable(format!("attribute `{name}` is missing")))
    }
}

/// When an item ends; the attribute beside [`TTL`] that has milliseconds.
pub(crate) const EXPIRES_AT: &str = "expires_at";

/// Both attributes of an item's end.
pub(crate) fn end(at: Option<Timestamp>) -> [(&'static str, Option<AttributeValue>); 2] {
    [(EXPIRES_AT, at.map(text)), (TTL, at.map(ttl))]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &'static str, value: AttributeValue, expected: &str) {
        let item = HashMap::from([(name.to_owned(), value)]);
        let row = Row { table: Table::Messages, item: &item };
        let error = match name {
            "number" => row.number(name).unwrap_err(),
            "bytes" => row.array::<16>(name).unwrap_err(),
            _ => row.parsed::<Timestamp>("time").unwrap_err(),
        };
        let StoreError::Corrupt { table, source } = error else { panic!("{error:?}") };
        assert_eq!((table, source.to_string().as_str()), ("messages", expected));
    }

    #[test]
    fn what_we_never_wrote_is_an_error_that_names_the_attribute() {
        check("number", text("7"), "attribute `number` is not a number of ours");
        check("number", AttributeValue::N("-7.5".to_owned()), "attribute `number` is not a number of ours");
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
        for key in [Key::one(Table::Chats, "a"), Key::of(Table::Messages, "a", 7), Key::of(Table::Requests, "a", "b")] {
            assert_eq!(Key::read(key.table, &key.attributes()).unwrap(), key);
        }
    }
}
