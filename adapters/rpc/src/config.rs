use std::time::Duration;

use ports::ProcessRole;

/// Default deadline of a call (G5).
pub(crate) const DEADLINE: Duration = Duration::from_secs(5);
/// Largest request, in bytes.
pub(crate) const REQUEST_BYTES_MAX: usize = 256 * 1024;
/// Largest reply, in bytes. The longest is a page of messages.
pub(crate) const REPLY_BYTES_MAX: usize = 1024 * 1024;
/// Retry delay in an `Unavailable` error.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Roles that a process calls, deadlines, and limits.
#[derive(Clone, Debug)]
pub struct Config {
    /// The roles to follow in the list of processes; processes of other roles cannot be called.
    pub roles: Vec<ProcessRole>,
    /// Interval at which the list of processes is read.
    pub refresh: Duration,
    /// Deadline of every call (G5).
    pub deadline: Duration,
    /// Timeout of connecting to a process.
    pub connect_timeout: Duration,
    /// How long the circuit breaker of a process stays open.
    pub breaker_pause: Duration,
    /// Limit of pending sends per process; further sends fail with `Busy`.
    pub sends_max: usize,
    /// Limit of other pending calls per process; further calls are refused.
    pub calls_max: usize,
}

impl Config {
    /// Default limits.
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
