/// Whatever an engine says went wrong.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A store that could not answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store cannot work now and may later: a full disk, a failed fsync, a lost connection. A write may have
    /// happened all the same; whoever retries it uses the same ids.
    #[error("the store is unavailable")]
    Unavailable(#[source] BoxError),
    /// A record does not decode. Retrying does not help; somebody has to look.
    #[error("a stored record of `{table}` is unreadable")]
    Corrupt {
        /// The table the record is in.
        table: &'static str,
        /// What the decoder said.
        #[source]
        source: BoxError,
    },
}

impl StoreError {
    /// A store that is unavailable for the given reason.
    pub fn unavailable(reason: impl Into<BoxError>) -> Self {
        Self::Unavailable(reason.into())
    }
}
