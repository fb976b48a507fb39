use std::time::Duration;

use ports::ProcessRole;

/// How long a call may take, unless a process is told otherwise (G5).
pub(crate) const DEADLINE: Duration = Duration::from_secs(5);
/// Bytes of a request, at the most.
pub(crate) const REQUEST_BYTES_MAX: usize = 256 * 1024;
/// Bytes of a reply, at the most. The longest is a page of messages.
pub(crate) const REPLY_BYTES_MAX: usize = 1024 * 1024;
/// When whoever could not be served is asked to try again.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Whom a process calls, and how long it may take.
#[derive(Clone, Debug)]
pub struct Config {
    /// The roles whose processes are followed; those of others are not found.
    pub roles: Vec<ProcessRole>,
    /// How often the list of processes is read.
    pub refresh: Duration,
    /// By when every call is answered (G5).
    pub deadline: Duration,
    /// How long connecting to a process may take.
    pub connect_timeout: Duration,
    /// How long a process that failed too often is left alone.
    pub breaker_pause: Duration,
    /// Sends to one process without an answer, at the most; the next one is told that the service is busy.
    pub sends_max: usize,
    /// Other calls of one process without an answer, at the most; the next one is refused.
    pub calls_max: usize,
}

impl Config {
    /// The usual bounds.
    pub fn new(roles: Vec<ProcessRole>) -> Self {
        Self {
            roles,
            refresh: Duration::from_secs(1),
            deadline: DEADLINE,
            connect_timeout: Duration::from_secs(1),
            breaker_pause: Duration::from_secs(30),
            sends_max: 8192,
            calls_max: 1024,
        }
    }
}
