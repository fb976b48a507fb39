use std::time::SystemTime;

use domain::Timestamp;
use ulid::Ulid;

/// Reads the wall clock.
pub trait Clock: Send + Sync {
    /// The current time. It may step back, so ordering must never depend on it.
    fn now(&self) -> Timestamp;
}

/// Generates ids.
pub trait Ids: Send + Sync {
    /// A new unique ulid with the current time.
    fn ulid(&self) -> Ulid;
}

/// The system clock of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }
}

/// Ulids from the system clock and 80 random bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomIds;

impl Ids for RandomIds {
    fn ulid(&self) -> Ulid {
        Ulid::from_parts(SystemClock.now().as_millis(), rand::random::<u128>())
    }
}
