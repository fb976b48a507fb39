use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::limits::METADATA_BYTES_MAX;

/// The custom metadata of a message: a JSON object of the application, which the server passes on and never interprets.
///
/// It is kept as compact JSON text with sorted keys, so that equal objects have equal texts: a retry matches however its
/// client formats the object. `Debug` hides it, so that it never reaches a log.
#[derive(Clone, PartialEq, Eq)]
pub struct Metadata(Box<str>);

/// Why a value is not valid metadata.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    #[error("metadata has {0} bytes as compact JSON, limit is {METADATA_BYTES_MAX}")]
    TooLong(usize),
    #[error("metadata is not a JSON object")]
    NotAnObject(#[from] serde_json::Error),
}

impl Metadata {
    /// The object as compact JSON.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The object.
    pub fn to_object(&self) -> Map<String, Value> {
        serde_json::from_str(&self.0).expect("the text was made from an object")
    }
}

impl TryFrom<Map<String, Value>> for Metadata {
    type Error = MetadataError;

    fn try_from(object: Map<String, Value>) -> Result<Self, MetadataError> {
        let text = Value::Object(object).to_string();
        match text.len() {
            len if len > METADATA_BYTES_MAX => Err(MetadataError::TooLong(len)),
            _ => Ok(Self(text.into_boxed_str())),
        }
    }
}

impl TryFrom<String> for Metadata {
    type Error = MetadataError;

    fn try_from(text: String) -> Result<Self, MetadataError> {
        serde_json::from_str::<Map<_, _>>(&text)?.try_into()
    }
}

impl Serialize for Metadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let object: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        object.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Map::deserialize(deserializer)?.try_into().map_err(serde::de::Error::custom)
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Metadata, MetadataError> {
        text.to_owned().try_into()
    }

    #[test]
    fn equal_objects_have_equal_texts() {
        let metadata = parse(" {\"b\": [1, null],\n \"a\": {\"é\": 1.50}} ").unwrap();
        assert_eq!(metadata.as_str(), r#"{"a":{"é":1.5},"b":[1,null]}"#);
        assert_eq!(metadata, parse(r#"{"a":{"\u00e9":1.5},"b":[1,null]}"#).unwrap());
        assert_eq!(serde_json::to_string(&metadata).unwrap(), metadata.as_str());
        assert_eq!(serde_json::from_str::<Metadata>(metadata.as_str()).unwrap(), metadata);
    }

    #[test]
    fn only_an_object_of_at_most_one_kibibyte_is_metadata() {
        for text in ["", "7", "null", "[]", "\"a\"", "{", r#"{"a":1}{}"#] {
            assert!(matches!(parse(text), Err(MetadataError::NotAnObject(_))), "{text}");
        }
        let long = |len: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(len - 8));
        assert_eq!(parse(&long(1024)).unwrap().as_str().len(), 1024);
        assert!(matches!(parse(&long(1025)), Err(MetadataError::TooLong(1025))));
    }

    #[test]
    fn debug_hides_the_values() {
        assert_eq!(format!("{:?}", parse(r#"{"a":"secret"}"#).unwrap()), "<14 bytes>");
    }
}
