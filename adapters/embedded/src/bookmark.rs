//! Bookmarks of pages: the last key of a page, in hexadecimal digits.

use std::ops::Bound;

use ports::{PageBookmark, StoreError};

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Result<Vec<u8>, StoreError> {
    let digits = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(digits).collect();
    bytes.ok_or_else(|| strange(text))
}

/// The key of a bookmark.
pub(crate) fn start_after(after: Option<&PageBookmark>) -> Result<Option<Vec<u8>>, StoreError> {
    after.map(|PageBookmark(text)| unhex(text)).transpose()
}

/// The range of keys after `after`.
pub(crate) fn range_after(after: Option<Vec<u8>>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded)
}

/// The error for a bookmark that this store did not make.
pub(crate) fn strange(text: &str) -> StoreError {
    StoreError::unavailable(format!("`{text}` is no bookmark of this store"))
}
