use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use domain::{ChatId, Sequence, Timestamp};
use serde::{Deserialize, Serialize};

use super::ApiError;

/// Where a list goes on. Clients give back what they got and never look inside; the number in a name is the version of
/// what is inside, so that a cursor from before an upgrade is refused and not misread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cursor {
    /// The inbox after a chat with this last activity.
    #[serde(rename = "inbox_1")]
    Inbox { activity: Timestamp, chat_id: ChatId },
    /// History below a sequence, newest first.
    #[serde(rename = "older_1")]
    Older { before: Sequence },
    /// History above a sequence, oldest first.
    #[serde(rename = "newer_1")]
    Newer { after: Sequence },
}

impl Cursor {
    pub(crate) fn encode(self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(&self).expect("ids and numbers always serialize"))
    }

    pub(crate) fn decode(text: &str) -> Result<Self, ApiError> {
        BASE64_URL_SAFE_NO_PAD
            .decode(text)
            .ok()
            .and_then(|json| serde_json::from_slice(&json).ok())
            .ok_or_else(Self::unknown)
    }

    /// The answer to a cursor of another list, another version or nobody.
    pub(crate) fn unknown() -> ApiError {
        ApiError::field("cursor", "is not a cursor of this list")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_round_trip() {
        let inbox = Cursor::Inbox { activity: Timestamp::from_millis(7), chat_id: ChatId::from_bytes([3; 16]) };
        for cursor in [inbox, Cursor::Older { before: Sequence(9) }, Cursor::Newer { after: Sequence(u64::MAX) }] {
            assert_eq!(Cursor::decode(&cursor.encode()).unwrap(), cursor);
        }
    }

    #[test]
    fn what_is_not_a_cursor_is_refused() {
        let other_version = BASE64_URL_SAFE_NO_PAD.encode(r#"{"older_2":{"before":9}}"#);
        for text in ["", "%%", "bm90IGpzb24", other_version.as_str()] {
            assert!(Cursor::decode(text).is_err(), "{text}");
        }
    }
}
