/// The error of an engine, of any type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A store operation that failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store is unavailable and may recover: a full disk, a failed fsync, a lost connection. A failed write may
    /// still have taken effect, so a retry must use the same ids.
    #[error("the store is unavailable")]
    Unavailable(#[source] BoxError),
    /// A record does not decode. A retry does not help; an operator has to inspect the record.
    #[error("a stored record of `{table}` is unreadable")]
    Corrupt {
        /// The table of the record.
        table: &'static str,
        /// The error of the decoder.
        #[source]
        source: BoxError,
    },
}

impl StoreError {
    /// Wraps `reason` as [`StoreError::Unavailable`].
    pub fn unavailable(reason: impl Into<BoxError>) -> Self {
        Self::Unavailable(reason.into())
    }
}
