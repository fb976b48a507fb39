use domain::limits::REQUEST_ID_CHARS_MAX;
use serde::{Deserialize, Deserializer, Serialize};

/// A client-chosen name for a request, echoed in the reply: opaque, 1 to 64 characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct RequestId(Box<str>);

impl RequestId {
    /// Creates an id from a text, if its length is within the bounds.
    pub fn new(text: impl Into<Box<str>>) -> Option<Self> {
        let text = text.into();
        (1..=REQUEST_ID_CHARS_MAX).contains(&text.chars().count()).then_some(Self(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Box::<str>::deserialize(deserializer)?)
            .ok_or_else(|| serde::de::Error::custom("request_id has 1 to 64 characters"))
    }
}
