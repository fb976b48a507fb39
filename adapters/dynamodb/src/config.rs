use std::time::Duration;

/// The location of the tables.
#[derive(Clone, Debug)]
pub struct Config {
    /// Prefix of all table names, so that several fleets can share an account.
    pub table_prefix: String,
    /// The endpoint of the service, if it is not Amazon's default.
    pub endpoint: Option<String>,
    /// The region; taken from the environment if absent.
    pub region: Option<String>,
    /// Whether point-in-time recovery is enabled for tables. Only local test servers do not support it.
    pub point_in_time_recovery: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { table_prefix: "tidings_".to_owned(), endpoint: None, region: None, point_in_time_recovery: true }
    }
}

/// Deadline of one port call, including retries (G5).
pub(crate) const CALL_DEADLINE: Duration = Duration::from_secs(5);
/// Timeout of one request attempt.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of opening a connection.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Limit of attempts per request.
pub(crate) const REQUEST_ATTEMPTS: u32 = 5;
/// Longest delay before the second attempt; it doubles with each further one.
pub(crate) const REQUEST_PAUSE: Duration = Duration::from_millis(50);
