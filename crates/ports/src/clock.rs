use std::time::SystemTime;

use domain::Timestamp;
use ulid::Ulid;

/// Tells the time of day.
pub trait Clock: Send + Sync {
    /// The present moment. It may step back, as wall clocks do; nothing may rest on it that must not.
    fn now(&self) -> Timestamp;
}

/// Makes new ids.
pub trait Ids: Send + Sync {
    /// A ulid of this moment that nobody else has.
    fn ulid(&self) -> Ulid;
}

/// The clock of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }
}

/// Ids of this machine's time and 80 random bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomIds;

impl Ids for RandomIds {
    fn ulid(&self) -> Ulid {
        Ulid::from_parts(SystemClock.now().as_millis(), rand::random::<u128>())
    }
}
