use std::time::Duration;

/// Where the tables are.
#[derive(Clone, Debug)]
pub struct Config {
    /// What the name of every table begins with, so that several fleets share an account.
    pub table_prefix: String,
    /// The address of the service, where it is not Amazon's own.
    pub endpoint: Option<String>,
    /// The region; what the environment says, if absent.
    pub region: Option<String>,
    /// Whether tables are kept recoverable to any second of the last weeks. Only servers on a developer's machine have
    /// no such thing.
    pub point_in_time_recovery: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { table_prefix: "tidings_".to_owned(), endpoint: None, region: None, point_in_time_recovery: true }
    }
}

/// How long one call of a port may take, with all its tries (G5).
pub(crate) const CALL_DEADLINE: Duration = Duration::from_secs(5);
/// How long one request may go without an answer before it is asked again.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a connection may take to open.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How often one request is asked, at the most.
pub(crate) const REQUEST_ATTEMPTS: u32 = 5;
/// The longest pause before a request is asked the second time; it doubles with each.
pub(crate) const REQUEST_PAUSE: Duration = Duration::from_millis(50);
