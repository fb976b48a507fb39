use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use domain::{ChatId, Sequence, Timestamp, UserId};
use serde::{Deserialize, Serialize};

use super::RestError;
use crate::Api;

/// The position of the next page of a list, opaque to clients. The number in a name is the version of its fields, so that
/// a cursor from before an upgrade is refused and not misread.
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
    /// Contacts after one of them.
    #[serde(rename = "contacts_1")]
    Contacts { after: UserId },
    /// Blocked users after one of them.
    #[serde(rename = "blocks_1")]
    Blocks { after: UserId },
    /// Members with reactions on a message after one of them.
    #[serde(rename = "reactions_1")]
    Reactions { after: UserId },
}

/// The list that a cursor belongs to. The seal of a cursor covers its list, so a modified or forged cursor, or a cursor
/// of another list, is refused.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PagedList {
    Inbox(UserId),
    History(ChatId),
    Contacts(UserId),
    Blocks(UserId),
    Reactions(ChatId, Sequence),
}

/// Bytes of the seal: enough to make guessing over the network infeasible.
const SEAL_BYTES: usize = 12;

impl Cursor {
    pub(crate) fn encode(self, api: &Api, list: PagedList) -> String {
        let text = serde_json::to_string(&self).expect("ids and numbers always serialize");
        let seal = seal(api, list, &text);
        BASE64_URL_SAFE_NO_PAD.encode([&seal[..], text.as_bytes()].concat())
    }

    pub(crate) fn decode(api: &Api, list: PagedList, cursor: &str) -> Result<Self, RestError> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor).map_err(|_| Self::unknown())?;
        let (found, text) = bytes.split_at_checked(SEAL_BYTES).ok_or_else(Self::unknown)?;
        let text = str::from_utf8(text).map_err(|_| Self::unknown())?;
        verify_slices_are_equal(found, &seal(api, list, text)).map_err(|_| Self::unknown())?;
        serde_json::from_str(text).map_err(|_| Self::unknown())
    }

    /// The error for a cursor that is forged, or of another list or version.
    pub(crate) fn unknown() -> RestError {
        RestError::field("cursor", "is not a cursor of this list")
    }
}

fn seal(api: &Api, list: PagedList, text: &str) -> [u8; SEAL_BYTES] {
    let list = match list {
        // The variant name in the text distinguishes the lists of a user.
        PagedList::Inbox(user_id) | PagedList::Contacts(user_id) | PagedList::Blocks(user_id) => user_id.to_string(),
        PagedList::History(chat_id) => chat_id.to_string(),
        PagedList::Reactions(chat_id, sequence) => format!("{chat_id}:{sequence}"),
    };
    // Ids contain no space, so the joined text is unambiguous.
    let seal = api.auth.seal("cursor", &format!("{list} {text}"));
    *seal.first_chunk().expect("a seal is longer than what is kept of it")
}
