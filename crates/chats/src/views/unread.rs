use domain::limits::CONTENT_BYTES_MAX;
use domain::{ChatId, Sequence, Timestamp, UserId};
use ports::PageBounds;

use crate::Api;
use crate::http::ApiError;

/// How many messages above a read watermark are looked at.
const EXACT_MAX: usize = 1000;

/// The messages above `reader`'s read watermark that somebody else sent and that have not expired (G10).
///
/// Watermark and head alone cannot say it, because the reader's own messages lie between them; so the rows do. To keep
/// an inbox cheap the count is exact for the first thousand rows above the watermark, and counts every sequence further
/// up as unread.
pub(super) async fn unread_count(
    api: &Api,
    chat_id: ChatId,
    reader: UserId,
    read: Sequence,
    head: Sequence,
    now: Timestamp,
) -> Result<u64, ApiError> {
    if read >= head {
        return Ok(0);
    }
    let bounds = PageBounds { count: EXACT_MAX, bytes: EXACT_MAX * CONTENT_BYTES_MAX };
    let page = api.messages.after(chat_id, read, bounds, now).await?;
    let counted = page.messages.iter().filter(|message| message.sender_id != reader).count() as u64;
    Ok(counted + page.head.0.saturating_sub(page.examined.0))
}
