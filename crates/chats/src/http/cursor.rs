use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use domain::{ChatId, Sequence, Timestamp, UserId};
use serde::{Deserialize, Serialize};

use super::ApiError;
use crate::Api;

/// Where a list goes on. Clients give back what they got and never look inside; the number in a name is the version of
/// what is inside, so that a cursor from before an upgrade is refused and not misread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cursor {
    /// The inbox as it was when its newest activity was `newest`, after a chat with this last activity.
    #[serde(rename = "inbox_2")]
    Inbox { newest: Timestamp, activity: Timestamp, chat_id: ChatId },
    /// History below a sequence, newest first.
    #[serde(rename = "older_1")]
    Older { before: Sequence },
    /// History above a sequence, oldest first.
    #[serde(rename = "newer_1")]
    Newer { after: Sequence },
    /// Contacts behind one of them.
    #[serde(rename = "contacts_1")]
    Contacts { after: UserId },
    /// Blocked users behind one of them.
    #[serde(rename = "blocks_1")]
    Blocks { after: UserId },
}

/// The list that a cursor is of. A cursor is sealed for its list, so that one that was changed, made up or taken from
/// another list is refused.
#[derive(Clone, Copy, Debug)]
pub(crate) enum List {
    Inbox(UserId),
    History(ChatId),
    Contacts(UserId),
    Blocks(UserId),
}

/// Bytes of the seal: too many to guess one over the network.
const SEAL_BYTES: usize = 12;

impl Cursor {
    pub(crate) fn encode(self, api: &Api, list: List) -> String {
        let text = serde_json::to_string(&self).expect("ids and numbers always serialize");
        let seal = seal(api, list, &text);
        BASE64_URL_SAFE_NO_PAD.encode([&seal[..], text.as_bytes()].concat())
    }

    pub(crate) fn decode(api: &Api, list: List, cursor: &str) -> Result<Self, ApiError> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor).map_err(|_| Self::unknown())?;
        let (found, text) = bytes.split_at_checked(SEAL_BYTES).ok_or_else(Self::unknown)?;
        let text = str::from_utf8(text).map_err(|_| Self::unknown())?;
        verify_slices_are_equal(found, &seal(api, list, text)).map_err(|_| Self::unknown())?;
        serde_json::from_str(text).map_err(|_| Self::unknown())
    }

    /// The answer to a cursor of another list, another version or nobody.
    pub(crate) fn unknown() -> ApiError {
        ApiError::field("cursor", "is not a cursor of this list")
    }
}

fn seal(api: &Api, list: List, text: &str) -> [u8; SEAL_BYTES] {
    let list = match list {
        // The name inside tells the lists of a user apart.
        List::Inbox(user_id) | List::Contacts(user_id) | List::Blocks(user_id) => user_id.to_string(),
        List::History(chat_id) => chat_id.to_string(),
    };
    // Ids have no space, so no list and text read like another list and text.
    let seal = api.auth.seal("cursor", &format!("{list} {text}"));
    *seal.first_chunk().expect("a seal is longer than what is kept of it")
}
